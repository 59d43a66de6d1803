"""How often timed verdicts are wrong, and what they find: simulated pull requests, run by hand."""

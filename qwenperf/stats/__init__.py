"""Statistics as pure functions on arrays; knows nothing of runs, gates or JAX."""

"""Whether a search finds a commit that is known: real slowdowns planted in synthetic histories, run by hand."""

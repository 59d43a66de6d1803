"""What ASV runs. A folder of its own: ASV imports every module below it, and takes every ``time_`` for a benchmark."""

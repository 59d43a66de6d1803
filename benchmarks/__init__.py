"""The ASV suite. Benchmarks are listed without JAX; it is imported in the processes that measure."""

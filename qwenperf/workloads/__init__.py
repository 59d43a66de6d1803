"""Cases and suites: data only, listed without JAX by every edge of the house."""

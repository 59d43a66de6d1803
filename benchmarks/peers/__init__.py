"""Comparisons with other libraries, each for an environment that has it installed."""

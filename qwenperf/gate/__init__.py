"""Gates: rules that read records and say pass, fail, inconclusive or skipped, with the evidence.

Knows budgets and records only: nothing here measures, imports JAX, or talks to anybody.
"""

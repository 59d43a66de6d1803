"""The CI benchmark service: one place where every run of every machine arrives, is kept, judged and drawn.

It reads and writes records and knows no JAX, no lab and no command line.
"""

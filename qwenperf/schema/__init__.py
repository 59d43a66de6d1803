"""The words of the project as records: what a run, a case and a verdict are, on disk and on the wire.

Knows nothing of JAX, of how things are measured, or of how they are judged.
"""

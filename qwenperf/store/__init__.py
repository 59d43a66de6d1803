"""Where runs are kept and found again: folders at a URL, and an index of them that can be thrown away.

Knows nothing of how runs come about, and does not judge them.
"""

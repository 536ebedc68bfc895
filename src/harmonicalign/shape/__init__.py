"""Alignment by shape alone: two datasets that share no feature, matched by the distances within each.

Shape can mislead: a dataset that is nearly symmetric fits another one in several ways. So the search looks
for different solutions on purpose, and an alignment is refused where another one is nearly as good.
"""

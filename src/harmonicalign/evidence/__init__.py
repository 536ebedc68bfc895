"""Evidence for an alignment: which features correspond, whether this is chance, and the confidence of rows.

It uses the harmonics of `paper`, evaluates a rotation or coordinates, and computes no alignment.
"""

"""What the data say about an alignment: which features correspond, is that chance, which rows to trust.

It knows the harmonics of `paper` and judges a rotation or coordinates; it aligns nothing itself.
"""

"""Uses of aligned coordinates: transfer of labels and values; correction, denoising, imputation of features.

It uses coordinates and values on their rows only, and is independent of the alignment method.
"""

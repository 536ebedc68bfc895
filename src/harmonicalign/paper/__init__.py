"""Harmonic Alignment as published: graph, harmonics, bands, alignment, unified map.

The reference: improvements are measured against it and never change it. Files are in the order of the paper.
It knows `engines` and `inputs`.
"""

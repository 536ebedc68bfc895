"""What aligned coordinates are for: labels and values transferred, features corrected, denoised and imputed.

It knows coordinates and values over their rows, not how the coordinates were found.
"""

"""Ways in and out: AnnData, files, commands, reports, pictures, clusters.

They translate between the outside and the library, read public names only, and hold no mathematics.
"""

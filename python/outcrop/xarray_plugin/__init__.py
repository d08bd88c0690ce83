"""What xarray finds by its entry points: our files, and our arrays as chunked ones.

Nothing here is imported by the rest of Outcrop.
"""

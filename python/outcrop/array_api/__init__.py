"""Functions by the categories of the Python array API standard, and NumPy's."""

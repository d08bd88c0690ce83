"""What front ends share that compile functions of the user's: reading them, and Numba."""

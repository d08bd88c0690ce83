"""From arrays to nodes, and back."""

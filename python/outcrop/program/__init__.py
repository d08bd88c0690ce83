"""Programs: what they will cost, and what they have cost."""

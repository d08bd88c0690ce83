"""Other graphs for the same arrays, which are computed in less time or memory."""

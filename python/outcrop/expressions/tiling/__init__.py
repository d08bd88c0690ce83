"""Into which tiles the arrays of an expression are cut, and what is computed together."""

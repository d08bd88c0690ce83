"""What a step of an expression does."""

"""Moving elements: transposition, rotation, flips."""

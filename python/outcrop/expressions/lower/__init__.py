"""From a graph to the arrays and steps of a program."""

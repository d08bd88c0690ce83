"""What an array that is not computed yet is made of: the nodes of the graph."""

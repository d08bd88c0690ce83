"""Array expressions: graphs of lazy arrays, how they are planned as a whole, and how they run.

- `build`: from arrays to the `graph`, and back. `rewrite`: other graphs for the same arrays.
- `tiling`: which axes run together, and into which tiles they are cut.
- `lower`: from a graph to a program of steps on tiles. `kernels`: what a step does.
- `planner`: planning and running.
"""

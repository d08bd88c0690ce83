"""Array expressions: graphs of lazy arrays, how they are planned as a whole, and how they run.

- `nodes`, `functions`, `reductions`: what expressions are made of. `pushing`: views of them.
- `axes`, `cuts`: which axes run together, and into which tiles they are cut.
- `lower`: from a graph to a program of steps on tiles. `tape`: what a step does.
- `run`: planning and running.
"""

"""The command line: the jobs that need no script.

- `app`: the command with its global options, and how it ends: errors, interrupts, exit status.
- `info`, `copy`, `convert`, `verify`, `doctor`: a verb each.
- `places`: what stands for an array on the command line.
- `values`: what stands for tiles, boxes and codecs.
- `session`: what the global options ask for.
- `progress`: the bar. `results`: lines and tables for people.
"""

from outcrop.cli.app import main

__all__ = ["main"]

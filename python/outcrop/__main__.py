"""``python -m outcrop`` is the command ``outcrop``."""

import sys

from outcrop.cli import main

if __name__ == "__main__":
    sys.exit(main())

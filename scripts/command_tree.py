"""Writes the verbs and options by which shells complete, after the command line has changed."""

import json
from pathlib import Path

from outcrop.cli import completion
from outcrop.cli.app import group

TREE = Path(completion.__file__).with_name("tree.json")

TREE.write_text(json.dumps(completion.described(group), indent=1, ensure_ascii=False) + "\n")
print(f"{TREE} has {len(group.commands)} verbs")

"""Programs that were found for a nest, kept on disk: another process need not look for them again.

What is kept are numbers and text only; what they are of, the nest, is read again from its source.
"""

import ast
import io
import pickle
from collections.abc import Sequence
from dataclasses import astuple
from typing import NoReturn

import numpy as np

from outcrop.compiled.cached import digest, meaning_of
from outcrop.compiled.function import FunctionText
from outcrop.loops.kernel import Code, kernel_name
from outcrop.loops.nest import Nest
from outcrop.loops.polyhedra import Dependence
from outcrop.loops.program import Chosen, Job
from outcrop.loops.tiles import Cut, Step
from outcrop.process.cache import Cache

__all__ = ["name_of", "recall", "remember"]

_MOST = 64 << 20
"""Bytes of programs that are kept."""

_cache = Cache("loops", _MOST)


def name_of(text: FunctionText, parts: Sequence[object]) -> str:
    """The name under which the program of a nest is kept.

    Parameters
    ----------
    text : FunctionText
        The nest.
    parts : sequence
        What it is called with.
    """
    used = {n.id for one in text.tree.body for n in ast.walk(one) if isinstance(n, ast.Name)}
    # Numbers are part of bounds and subscripts; functions only of what is compiled.
    numbers = {}
    for name in used & text.outside.keys():
        value = text.outside[name]
        if meaning_of({name: value}) is not None:
            numbers[name] = value
    source = [ast.dump(one) for one in text.tree.body]
    return digest("nest", (source, text.parameters, meaning_of(numbers), *parts))


class _Plain(pickle.Unpickler):
    """Reads numbers, text, and tuples, lists and dictionaries of them."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"{module}.{name} is not plain")


def remember(name: str, chosen: Chosen) -> None:
    """Keep a program."""
    job = chosen.job
    facts = {
        "units": chosen.units,
        "cuts": [astuple(cut) for cut in chosen.cuts],
        "steps": [(s.unit, s.stamp, s.first, s.end, s.touched, s.is_mixed) for s in chosen.steps],
        "codes": [
            (c.finders, c.source, c.arrays, c.n_fixed, c.work, c.products) for c in chosen.codes
        ],
        "points": chosen.points,
        "schedule": chosen.schedule,
        "reasons": chosen.reasons,
        "dependences": [astuple(d) for d in chosen.dependences],
        "others": chosen.others,
        "made_anew": sorted(job.made_anew),
        "tiles": dict(job.tiles),
        "arrays": {p: (shape, dtype.str) for p, (shape, dtype) in job.nest.arrays.items()},
        "statements": [s.name for s in job.nest.statements],
    }
    _cache.put(name, pickle.dumps(facts, protocol=5))


def recall(name: str, nest: Nest, job: Job) -> Chosen | None:
    """The program that is kept; None where there is none.

    Parameters
    ----------
    name : str
        Its name.
    nest : Nest
        The nest as it is read, which becomes what it was when the program was found.
    job : Job
        What is to be done.
    """
    content = _cache.get(name)
    if content is None:
        return None
    try:
        facts = _Plain(io.BytesIO(content)).load()
        names = set(facts["statements"])
        statements = [s for s in nest.statements if s.name in names]
        arrays = {p: (shape, np.dtype(kind)) for p, (shape, kind) in facts["arrays"].items()}
        units = facts["units"]
        codes = [
            Code(kernel_name(nest, own), *code)
            for (own, _, _), code in zip(units, facts["codes"], strict=True)
        ]
        found = Chosen(
            job=Job(
                nest,
                job.arrays,
                job.targets,
                frozenset(facts["made_anew"]),
                facts["tiles"],
                job.scalars,
                job.relaxed,
            ),
            units=units,
            cuts=[Cut(*cut) for cut in facts["cuts"]],
            steps=[Step(*step) for step in facts["steps"]],
            codes=codes,
            points=facts["points"],
            schedule=facts["schedule"],
            reasons=facts["reasons"],
            dependences=[Dependence(*d) for d in facts["dependences"]],
            others=facts["others"],
        )
    except Exception:
        # Nothing is made of it: it is found anew, and takes its place.
        return None
    if len(statements) != len(names):
        return None
    nest.statements, nest.arrays = statements, arrays
    return found

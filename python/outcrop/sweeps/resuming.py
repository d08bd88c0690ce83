"""Sweeps that go on where they were stopped: some at a time, whose results are kept."""

import ast
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from types import ModuleType
from typing import Any

from outcrop import _native
from outcrop.arrays import hooks
from outcrop.arrays.array import Array
from outcrop.arrays.creation import open
from outcrop.arrays.kept import SECONDS, Kept, Progress, Resumable, identity_of_view
from outcrop.arrays.route import with_the_least
from outcrop.arrays.saving import create_store, part_of, save
from outcrop.errors import InvalidArgumentError, UnsupportedError
from outcrop.formats.labels import Labels
from outcrop.process.operation import operation
from outcrop.program.progress import watching
from outcrop.sweeps.source import Sweeping, SweptPlan, SweptSource

__all__ = ["ResumableSweeps"]

_SECONDS = SECONDS
"""How long sweeps take that are kept together, roughly, by what is predicted."""

_MOVING = 10.0
"""How many times as long as moving the arrays once they take at least: more of them in flight move
less, and what is kept has to be written and read once more."""


class ResumableSweeps(Resumable):
    """Sweeps, some at a time: all arrays that they update are kept as these leave them.

    Parameters
    ----------
    sources : mapping
        By the names of their files, what shall become of arrays by the same sweeps.

    Raises
    ------
    UnsupportedError
        They are not results of the same sweeps, or some of what these read is not there.
    """

    def __init__(self, sources: Mapping[str, SweptSource]) -> None:
        self._sources = dict(sources)
        job = self._job = next(iter(sources.values())).job
        if any(not source.job.is_together_with(job) for source in sources.values()):
            raise UnsupportedError("resume= is for what one call of a sweep gives")
        for name, source in sources.items():
            source.check_open()
            source.check_target(name)
        self._opened: list[Array] = []
        self._done = 0
        self._kept = Kept(next(iter(sources)), self._work())

    def run(self, progress: Progress | None) -> float:
        """Do sweeps that are not done yet, but those that leave the result in its place."""
        done = self._kept.read()
        if done is not None and done > self._job.sweeps:
            raise InvalidArgumentError(
                f"{self._kept.path}: what is kept there is {done} sweeps further, and "
                f"{self._job.sweeps} are asked for; saving with resume=False removes it"
            )
        self._done = done or 0
        last = self._job.sweeps
        if len(self._sources) == 1 and self._done < last:
            # The last ones leave the result where it is wanted.
            last = max(last - self._together, self._done)
        if done is None and last:
            self._kept.begin()
        while self._done < last:
            count = min(self._together, last - self._done)
            share = (self._done / self._job.sweeps, (self._done + count) / self._job.sweeps)
            self._sweep(count, part_of(progress, *share))
        return self._done / self._job.sweeps

    def finish(
        self,
        save_all: Callable[..., dict[Any, Array]],
        *,
        overwrite: bool,
        progress: Progress | None,
    ) -> dict[Any, Array]:
        """Do those, or move what is kept to where it is wanted."""
        results = {name: self._result(source.job.result) for name, source in self._sources.items()}
        try:
            if len(results) > 1:
                names = {name: name for name in results}
                return save_all(names, results, overwrite=overwrite, progress=progress)
            ((name, result),) = results.items()
            saved = save(
                result._source,
                result._view,
                name,
                tile=None,
                format=None,
                order="C",
                overwrite=overwrite,
                codecs=None,
                zarr_format=None,
                progress=progress,
            )
            return {name: Array(saved)}
        finally:
            self._let_go()

    # -- some sweeps -----------------------------------------------------------------------------

    @cached_property
    def _together(self) -> int:
        """How many sweeps are kept together."""
        rest = self._rest(self._job.sweeps - self._done, self._job.result)
        with operation():
            source = SweptSource(rest)
            plan = with_the_least(lambda: source.plan((None, "{}")), _steps)
        facts, depth = plan.facts, plan.order.depth
        each = max(facts["seconds"] / max(rest.sweeps, 1), 1e-9)
        if each * depth <= _SECONDS:
            return depth * int(_SECONDS / (each * depth))
        passes = -(-rest.sweeps // depth)
        seconds = max(_SECONDS, _MOVING * facts["io_seconds"] / passes)
        return min(max(int(seconds / each), 1), depth)

    def _sweep(self, count: int, progress: Progress | None) -> None:
        """Do some sweeps, and keep what becomes of the arrays."""
        source = SweptSource(self._rest(count, self._job.result))
        end = self._done + count
        written = self._job.kernel.cell.written
        made: dict[str, _native.Store] = {}
        try:
            with operation():
                targets: dict[str, Any] = {p: (None, "{}") for p in written}
                plan = with_the_least(lambda: source.plan_all(targets), _steps)
                for p in written:
                    made[p] = self._new(end, p, plan)
                with (
                    source.naming_changes(),
                    watching(progress, source.name, plan.facts) as watched,
                ):
                    told = source.checking(watched)
                    plan.run_all(made, told, source._timeline())
        except BaseException:
            for store in made.values():
                with suppress(Exception):
                    store.abort()
            raise
        self._kept.write(end)
        self._let_go()
        self._done = end
        self._kept.leave_only([_name(end, p) for p in written])

    def _new(self, done: int, p: str, plan: SweptPlan) -> _native.Store:
        given = self._job.arrays[p]
        return create_store(
            self._kept.path / _name(done, p),
            given.shape,
            given.dtype,
            tile=plan.output_tile,
            format="zarr",
            order="C",
            codecs=None,
            zarr_format=None,
            labels=Labels(),
            overwrite=True,
        )

    def _rest(self, count: int, result: str) -> Sweeping:
        """The next sweeps."""
        arrays = dict(self._job.arrays)
        if self._done:
            arrays |= self._state
        first = self._job.first + self._done
        return replace(self._job, arrays=arrays, first=first, sweeps=count, result=result)

    def _result(self, p: str) -> Array:
        count = self._job.sweeps - self._done
        if not count:
            return self._state[p]
        source = SweptSource(self._rest(count, p))
        return Array(source)

    @cached_property
    def _state(self) -> dict[str, Array]:
        """What has become of the arrays that are updated."""
        found = {}
        for p in self._job.kernel.cell.written:
            array = open(self._kept.path / _name(self._done, p))
            self._opened.append(array)
            found[p] = hooks.now(array)
        return found

    def _let_go(self) -> None:
        """Close what is kept."""
        self.__dict__.pop("_state", None)
        for array in self._opened:
            array.close()
        self._opened.clear()

    def _work(self) -> tuple[Any, ...]:
        """By what sweeps, and the state of what they are done over, are known again."""
        job = self._job
        found: list[Any] = [job.first, job.scalars, job.boundaries]
        for kernel in job.kernels:
            cell = kernel.cell
            body = ast.dump(ast.Module(list(cell.body), []))
            names = {name: _meaning(value) for name, value in sorted(cell.names.items())}
            found.append((cell.parameters, body, names, kernel.inplace, kernel.directions))
        for p, array in job.arrays.items():
            identity = identity_of_view(array._source, array._view)
            if identity is None:
                raise UnsupportedError(
                    f"{p}: resume= is for sweeps over arrays that are stored or in memory, by "
                    "which they are known again; save what is computed first"
                )
            found.append((p, array.dtype.str, identity))
        return tuple(found)


def _name(done: int, p: str) -> str:
    return f"{done}-{p}.zarr"


def _steps(plan: SweptPlan) -> int:
    return int(plan.facts["steps"])


def _meaning(value: Any) -> Any:
    """What a name from outside means, so that others are told from it."""
    if (own := getattr(value, "py_func", None)) is not None:
        code = own.__code__
        constants = [one for one in code.co_consts if not hasattr(one, "co_code")]
        return code.co_code, code.co_names, repr(constants)
    if callable(value) or isinstance(value, ModuleType):
        return getattr(value, "__module__", None), value.__name__
    return repr(value)

"""What the last operation did."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from outcrop import _native
from outcrop.process.operation import copied_beside
from outcrop.process.sizes import format_bytes, html_table

__all__ = ["Run", "Traffic", "format_flops", "last_run"]


class Traffic(NamedTuple):
    """What was moved of an array for the steps of a kernel.

    Attributes
    ----------
    kernel, array : str
        Their names.
    bytes_read : int
        Bytes that were loaded: for the first step that used them.
    bytes_written : int
        Bytes that were stored: by the last step that changed them.
    waited : float
        Seconds in which threads had nothing to do but to wait for a tile of it, summed over them.
    """

    kernel: str
    array: str
    bytes_read: int
    bytes_written: int
    waited: float

    def __str__(self) -> str:
        found = [
            f"{word} {format_bytes(moved)}"
            for word, moved in (("read", self.bytes_read), ("written", self.bytes_written))
            if moved
        ]
        if self.waited:
            found.append(f"waited {self.waited:.3g} s")
        return f"{self.array}: {', '.join(found) or 'nothing'}"


@dataclass(frozen=True, repr=False)
class Run:
    """One operation that moved bytes or computed.

    Attributes
    ----------
    operation : str
        What it was.
    bytes_read, bytes_written : int
        Bytes moved from and to disk, those included that an HDF5 file had besides, and that were
        copied with it.
    seconds : float
        Wall-clock time.
    peak_bytes : int
        The most bytes of the budget in use at once.
    peak_rss : int
        The most resident memory of the process, in bytes.
    overlap : float
        Seconds in which I/O and computing went on at the same time.
    flops : float
        Arithmetic operations of a computation; 0 where nothing was computed.
    io_seconds : float
        Seconds of a computation in which data moved.
    kernels : dict of str to float
        Seconds that a computation spent in each of its kernels, summed over threads.
    traffic : tuple of Traffic
        What a computation moved for each of its kernels, array by array. A kernel of a loop nest
        (`loops`) is called by its lines. What is written besides elements is not among it.
    """

    operation: str
    bytes_read: int
    bytes_written: int
    seconds: float
    peak_bytes: int
    peak_rss: int
    overlap: float
    flops: float
    io_seconds: float
    kernels: Mapping[str, float] = field(hash=False)
    traffic: tuple[Traffic, ...]

    def explain(self) -> str:
        """Say what was moved for each kernel, array by array, and how long was waited for it.

        Returns
        -------
        str
            Lines for people.
        """
        lines = [
            f"{self.operation}: {self.seconds:.3g} s; data moved in {self.io_seconds:.3g} s of them"
        ]
        for kernel in dict.fromkeys(one.kernel for one in self.traffic):
            lines.append(f"  {kernel}: {self.kernels.get(kernel, 0.0):.3g} s of computing")
            lines += [f"    {one}" for one in self.traffic if one.kernel == kernel]
        lines.append(
            f"  read {format_bytes(self.bytes_read)}, written {format_bytes(self.bytes_written)}"
        )
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = {
            "seconds": f"{self.seconds:.3g}, data moved in {self.io_seconds:.3g} of them",
            "read": format_bytes(self.bytes_read),
            "written": format_bytes(self.bytes_written),
            "memory": f"{format_bytes(self.peak_bytes)} of the budget, "
            f"{format_bytes(self.peak_rss)} resident",
        }
        if self.flops:
            rows["speed"] = format_flops(self.flops / max(self.seconds, 1e-9))
        rows |= {
            f"kernel {name}": f"{taken:.3g} s, summed over threads"
            for name, taken in sorted(self.kernels.items(), key=lambda item: -item[1])
        }
        return html_table(f"outcrop.Run {self.operation}", rows)

    def __repr__(self) -> str:
        speed = f"{format_flops(self.flops / max(self.seconds, 1e-9))}, " if self.flops else ""
        return (
            f"<outcrop.Run {self.operation}: {self.seconds:.3g} s, {speed}"
            f"read {format_bytes(self.bytes_read)}, written {format_bytes(self.bytes_written)}, "
            f"peak {format_bytes(self.peak_bytes)} of the budget, "
            f"{format_bytes(self.peak_rss)} resident, overlap {self.overlap:.3g} s>"
        )


def last_run() -> Run | None:
    """Say what the last operation of this process did.

    Returns
    -------
    Run or None
        None where nothing has run.

    Examples
    --------
    >>> A = oc.fromfunction(lambda i: i, (1000,)).save("line.npy")
    >>> oc.last_run().bytes_written >= A.nbytes
    True
    """
    facts = _native.last_run()
    if facts is None:
        return None
    copied = copied_beside(facts)
    facts["bytes_read"] += copied
    facts["bytes_written"] += copied
    facts["traffic"] = tuple(Traffic(*one) for one in facts["traffic"])
    return Run(**{name: facts[name] for name in Run.__dataclass_fields__})


def format_flops(rate: float) -> str:
    """Write arithmetic operations in a second with three digits or so.

    Examples
    --------
    >>> format_flops(212.34e9), format_flops(34e9), format_flops(3.456e12), format_flops(1e5)
    ('212 Gflop/s', '34.0 Gflop/s', '3.46 Tflop/s', '0.100 Mflop/s')
    """
    power = next((p for p in (2, 3, 4) if rate < 999.5 * 1000**p), 5)
    digits = f"{rate / 1000**power:#.3g}".rstrip(".")
    return f"{digits} {'kMGTP'[power - 1]}flop/s"

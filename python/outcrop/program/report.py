"""What the last operation did."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from outcrop import _native
from outcrop.process.sizes import format_bytes

__all__ = ["Run", "format_flops", "last_run"]


@dataclass(frozen=True, repr=False)
class Run:
    """One operation that moved bytes or computed.

    Attributes
    ----------
    operation : str
        What it was.
    bytes_read, bytes_written : int
        Bytes moved from and to disk.
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

"""What the last operation did."""

from dataclasses import dataclass

from outcrop import _native
from outcrop._sizes import format_bytes

__all__ = ["Run", "last_run"]


@dataclass(frozen=True, repr=False)
class Run:
    """One operation that moved bytes.

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
    """

    operation: str
    bytes_read: int
    bytes_written: int
    seconds: float
    peak_bytes: int
    peak_rss: int
    overlap: float

    def __repr__(self) -> str:
        return (
            f"<outcrop.Run {self.operation}: {self.seconds:.3g} s, "
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

"""The compiled core: conversions only. Every function here releases the GIL while it works."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

__version__: str

Progress = Callable[[int, int], None]
"""Called from the calling thread, at most ten times a second, with bytes done and bytes in all."""

@final
class Store:
    """An array on disk."""

    path: str
    shape: tuple[int, ...]
    dtype: str  # NumPy name: "float64"
    tile: tuple[int, ...]  # which boxes move best; the chunk shape of a tiled array
    layout: str  # "tiled", "row-major" or "column-major"
    file_axes: Sequence[int] | None  # slowest first, as elements lie on disk; None if tiled
    format: str  # "zarr" (ours), "zarr-foreign", "npy", "raw", "pgm", "ppm", "pam" or "tiff"
    codecs: str  # for people: "bytes, crc32c"
    thickness: int | None  # of the frontiers that tiles have beside them
    writable: bool
    committed: bool  # False between create() and commit()
    closed: bool
    torn: bool  # whether an assignment ended before it was complete: then it is not to be committed
    attributes: str  # JSON object: Zarr's attributes, what an image's metadata says
    zarr_format: int | None  # 2 or 3; None of what is no Zarr array, as are the next two
    dimension_names: list[str | None] | None
    fill_value: bytes | None  # an element, little-endian
    stored_bytes: int  # bytes of the files

    def read(self, start: Sequence[int], shape: Sequence[int]) -> NDArray[Any]:
        """The box as a dense C-order array in native byte order, charged to the budget while it lives."""

    def shown(
        self, at: Sequence[tuple[int, int]], axes: Sequence[int], reversed: Sequence[bool]
    ) -> Store:
        """Without axes at one index each; those that are left, in this order, and backwards."""

    def sampled(self, indices: Sequence[tuple[int, tuple[int, int, int]]]) -> Store:
        """Along axes, so many indices from a first one on, at a distance: (axis, (first, step, count))."""

    def bytes_to_load(self, start: Sequence[int], shape: Sequence[int]) -> int:
        """Bytes that reading the box moves, in one go."""

    def stamp(self, start: Sequence[int], shape: Sequence[int]) -> tuple[int, int] | None:
        """What tells whether a box has changed, and when it did last (ns); None if loading finds that."""

    def reader(
        self, boxes: Sequence[tuple[Sequence[int], Sequence[int]]]
    ) -> Iterator[NDArray[Any]]:
        """Reads the boxes in this order, ahead of the consumer as far as the budget allows."""

    def write(self, start: Sequence[int], value: NDArray[Any]) -> None:
        """Writes a box. `value`: any strides, the store's dtype, native byte order."""

    def settle(self) -> None:
        """Write out what of it is changed in memory, and let go of what is in memory of it."""

    def flush(self) -> None:
        """Writes dirty tiles out; makes nothing visible."""

    def commit(self) -> None:
        """Makes everything written durable and visible, at once. Nothing to do where nothing changed."""

    def abort(self) -> None:
        """Forgets everything written since the last commit; a new array vanishes."""

    def verify(self, accept: bool, progress: Progress | None) -> list[str]:
        """Reads everything; one line per damaged tile (with `accept`, stale index entries are renewed)."""

def open(
    path: str,
    mode: str,  # "r", "r+", or "accept": to verify what another program has changed
    format: str | None,  # "zarr", "npy", "raw" or "pnm"; None: by what is there
    shape: Sequence[int] | None,  # raw only, as are the next three
    dtype: str | None,  # NumPy type string, may be big-endian: ">f8"
    offset: int,
    order: str,  # "C" or "F"
) -> Store: ...
def create(
    path: str,
    format: str,  # "zarr", "npy", "raw", "pgm", "ppm" or "pam"
    shape: Sequence[int],
    dtype: str,
    tile: Sequence[int] | None,  # zarr only; None: the default tile
    order: str,  # "C" or "F"; npy and raw only
    codecs: str | None,  # zarr only: JSON list of Zarr v3 codecs; None: bytes + crc32c
    zarr_format: int,  # 3, or 2 together with codecs
    labels: str,  # JSON object: attributes, dimension_names, fill_value
    overwrite: bool,
) -> Store: ...
def open_file(
    path: str,
    mode: str,  # "r" or "r+"
    format: str,  # "tiff"
    shape: Sequence[int],
    dtype: str,  # NumPy type string, may be big-endian
    offset: int,
    order: str,
    attributes: str,
) -> Store:
    """Opens a file whose elements are one block, as its metadata was found to describe it."""

def open_chunks(
    path: str,
    mode: str,  # "r"
    format: str,  # "tiff"
    shape: Sequence[int],
    dtype: str,  # NumPy type string, may be big-endian
    chunk: Sequence[int],
    offsets: NDArray[np.uint64],  # of every chunk, in row-major order of the grid; 0: it is zeros
    padded: bool,  # whether chunks at the edges are whole in the file
    attributes: str,
) -> Store:
    """Opens a file whose elements are many blocks, for reading."""

def open_encoded(
    path: str,
    mode: str,  # "r"
    format: str,  # "tiff"
    name: str,  # of the array in its file, for messages
    shape: Sequence[int],
    dtype: str,  # NumPy type string, may be big-endian
    chunk: Sequence[int],
    # Rows of offset, bytes (0: not there), bits of codecs left out, and CRC-32 (or a larger number).
    chunks: NDArray[np.uint64],
    codecs: str,  # from bytes to bytes: a JSON list as in zarr.json
    fill: bytes,  # an element of chunks that are not there
    attributes: str,
) -> Store:
    """Opens a file whose elements are many blocks, each through codecs, for reading."""

def create_file(
    path: str,
    format: str,  # "tiff"
    shape: Sequence[int],
    dtype: str,  # NumPy type string, may be big-endian
    offset: int,  # of the first element, at or behind the end of the preamble
    preamble: bytes,
    trailer: bytes,  # what follows the last element
    attributes: str,
    overwrite: bool,
) -> Store:
    """Makes a file of which the caller made the metadata."""

def pnm_offset(path: str, format: str, shape: Sequence[int], dtype: str, attributes: str) -> int:
    """Bytes before the first element of such a file, which is not made."""

def json_members(text: bytes, names: Sequence[str]) -> list[bytes | None]:
    """What members of a JSON object are, as text, without parsing the others."""

def reopen(store: Store) -> Store:
    """Opens a committed Zarr array for reading, in place of the store that wrote it, which is closed."""

def external_store(
    shape: Sequence[int],
    dtype: str,
    tile: Sequence[int],
    function: Callable[[tuple[int, ...], NDArray[Any]], None],
) -> Store: ...
def function_store(
    shape: Sequence[int],
    dtype: str,
    tile: Sequence[int],
    function: Callable[[tuple[int, ...], NDArray[Any]], None],
    reads: bool,  # whether it may read other arrays
) -> Store:
    """An operand made by a function, called with the start of a box and the memory for it."""

@final
class Charge:
    """Bytes of the budget for memory that others allocate, until they are released."""

    def __init__(self, nbytes: int, purpose: str, passing: bool) -> None: ...
    def release(self) -> None: ...

@final
class Output:
    """Memory for a result, charged to the budget."""

    def __init__(
        self,
        shape: Sequence[int],
        dtype: str,
        zeroed: bool,  # where not every element will be stored
    ) -> None: ...
    def store(self) -> Store: ...
    def array(self) -> NDArray[Any]: ...

Target = Store | tuple[Store, tuple[int, ...]] | tuple[tuple[int, ...] | None, str]

Matrix = tuple[int, int | None, int | None]
"""An array's number, and along which of its axes rows follow each other, and columns."""

Way = tuple[str, int, bool]
"""A way through tiles: for people, how many there are, and whether this takes the least memory."""

def square_side(itemsize: int, tile: tuple[int, int] | None) -> int: ...

@final
class Draft:
    """A program being made."""

    def __init__(self, workspace: int, beside: int, calls_back: bool) -> None: ...
    def describe(
        self,
        remark: str,
        operation: str | None,  # the only one of linear algebra that it is
    ) -> None: ...
    # Each gives the array's number, and that of its first tile; the others follow in row-major order.
    def input(
        self,
        name: str,
        store: Store,
        start: Sequence[int],
        shape: Sequence[int],
        tile: Sequence[int],
        overlap: Sequence[int],
    ) -> tuple[int, int]: ...
    def frontiers(
        self, name: str, store: Store, axis: int, high: bool
    ) -> tuple[int, int]: ...  # as many tiles as the array has
    def matrix(
        self,
        name: str,
        store: Store,
        start: Sequence[int],
        shape: Sequence[int],
        tile: Sequence[int],
        dtype: str,  # what elements are converted to
        conj: bool,  # whether they are conjugated, too
    ) -> tuple[int, int]: ...
    def output(
        self,
        name: str,
        target: Target,
        dtype: str,
        shape: Sequence[int],
        tile: Sequence[int],
        initial: int | None = None,  # the array whose tiles its own begin as
    ) -> tuple[int, int]: ...
    def temporary(
        self,
        name: str,
        dtype: str,
        shape: Sequence[int],
        tile: Sequence[int],
        initial: int | None = None,
    ) -> tuple[int, int]: ...
    # Operations of linear algebra, which go one of several ways.
    def matmul(
        self,
        matrices: Sequence[Matrix],  # C = A B
        conj: tuple[bool, bool],  # which of the factors is conjugated
        way: int,
    ) -> Way: ...
    def cholesky(
        self,
        matrices: Sequence[Matrix],  # A = L L^H
        lower: bool,
        whole: bool,  # whether tiles of zeros are written, too
        way: int,
    ) -> Way: ...
    def solve(
        self,
        matrices: Sequence[Matrix],  # A X = B: X, A, B
        positive_definite: bool,
        way: int,
    ) -> Way: ...
    def lu(
        self,
        matrices: Sequence[Matrix],  # P A = L U: L U, A
        pivots: int | None,  # the arrays of other results
        permutation: int | None,
        way: int,
    ) -> Way: ...
    def lu_columns(
        self,
        matrices: Sequence[Matrix],  # columns of L U, and of A
        pivots: Matrix,
        done: tuple[Matrix, Matrix] | None,  # L U before, and pivots
        way: int,
    ) -> Way: ...
    def lu_in_order(
        self,
        matrices: Sequence[Matrix],  # X, pivots, L U as columns have left it
    ) -> Way: ...
    def cholesky_columns(
        self,
        matrices: Sequence[Matrix],  # columns of L, or rows of U, and of A
        done: Matrix | None,  # those before
        lower: bool,
        way: int,
    ) -> Way: ...
    def lu_solve(
        self,
        matrices: Sequence[Matrix],  # X, L U, pivots, B
        meant: str,  # "N", or "T" or "C" of the matrix
        way: int,
    ) -> Way: ...
    def cholesky_inverse(
        self,
        matrices: Sequence[Matrix],  # X, L or U
        lower: bool,
        way: int,
    ) -> Way: ...
    def cholesky_update(
        self,
        matrices: Sequence[Matrix],  # X, V, L or U
        lower: bool,
        down: bool,
        whole: bool,  # whether tiles of zeros are written, too
    ) -> Way: ...
    def ldl(
        self,
        matrices: Sequence[Matrix],  # L or U, A
        beside: tuple[int | None, int | None],  # the arrays of D and of the rows
        lower: bool,
        hermitian: bool,
        whole: bool,  # whether tiles of zeros are written, too
        way: int,
    ) -> Way: ...
    def ldl_rotated(
        self,
        matrices: Sequence[Matrix],  # X, A
        lower: bool,
        hermitian: bool,
    ) -> Way: ...
    def ldl_columns(
        self,
        matrices: Sequence[Matrix],  # columns of L, or rows of U, and of the rotated matrix
        beside: tuple[int, int],  # the arrays of D and of the rows
        done: tuple[Matrix, Matrix] | None,  # those before, and D
        lower: bool,
        hermitian: bool,
        way: int,
    ) -> Way: ...
    def ldl_in_order(
        self,
        matrices: Sequence[Matrix],  # X, rows, L or U as columns have left it
        lower: bool,
    ) -> Way: ...
    def ldl_solve(
        self,
        matrices: Sequence[Matrix],  # X, L or U, D, rows, B
        lower: bool,
        hermitian: bool,
        way: int,
    ) -> Way: ...
    def exchange_rows(
        self,
        matrices: Sequence[Matrix],  # X, pivots, B
        backwards: bool,
    ) -> Way: ...
    def solve_triangular(
        self,
        matrices: Sequence[Matrix],  # T X = B: X, T, B
        lower: bool,
        unit: bool,
        conj: bool,
        way: int,
    ) -> Way: ...
    def blas3(
        self,
        matrices: Sequence[Matrix],  # X, which C becomes, A, B and C
        form: str,
        scalars: tuple[tuple[float, float], ...],  # alpha and beta, real and imaginary parts
        conj: tuple[bool, bool],
        lower: bool | None,
        hermitian: bool,
        first: bool,
        unit: bool,
        way: int,
    ) -> Way: ...
    # Kernels, by their numbers: whose steps Python does, a tape, or a compiled function.
    def kernel(self, name: str, rate: float) -> int: ...
    def tape(self, name: str, rate: float, tape: TapeDraft, room: tuple[int, int]) -> int: ...
    def native(
        self,
        name: str,
        rate: float,
        address: int,  # of a function as outcrop_ops::native::Function
        arguments: int,
        kept: object,
        round_at: int | None = None,  # the argument whose upper half says in which round a step is
    ) -> int: ...
    def check(
        self,
        steps: int,
        operands: int,
        arguments: int,
        kinds: Sequence[Sequence[int]],  # the arrays that each kind of step has tiles of
    ) -> None: ...
    def steps(
        self,
        kernels: NDArray[np.uint16],
        counts: NDArray[np.uint16],  # of operands
        work: NDArray[np.float64],
        operands: NDArray[np.uint32],  # tile << 2 | access (0 read, 1 write, 2 update)
        # Of tapes, which part of each cut line; of compiled functions, their arguments.
        numbers: NDArray[np.uint64],
        # Of tapes, which of the operands their tiles are.
        places: NDArray[np.uint16],
        made: bool,  # later, by linear algebra, whenever it takes what they make
    ) -> None: ...

Sides = tuple[int, int | None, int | None]
"""A value's number, its axis of rows, and its axis of columns."""

@final
class TapeDraft:
    """What steps do without the interpreter, being described."""

    def __init__(
        self,
        extents: Sequence[int],  # of lines
        cut: Sequence[tuple[int, int]],  # the line, and how many indices a part has
        strips: tuple[int, int] | None,  # the line, and how many indices each has
    ) -> None: ...
    # Each gives the value's number. `lines` are those of its axes.
    def tile(
        self,
        dtype: str,
        lines: Sequence[int],
        number: int,
        # Of each axis the tile's, the step along it, and the first index.
        shown: Sequence[tuple[int | None, int, int]],
    ) -> int: ...
    def passed(self, dtype: str, lines: Sequence[int], offset: int) -> int: ...
    def memory(self, array: NDArray[Any], lines: Sequence[int]) -> int: ...
    # `when`: 0 before the strips, 1 for each, 2 after them.
    def apply(self, when: int, ufunc: np.ufunc, number: int, values: Sequence[int]) -> None: ...
    def reduce(
        self,
        when: int,
        ufunc: np.ufunc,
        number: int,
        values: tuple[int, int],  # operand and result
        axes: Sequence[int],
        initial: int | None,  # None to begin with the first elements
        part: int | None,  # room for what is added to what earlier strips have left
    ) -> None: ...
    def copy(self, when: int, operand: int, result: int) -> None: ...
    def multiply(
        self,
        when: int,
        factors: tuple[Sides, Sides],
        result: Sides,
        accumulates: bool,
        half: bool,
    ) -> None: ...
    def mirror(self, when: int, of: Sides) -> None: ...

def has_loop(ufunc: np.ufunc, number: int) -> bool: ...

@final
class ProgramPlan:
    """A program that has been scheduled."""

    facts: dict[str, Any]

    def sketch(self, array: int, path: str, tile: Sequence[int] | None = None) -> Store:
        """A result as a Zarr array at a path, of which nothing is made."""

    def traffic(self) -> list[tuple[str, str, int, int, float]]:
        """Of each kernel and array: names, bytes read and written for its steps, and no time."""

    def moved_anyway(self) -> tuple[int, int] | None:
        """Bytes read and written, whatever threads and speeds there are; None: it does not fit."""

    def is_better_than(self, other: ProgramPlan) -> bool: ...
    def run(
        self,
        function: Callable[[int, tuple[NDArray[Any], ...], NDArray[np.uint8]], None],
        complain: Callable[[str, int], None],  # of floating-point errors, as NumPy numbers them
        ignored: int,
        outputs: Sequence[tuple[int, Store]],
        commits: bool,
        progress: Progress | None,
        timeline: str | None,
    ) -> None: ...

def plan_program(draft: Draft, names_least: bool = True) -> ProgramPlan: ...
def multiply(
    dtype: str,
    c: NDArray[Any],
    a: NDArray[Any],
    b: NDArray[Any],
    accumulate: bool,
    half: bool,
    workspace: NDArray[np.uint8],
) -> None: ...
def mirror(dtype: str, c: NDArray[Any]) -> None: ...
def multiply_memory(dtype: str, rows: int, cols: int, depth: int) -> tuple[int, int]: ...

# Products that compiled kernels call: the address and the number of the type; and what they cost.
def product_function(dtype: str) -> tuple[int, int] | None: ...
def product_cost(
    dtype: str, extents: tuple[int, int, int], transposed: tuple[bool, bool]
) -> tuple[float, int, int]: ...
def copy_box(
    source: Store,
    start: Sequence[int],
    shape: Sequence[int],
    # For each axis of the target the axis of the source, and whether it runs backwards.
    turn: tuple[Sequence[int], Sequence[bool]] | None,
    target: Store,
    progress: Progress | None,
) -> None:
    """Copies a box of `source` to the whole of `target` (same dtype), turned and re-tiled as needed. Does not commit."""

def plan_copy(
    source: Store,
    start: Sequence[int],
    shape: Sequence[int],
    turn: tuple[Sequence[int], Sequence[bool]] | None,
    target: Store,
) -> dict[str, Any]:
    """passes (each: remark, bytes_read, bytes_written, seconds), bytes_read, bytes_written, scratch_bytes, peak_bytes, seconds, budget, measured, others (remark, seconds)."""

def plan_fill(target: Store) -> dict[str, Any]: ...
def lay(
    source: Store,
    target: Store,
    start: Sequence[int],
    lower: bool | None,  # of a square matrix, which half changes; None: all of it
    progress: Progress | None,
) -> None:
    """Stores the source's elements in a part of an array that is there. Does not commit."""

def plan_lay(
    source: Store, target: Store, start: Sequence[int], lower: bool | None
) -> dict[str, Any]:
    """bytes_read, bytes_written, commit_bytes, least_bytes, peak_bytes, seconds."""

def suppose(limit: int | None, elsewhere: int) -> tuple[int | None, int]:
    """Suppose memory for plans of this thread; gives what was supposed before."""

def sketch_in_memory(shape: tuple[int, ...], dtype: str) -> Store:
    """A result in memory, of which nothing is made."""

def sketch_encoded(
    path: str,
    shape: tuple[int, ...],
    dtype: str,
    tile: tuple[int, ...] | None,
    codecs: str,
    zarr_format: int,
    attributes: str,
) -> Store:
    """A Zarr array with other codecs, of which nothing is made."""

def sketch(
    path: str,
    format: str,  # "zarr", or anything else for an array in one file
    shape: Sequence[int],
    dtype: str,
    tile: Sequence[int] | None,
    order: str,
    offset: int,  # bytes before the first element
    labels: str,  # as for create, and where the array will stand: place
) -> Store:
    """A target for `plan_copy`, of which nothing is made."""

def merged(
    values: tuple[Sequence[Store], Sequence[tuple[int, int]]],
    others: tuple[Sequence[Store], Sequence[tuple[int, int]]] | None,
    shape: tuple[int, int],
    row: int,
    low: bytes,
    high: bytes,
    descending: bool,
) -> Store:
    """Lines of sorted runs, merged `row` elements at a time; or what stands beside these in others.

    Stores of one row each, and of each run in which of them it is, and where it begins there; where
    what is merged for a row begins and ends in each run, 4 bytes each, run after run for each row.
    """

def commit(stores: Sequence[Store]) -> None:
    """All of them, one right after the other: signals come before or after."""

def fill(
    target: Store,
    function: Callable[[tuple[int, ...], NDArray[Any]], None],
    progress: Progress | None,
) -> None:
    """Calls function(start, out) for each tile in turn, writes behind. Does not commit."""

def end() -> None:
    """Stop what other threads compute, and keep them: the interpreter ends."""

def configure(memory: int, threads: int, scratch: str | None, engine: str | None) -> None:
    """Replaces the process's runtime. engine: None (chosen), "uring" or "threads"."""

def forget_unchanged() -> None:
    """Lets go of the tiles that stay in memory from one run to the next; changed ones stay."""

def status() -> dict[str, Any]:
    """memory, used, peak, threads, scratch, scratch_directory, scratch_held, engine, engine_reasons (list[str])."""

@final
class ScratchDirectory:
    """A new directory inside another one, which goes with this object, or with the process."""

    path: str

    def __init__(self, parent: str) -> None: ...
    def remove(self) -> None: ...

@final
class Operation:
    """A context: several runs of this thread, with one report. Runs of other threads wait meanwhile."""

    def __enter__(self) -> None: ...
    def __exit__(self, *exception: object) -> None: ...
    @staticmethod
    def so_far() -> tuple[int, int, float]:
        """Bytes read and written, and seconds, of the runs so far of this thread's operation."""

def last_run() -> dict[str, Any] | None:
    """operation, bytes_read, bytes_written, seconds, peak_bytes, peak_rss, overlap (seconds), flops, io_seconds, kernels (name: seconds summed over threads)."""

def default_tile(shape: Sequence[int], dtype: str) -> tuple[int, ...]: ...
def total_memory() -> int | None: ...
def default_memory() -> int:
    """Half of the memory available to the process, cgroup limit included, in bytes."""

def doctor(directory: str, quick: bool, progress: Progress | None) -> str:
    """Measures, keeps and returns the device profile of a directory, as JSON."""

def inject_faults(specification: str | None) -> None:
    """Tests only: "read:17:eio:once"; None ends it."""

def memory_asked_for() -> tuple[int, int]:
    """Tests only: how often since then for large pieces of memory, and for any on the heap."""

def operations_seen() -> int:
    """Tests only: the operations counted since the faults were set."""

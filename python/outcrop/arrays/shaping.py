"""Those methods of arrays that arrange and select elements."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from outcrop.arrays.array import Array

__all__ = ["Shaping"]


class Shaping:
    """NumPy's methods of these names, for an `outcrop.Array`."""

    __slots__ = ()

    # Imported late everywhere: expressions are arrays themselves.

    def reshape(self, *shape: Any, order: str = "C") -> "Array":
        """See `outcrop.reshape`; the shape may be one sequence, or several integers."""
        from outcrop.array_api import manipulation_functions

        return manipulation_functions.reshape(
            self, shape[0] if len(shape) == 1 else shape, order=order
        )

    def ravel(self, order: str = "C") -> "Array":
        """Give the elements in one row: ``reshape(-1, order=order)``."""
        return self.reshape(-1, order=order)

    def flatten(self, order: str = "C") -> "Array":
        """Give the elements in one row: ``reshape(-1, order=order)``."""
        return self.reshape(-1, order=order)

    def swapaxes(self, axis1: int, axis2: int) -> "Array":
        """See `numpy.swapaxes`: a view."""
        from outcrop.array_api import manipulation_functions

        return manipulation_functions.swapaxes(self, axis1, axis2)

    def repeat(self, repeats: Any, axis: int | None = None) -> "Array":
        """See `outcrop.repeat`."""
        from outcrop.array_api import manipulation_functions

        return manipulation_functions.repeat(self, repeats, axis=axis)

    def take(self, indices: Any, axis: int | None = None) -> "Array":
        """See `outcrop.take`."""
        from outcrop.array_api import indexing_functions

        return indexing_functions.take(self, indices, axis=axis)

    def compress(self, condition: Any, axis: int | None = None) -> "Array":
        """See `outcrop.compress`."""
        from outcrop.array_api import indexing_functions

        return indexing_functions.compress(condition, self, axis=axis)

    def nonzero(self) -> "tuple[Array, ...]":
        """See `outcrop.nonzero`."""
        from outcrop.array_api import indexing_functions

        return indexing_functions.nonzero(self)

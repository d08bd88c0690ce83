"""What the caller of a run wants to hear of floating-point errors, whichever thread makes them."""

import sys
import warnings
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

__all__ = ["FloatingErrors"]

_KINDS = (
    ("divide", 1, "divide by zero"),
    ("over", 2, "overflow"),
    ("under", 4, "underflow"),
    ("invalid", 8, "invalid value"),
)
"""NumPy's names, numbers and words for kinds of errors, in its order."""


class FloatingErrors:
    """What is set when it is made.

    Attributes
    ----------
    ignored : int
        The kinds of which nobody wants to hear, each a bit.
    """

    def __init__(self) -> None:
        self._modes: dict[str, Any] = {**np.geterr()}
        self._handler: Any = np.geterrcall()
        self.ignored = sum([bit for kind, bit, _ in _KINDS if self._modes[kind] == "ignore"])

    def setting(self) -> AbstractContextManager[Any]:
        """Set the same for NumPy, on this thread."""
        return np.errstate(call=self._handler, **self._modes)

    def tell(self, name: str, errors: int) -> None:
        """Tell of errors of a ufunc as NumPy does it; `errors` are bits, as it has them, too."""
        for kind, bit, words in _KINDS:
            if errors & bit:
                self._tell(self._modes[kind], name, words, errors)

    def _tell(self, mode: str, name: str, words: str, errors: int) -> None:
        message, handler = f"{words} encountered in {name}", self._handler
        match mode:
            case "warn":
                warnings.warn(message, RuntimeWarning, stacklevel=2)
            case "raise":
                raise FloatingPointError(message)
            case "print":
                print(f"Warning: {message}", file=sys.stderr)
            case "call":
                if handler is None:
                    raise NameError(
                        f"python callback specified for {words} (in {name}) but no function found."
                    )
                handler(words, errors)
            case "log":
                if handler is None:
                    raise NameError(
                        f"log specified for {words} (in {name}) but no object with write method "
                        "found."
                    )
                handler.write(f"Warning: {message}\n")

"""Integers that are affine in loop indices, as isl and as Python write them."""

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Affine", "index_name"]


def index_name(depth: int) -> str:
    """What the index of a loop is called, by how many loops are around it."""
    return f"v{depth}"


@dataclass(frozen=True)
class Affine:
    """An integer: a sum of multiples of indices, or quotients, remainders and extremes of such.

    Attributes
    ----------
    isl, python : str
        How it is written.
    terms : mapping or None
        The factors of indices; None where it is no such sum.
    constant : int
        What is added to the sum.
    """

    isl: str
    python: str
    terms: Mapping[str, int] | None
    constant: int = 0

    @classmethod
    def number(cls, value: int) -> "Affine":
        """A constant."""
        return cls(f"({value})", f"({value})", {}, value)

    @classmethod
    def index(cls, name: str) -> "Affine":
        """The index of a loop."""
        return cls(name, name, {name: 1})

    @property
    def value(self) -> int | None:
        """The number that it always is, if it is constant."""
        return self.constant if self.terms is not None and not self.terms else None

    def __add__(self, other: "Affine") -> "Affine":
        if self.terms is None or other.terms is None:
            isl, python = f"({self.isl} + {other.isl})", f"({self.python} + {other.python})"
            return Affine(isl, python, None)
        names = dict.fromkeys([*self.terms, *other.terms])
        terms = {n: self.terms.get(n, 0) + other.terms.get(n, 0) for n in names}
        return self._sum({n: k for n, k in terms.items() if k}, self.constant + other.constant)

    def __mul__(self, factor: int) -> "Affine":
        if self.terms is None:
            return Affine(f"({factor} * {self.isl})", f"({factor} * {self.python})", None)
        terms = {n: k * factor for n, k in self.terms.items() if k * factor}
        return self._sum(terms, self.constant * factor)

    def __sub__(self, other: "Affine") -> "Affine":
        return self + other * -1

    @classmethod
    def _sum(cls, terms: Mapping[str, int], constant: int) -> "Affine":
        parts = [f"{k} * {n}" if k != 1 else n for n, k in terms.items()]
        if constant or not parts:
            parts.append(str(constant))
        text = f"({' + '.join(parts)})"
        return cls(text, text, terms, constant)

    def floor(self, divisor: int) -> "Affine":
        """The quotient by a positive constant, rounded down."""
        if self.value is not None:
            return Affine.number(self.value // divisor)
        return Affine(f"floor({self.isl}/{divisor})", f"({self.python} // {divisor})", None)

    def modulo(self, divisor: int) -> "Affine":
        """The remainder that belongs to it."""
        if self.value is not None:
            return Affine.number(self.value % divisor)
        return Affine(f"({self.isl} mod {divisor})", f"({self.python} % {divisor})", None)

    @classmethod
    def extreme(cls, which: str, of: "list[Affine]") -> "Affine":
        """The ``"min"`` or ``"max"`` of several."""
        values = [one.value for one in of]
        known = [v for v in values if v is not None]
        if len(known) == len(of):
            return cls.number(min(known) if which == "min" else max(known))
        isl, python = of[0].isl, of[0].python
        for one in of[1:]:
            isl, python = f"{which}({isl}, {one.isl})", f"{which}({python}, {one.python})"
        return cls(isl, python, None)

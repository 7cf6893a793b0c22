"""A row of the table of habits: what a user of NumPy, PyTorch or JAX types, and what it gives."""

from __future__ import annotations

from typing import NamedTuple


class Refused(NamedTuple):
    """What is refused: the code of the error, and the call that it names.

    Attributes:
        code: The code of the typed error.
        call: Text that stands in the error and can be executed; empty where the error shows that
            there is no such thing at all.
    """

    code: str
    call: str


class Row(NamedTuple):
    """A habit.

    Attributes:
        text: What is typed; an expression, or statements.
        wanted: An expression of NumPy or PyTorch with the same value; or the refusal.
    """

    text: str
    wanted: str | Refused


def rows(*given: tuple[str, str | Refused]) -> list[Row]:
    """The rows of a family."""
    return [Row(*one) for one in given]

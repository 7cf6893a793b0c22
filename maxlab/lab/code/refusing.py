"""Why an edit of a graph is not written to a cell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from maxlab.errors import ArgumentError, Location

Way = Literal["parameter", "override"]
"""The ways beside rewriting the line: the function gets a parameter, or lines behind the graph
change it.
"""


class CodeError(ArgumentError):
    """An edit that cannot be written to the code of a cell.

    Attributes:
        ways: What can be done instead.
    """

    def __init__(
        self,
        code: str,
        what: str,
        *,
        at: Location | None = None,
        fix: str | None = None,
        ways: Sequence[Way] = (),
    ) -> None:
        super().__init__(code, what, at=at, fix=fix)
        self.ways = tuple(ways)


def no_place(what: str, where: str, at: Location | None = None) -> CodeError:
    """ML872: ``what`` was not written in a cell that can be found."""
    return CodeError(
        "ML872",
        f"{what} was made {where}",
        at=at,
        fix="change it where it was written, and run the cell again",
    )


def repeated(what: str, why: str, at: Location | None, ways: Sequence[Way] = ()) -> CodeError:
    """ML873: the line that made ``what`` made other operations too."""
    return CodeError(
        "ML873",
        f"{what} was made {why}: the line stands for other operations too",
        at=at,
        fix="make it a parameter of the function, or override it behind the graph"
        if ways
        else "change the line by hand",
        ways=ways,
    )


def unread(what: str, fix: str) -> CodeError:
    """ML875: a text that cannot be rewritten."""
    return CodeError("ML875", what, fix=fix)


def wordless(what: str, fix: str = "write the line by hand") -> CodeError:
    """ML876: there is no expression for ``what``."""
    return CodeError("ML876", f"there is no expression for {what}", fix=fix)


def unreachable(what: str, at: Location | None = None, fix: str | None = None) -> CodeError:
    """ML877: a value that has no name where it is to be read."""
    return CodeError(
        "ML877",
        f"{what} cannot be named where it is read",
        at=at,
        fix=fix or "give it a name on a line of its own, and run the cell again",
    )

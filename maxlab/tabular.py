"""Tables that leave Python's text: as CSV, and as a DataFrame of pandas."""

from __future__ import annotations

import io
from collections.abc import Collection, Iterable, Sequence
from importlib import import_module
from typing import Any, TypeVar

from maxlab import files
from maxlab.errors import UnsupportedError

T = TypeVar("T")
Field = str | int | float | bool | None
"""The value in a place of a table; None is unknown."""


class Tabular:
    """The base of results that are a table, such as the kernels of a profile.

    The rows are all there are, where ``table()`` may list the first ones only. Numbers are not
    rounded, and the heads name their units: ``time [ns]``.
    """

    __slots__ = ()

    def _heads(self) -> Sequence[str]:
        """The names of the columns, with their units."""
        raise NotImplementedError

    def _records(self) -> Iterable[Sequence[Field]]:
        """The rows, each with a field for every head."""
        raise NotImplementedError

    def to_csv(self, path: files.AnyPath | None = None) -> Any:
        """It as comma-separated values [1]_: its text, or, when ``path`` is given, the path it was
        written to.

        Args:
            path: Where to write it; nowhere by default.

        Raises:
            FileError: ML001, ``path`` is there and is no regular file; ML003, it cannot be written.

        Example:
            >>> from maxlab.dtype import DType
            >>> from maxlab.graph import Graph, TensorType
            >>> graph = Graph("double", lambda x: x * 2, [TensorType(DType.float32, ["n"])])
            >>> graph.find("op=mul").to_csv().splitlines()
            ['id,op,scope,type,time [ns],share,estimated', 'n1,mul,,f32[n],,,False']

        .. [1] Y. Shafranovich, "Common Format and MIME Type for Comma-Separated Values (CSV)
           Files", RFC 4180, 2005.
        """
        import csv

        text = io.StringIO(newline="")
        writer = csv.writer(text)
        writer.writerow(self._heads())
        writer.writerows(self._records())
        if path is None:
            return text.getvalue()
        return files.write_text(path, text.getvalue(), "the table")

    def to_dataframe(self) -> Any:
        """It as a ``pandas.DataFrame``, one row each.

        Raises:
            UnsupportedError: ML881, pandas is not installed.
        """
        try:
            pandas: Any = import_module("pandas")
        except ImportError as error:
            raise UnsupportedError(
                "ML881",
                "a DataFrame needs pandas, which is not installed",
                fix="pip install pandas; to_csv() needs nothing",
            ) from error
        return pandas.DataFrame(list(self._records()), columns=list(self._heads()))


def aligned(cells: Sequence[Sequence[str]], right: Collection[int] = ()) -> list[str]:
    """The lines of a table of texts, two spaces between columns.

    Args:
        cells: The rows, the head among them.
        right: Numbers of the columns that end at one place; the others begin at one.

    Example:
        >>> aligned([("kernel", "ms"), ("k0", "10.5"), ("k1", "2.5")], right=(1,))
        ['kernel    ms', 'k0      10.5', 'k1       2.5']
    """
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(
            text.rjust(width) if n in right else text.ljust(width)
            for n, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]


def first_rows(rows: Sequence[T], count: int | None) -> Sequence[T]:
    """The first ``count`` of ``rows``; all of them when it is None."""
    return rows if count is None else rows[: max(count, 0)]


__all__ = ["Field", "Tabular", "aligned", "first_rows"]

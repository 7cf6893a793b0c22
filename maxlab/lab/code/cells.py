"""The cells of the running notebook, as the kernel ran them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from maxlab.graph import Graph
from maxlab.ir import Op
from maxlab.ir.cells import runs, shell
from maxlab.lab.code.following import short
from maxlab.lab.code.refusing import CodeError, no_place, unread
from maxlab.lab.code.text import Replacement, Source, replaced

_NAME = re.compile(r"[^\W\d]\w*")
_NUMBER = re.compile(r"cell \[(\d+)\]")


@dataclass(frozen=True, slots=True)
class RunCell:
    """A cell that ran.

    Attributes:
        id: Its id, which it keeps.
        number: That of the run.
        raw: Its text as the page has it.
        text: Its text as Python has compiled it: magics are calls then.
    """

    id: str
    number: int
    raw: str
    text: str

    def has(self, op: Op, graph: Graph) -> bool:
        """Whether this run of the cell has made ``op`` for ``graph``. An operation that was read
        from a file names a line too: of a run that may have been of another kernel."""
        at = op.loc
        if at is None or op.id in graph.taken_over:
            return False
        return at.cell == self.id and at.file == f"cell [{self.number}]"

    def in_raw(self, new: str, replacements: tuple[Replacement, ...]) -> str:
        """The text for the page, for the text with ``replacements``, which is ``new``.

        Raises:
            CodeError: ML875, a magic stands where something is replaced.
        """
        if self.raw == self.text:
            return new
        raw, text = Source(self.raw), Source(self.text)
        shift = self._skipped
        if len(raw.starts) - shift != len(text.starts):
            raise unread(
                "the cell has magics that take lines together", "put the graph in its own cell"
            )
        moved = []
        for start, end, what in replacements:
            first, last = text.line_at(start), text.line_at(end)
            for line in range(first, last + 1):
                if raw.line(line + shift) != text.line(line):
                    raise unread(
                        f"line {line + shift} is not as Python read it: it has a magic or a "
                        "prompt, or the whole cell is indented",
                        "put a magic on a line of its own, and begin lines at the margin",
                    )
            moved.append(
                Replacement(
                    raw.starts[first + shift - 1] + start - text.starts[first - 1],
                    raw.starts[last + shift - 1] + end - text.starts[last - 1],
                    what,
                )
            )
        return replaced(self.raw, moved)

    @property
    def _skipped(self) -> int:
        """Empty lines at the beginning, which IPython takes away."""
        if not self.text.partition("\n")[0].strip():
            return 0
        lines = self.raw.splitlines()
        return next((n for n, line in enumerate(lines) if line.strip()), 0)


def run_cells(numbers: Iterator[int] | list[int]) -> dict[int, RunCell]:
    """The runs with these numbers, as far as they were of cells."""
    history = getattr(shell(), "history_manager", None)
    found: dict[int, RunCell] = {}
    if history is None:
        return found
    ids = dict(runs())
    parsed, raw = history.input_hist_parsed, history.input_hist_raw
    for number in numbers:
        if number in ids and 0 < number < min(len(parsed), len(raw)):
            found[number] = RunCell(ids[number], number, raw[number], parsed[number])
    return found


def number_of(op: Op, graph: Graph) -> int | None:
    """The number of the run that made ``op`` for ``graph``; None where none did."""
    if op.loc is None or op.id in graph.taken_over:
        return None
    match = _NUMBER.fullmatch(op.loc.file)
    return int(match[1]) if match is not None else None


def used_elsewhere(cell: str) -> frozenset[str]:
    """The names in all cells but ``cell`` that ran."""
    history = getattr(shell(), "history_manager", None)
    if history is None:
        return frozenset()
    ids = dict(runs())
    return frozenset(
        name
        for number, text in enumerate(history.input_hist_parsed)
        if number and ids.get(number) != cell
        for name in _NAME.findall(text)
    )


def why_elsewhere(cell: RunCell, graph: Graph) -> Any:
    """Why an operation of ``graph`` cannot be changed whose text is not in ``cell``."""

    def why(op: Op) -> CodeError | None:
        at = op.loc
        if at is None:
            return no_place(short(op), "by hand, and not by a line of a cell")
        if op.id in graph.taken_over:
            return CodeError(
                "ML872",
                f"{short(op)} came with a graph of a file, or a copy, and not from a line that ran",
                fix="save the graph, or write it as a program: print(graph.to_python())",
            )
        number = number_of(op, graph)
        if number is None:
            return no_place(short(op), f"in {at.file}, line {at.line}, and not in a cell", at)
        if number != cell.number:
            return CodeError(
                "ML878",
                f"{short(op)} was made in {at.file}, and other changes belong to "
                f"cell [{cell.number}]",
                at=at,
                fix="write the edits of one cell at a time",
            )
        if not at.cell:
            return no_place(short(op), "in a cell that ran before maxlab was imported", at)
        return no_place(short(op), "by a line that cannot be told from others", at)

    return why


def require_own_text(cell: RunCell, ops: list[Op], graph: Graph) -> None:
    """Raises unless the code of ``ops`` is surely that of ``cell``: the kernel gives cells with the
    same text the same name, and functions of one may be taken for those of the other.

    Raises:
        CodeError: ML874.
    """
    ids = dict(runs())
    others = run_cells([n for n, id in ids.items() if id != cell.id])
    twins = [other for other in others.values() if other.text == cell.text]
    for op in ops:
        if twins and op.loc is not None and op.loc.function and cell.has(op, graph):
            raise CodeError(
                "ML874",
                f"cell [{cell.number}] and cell [{twins[0].number}] have the same text, and "
                f"{short(op)} was made by a function of it",
                at=op.loc,
                fix="change a line of one of them, and run it again",
            )


def namespace() -> Mapping[str, Any]:
    """The variables of the notebook."""
    return dict(getattr(shell(), "user_ns", {}))


__all__ = [
    "RunCell",
    "namespace",
    "number_of",
    "require_own_text",
    "run_cells",
    "used_elsewhere",
    "why_elsewhere",
]

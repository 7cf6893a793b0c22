"""The hints of all cells and files of this process."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field

from maxlab.engine import Model
from maxlab.engine.model import LIVE as MODELS
from maxlab.graph import Graph
from maxlab.graph.graph import LIVE as GRAPHS
from maxlab.ir.cells import runs
from maxlab.lab import live, protocol
from maxlab.lab.hints.lines import Made, made_by_lines, spent_in
from maxlab.lab.hints.marks import Failures, Mark, began
from maxlab.lab.hints.texts import Source, Texts

Key = tuple[str, str]
"""The id of a cell and the path of a file, of which one is empty."""


@dataclass(slots=True)
class _Known:
    """The hints that were read of a graph, and the state of it that they were read of."""

    stamp: tuple[object, ...]
    made: list[Made]
    shown: str
    """Id of the graph or model that a page opens."""
    is_sure: bool
    """Whether nothing ran that could have changed the graph as it was read."""


@dataclass(slots=True)
class _Line:
    source: Source
    calls: list[protocol.HintCall] = field(default_factory=list)
    marks: list[protocol.HintMark] = field(default_factory=list)


class Sources:
    """Reads the hints of the graphs and models that live, each again when it has changed.

    Attributes:
        is_running: Whether a cell runs, which may change what is read.
    """

    def __init__(self) -> None:
        self.is_running = False
        self.texts = Texts()
        self.failures = Failures()
        self._lock = threading.Lock()
        self._known: weakref.WeakKeyDictionary[Graph, _Known] = weakref.WeakKeyDictionary()

    def take(self) -> dict[Key, protocol.SourceHints]:
        """The hints of every cell and file that has some."""
        with self._lock:
            return self._take()

    def _take(self) -> dict[Key, protocol.SourceHints]:
        newest = self._newest_runs()
        models = sorted(MODELS, key=lambda model: int(live.id_of(model)[1:]))
        lines: dict[Key, dict[int, _Line]] = {}
        for graph in sorted(GRAPHS, key=lambda graph: int(live.id_of(graph)[1:])):
            known = self._read(graph, models)
            cell, run = graph.made_in
            for made in known.made:
                by = cell if made.run == run else made.source.cell
                if made.run and made.run != newest.get(by) and by:
                    continue  # the cell has run again, and has not made this any more
                line = self._line(lines, newest, made.source, made.line)
                if line is not None:
                    line.calls.append(_call(made, graph, known.shown, by))
        marks: list[Mark] = [*self.failures.marks(self.texts), *began(models, self.texts)]
        for mark in marks:
            run = mark.told["run"]
            if mark.cell and run != newest.get(mark.cell, run):
                continue
            line = self._line(lines, newest, mark.source, mark.line)
            if line is not None and mark.told not in line.marks:
                line.marks.append(mark.told)
        return {key: _told(key, found) for key, found in lines.items()}

    def _newest_runs(self) -> dict[str, int]:
        """The number of the newest run of each cell, by the cell's id. A text that Python cannot
        read ran nothing, and what was made before is still there."""
        newest: dict[str, int] = {}
        for run, cell in runs():
            source = self.texts.cell(run)
            if source is None or source.code.is_read:
                newest[cell] = run
        return newest

    def _read(self, graph: Graph, models: list[Model]) -> _Known:
        """The operations that each line made in ``graph``, with the times of the newest of its
        models that was profiled.
        """
        own = [model for model in models if model.graph is graph]
        timed = [
            model
            for model in own
            if model.last_profile is not None and model.graph_revision == graph.revision
        ]
        shown = live.id_of(timed[-1] if timed else own[-1] if own else graph)
        is_sure = not self.is_running
        times = timed[-1].revision if timed else 0
        stamp = (graph.revision, len(graph.function.ops), shown, times)
        known = self._known.get(graph)
        if known is None or known.stamp != stamp or not known.is_sure:
            made = made_by_lines(graph, self.texts, spent_in(timed[-1]) if timed else None)
            is_sure = is_sure and not self.is_running
            known = self._known[graph] = _Known(stamp, made, shown, is_sure)
        return known

    def _line(
        self,
        lines: dict[Key, dict[int, _Line]],
        newest: Mapping[str, int],
        source: Source,
        number: int,
    ) -> _Line | None:
        """The line ``number`` of ``source``; None where the cell has another text now."""
        if source.cell:
            latest = self.texts.cell(newest.get(source.cell, 0))
            if latest is not None and latest.text != source.text:
                return None
        known = lines.setdefault(source.key, {})
        return known.setdefault(number, _Line(source))


def _call(made: Made, graph: Graph, shown: str, by: str) -> protocol.HintCall:
    return {
        "cell": by,
        "run": made.run,
        "graph": shown,
        "title": str(graph.name),
        "values": made.values,
        "turns": made.turns,
        "time": made.time,
        "ops": made.ops,
        "count": made.count,
    }


def _told(key: Key, lines: Mapping[int, _Line]) -> protocol.SourceHints:
    cell, path = key
    told: list[protocol.LineHints] = []
    newest = max((line.source for line in lines.values()), key=lambda source: source.run)
    for number in sorted(lines):
        line = lines[number]
        statement = newest.code.statements.get(number)
        first, last = (statement.first, statement.last) if statement else (number, number)
        calls = sorted(line.calls, key=lambda c: (c["cell"] != cell, c["run"], c["title"]))
        told.append(
            {
                "line": number,
                "first": first,
                "last": last,
                "text": "\n".join(newest.lines[first - 1 : last]),
                "calls": calls,
                "marks": line.marks,
            }
        )
    length, crc = newest.checksum
    return {"cell": cell, "path": path, "length": length, "crc": crc, "lines": told}


def nothing(key: Key) -> protocol.SourceHints:
    """The hints of a cell or file that has none any more."""
    return {"cell": key[0], "path": key[1], "length": 0, "crc": 0, "lines": []}


__all__ = ["Key", "Sources", "nothing"]

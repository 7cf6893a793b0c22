"""Errors at lines: operations that failed, and where NaN and infinities began."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from maxlab.analysis.check.tripwire import Trip, newest_trip
from maxlab.engine import Model
from maxlab.errors import Location, MaxlabError
from maxlab.lab import protocol
from maxlab.lab.hints.texts import Source, Texts

MOST = 20
"""Errors that are remembered."""


@dataclass(frozen=True, slots=True)
class Mark:
    """An error at a line of a text.

    Attributes:
        source: The text.
        line: The line in it.
        cell: The cell in whose run it happened; empty where that is not known.
        told: What the page gets.
    """

    source: Source
    line: int
    cell: str
    told: protocol.HintMark


class Failures:
    """The errors that ended runs of cells, each until its cell runs again."""

    def __init__(self) -> None:
        self._errors: dict[str, tuple[int, MaxlabError]] = {}

    def ended(self, cell: str, run: int, error: BaseException | None) -> None:
        """The run ``run`` of ``cell`` has ended, with ``error`` or well."""
        self._errors.pop(cell, None)
        if isinstance(error, MaxlabError) and error.at is not None:
            self._errors[cell] = (run, _lasting(error, error.at))
            while len(self._errors) > MOST:
                del self._errors[next(iter(self._errors))]

    def marks(self, texts: Texts) -> Iterator[Mark]:
        """The marks of the errors whose lines are known."""
        for cell, (run, error) in list(self._errors.items()):
            at = error.at
            found = None if at is None else _place(texts, at, run)
            if found is not None:
                trip: Trip | None = getattr(error, "trip", None)
                yield Mark(
                    *found,
                    cell,
                    {
                        "kind": "failed" if trip is None else _kind(trip),
                        "code": error.code,
                        "says": error.what,
                        "fix": error.fix or "",
                        "run": run,
                    },
                )


def _lasting(error: MaxlabError, at: Location) -> MaxlabError:
    """A copy of ``error`` that can be kept, without the frames and arrays that it holds."""
    kept = MaxlabError(error.code, error.what, at=at, fix=error.fix)
    trip: Trip | None = getattr(error, "trip", None)
    if trip is not None:
        kept.trip = trip.without_inputs()  # type: ignore[attr-defined]
    return kept


def began(models: Iterable[Model], texts: Texts) -> Iterator[Mark]:
    """Where NaN or an infinity began in ``models``, as far as somebody has looked for it."""
    for model in models:
        trip = newest_trip(model)
        if trip is None or trip.place is None:
            continue
        cell, run = model.graph.made_in if model.graph is not None else ("", 0)
        found = _place(texts, trip.place, run)
        if found is not None:
            yield Mark(
                *found,
                cell,
                {
                    "kind": _kind(trip),
                    "code": "",
                    "says": trip.sentence(),
                    "fix": "",
                    "run": run,
                },
            )


def _kind(trip: Trip) -> Literal["nan", "inf"]:
    return "nan" if trip.kind == "NaN" else "inf"


def _place(texts: Texts, at: Location, run: int) -> tuple[Source, int] | None:
    source = texts.source_of(at, run)
    line = source.line_of(at) if source is not None else None
    return None if source is None or line is None else (source, line)

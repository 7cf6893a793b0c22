"""The newest runs of a graph in this process: kept small, so that a view can compare them.

Only times are kept, and what a comparison reads of the kernels: no model, no weights and no inputs.
Models that were loaded again with other options share their graph, and so their history.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

from maxlab.analysis.runs.facts import machine_facts
from maxlab.analysis.runs.noise import Rules
from maxlab.analysis.runs.pairs import Pair, Side
from maxlab.analysis.runs.saved import SavedRun, head_of, samples_of
from maxlab.engine import Model
from maxlab.engine.profile import Profile
from maxlab.opset import is_output

MOST_KEPT = 12
"""Runs of a graph that are kept; the oldest goes first."""


@dataclass(frozen=True, slots=True)
class Kept:
    """One run.

    Attributes:
        number: Its number in this process, from 1, which no other run of the graph has.
        run: Its times; its document has no more than a comparison reads.
    """

    number: int
    run: SavedRun
    profile: weakref.ref[Profile]


class History:
    """Runs by the graph that was run."""

    def __init__(self) -> None:
        self._kept: weakref.WeakKeyDictionary[Any, deque[Kept]] = weakref.WeakKeyDictionary()
        self._numbers: weakref.WeakKeyDictionary[Any, count[int]] = weakref.WeakKeyDictionary()
        self._machine: dict[str, str] | None = None
        self._lock = threading.Lock()

    def remember(self, profile: Profile) -> list[Kept]:
        """The runs of the graph that was profiled, the newest last; ``profile`` is among them from
        now on, and is there once however often it is remembered."""
        graph = profile.model.graph
        with self._lock:
            kept = self._kept.setdefault(graph, deque(maxlen=MOST_KEPT))
            if not any(one.profile() is profile for one in kept):
                number = next(self._numbers.setdefault(graph, count(1)))
                kept.append(Kept(number, self._light(profile, number), weakref.ref(profile)))
            return list(kept)

    def of(self, model: Model) -> list[Kept]:
        """The runs of the graph of ``model`` that are kept, the newest last."""
        with self._lock:
            return list(self._kept.get(model.graph, ()))

    def _light(self, profile: Profile, number: int) -> SavedRun:
        """The run without a document to draw."""
        if self._machine is None:
            self._machine = machine_facts()
        compiled = profile.model.compiled
        printed = [profile.model.printed(step) for step in compiled.plan.steps]
        document = {
            "nodes": [{"id": op.id} for op in compiled.source.ops if not is_output(op)],
            "kernels": [
                {"id": step.id, "source": text.text if text is not None else step.builtin}
                for step, text in zip(compiled.plan.steps, printed, strict=True)
            ],
        }
        head = head_of(profile, f"#{number}", "", self._machine)
        return SavedRun(head, document, samples_of(profile))


def compare(before: Kept, after: Kept, rules: Rules | None = None) -> Pair:
    """The ``Pair`` of two runs of one graph, whose ops have the same ids."""
    same: Mapping[str, str] = {node["id"]: node["id"] for node in before.run.document["nodes"]}
    sides = [Side(one.run.label, (one.run,)) for one in (before, after)]
    return Pair(sides[0], sides[1], same, rules or Rules())


HISTORY = History()
"""The runs of this process."""


def remember(profile: Profile) -> None:
    """Keep the times of ``profile``, that later ones can be compared with it."""
    HISTORY.remember(profile)

"""Whether a graph is what the goal of its document asks for, and goals made of a solution."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxlab import engine, trace
from maxlab.errors import ArgumentError, MaxlabError
from maxlab.graph import Graph
from maxlab.graph.lesson import Case, Goal
from maxlab.graph.reading import graph_of
from maxlab.ir import StaticDim, SymbolicDim
from maxlab.ir.printer import generic
from maxlab.ir.types import Typed
from maxlab.lab.fields import FieldError, read_type, type_text

QUIET_S = 0.15
"""How long a document has to be left alone before it is looked at."""


@dataclass(frozen=True, slots=True)
class Part:
    """One thing that a goal asks for: what it is, in words, and whether the graph has it."""

    says: str
    met: bool


def goal_of(solution: Graph, *cases: Sequence[Any], tolerance: float = 1e-4) -> Goal:
    """The goal of becoming what gives the types of ``solution``, and its outputs for each of
    ``cases``, arrays for its inputs. The goal has the numbers, and nothing else of the solution.

    Raises:
        ArgumentError: ML824, the arrays or the tolerance are none that a goal can have.
        MaxlabError: What running the solution says.

    Example:
        >>> import numpy as np
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType
        >>> from maxlab.lab.lessons import check, goal_of
        >>> row = TensorType(DType.float32, ["n"])
        >>> goal = goal_of(Graph("double", lambda x: x * 2, [row]), [np.ones(3, np.float32)])
        >>> check(Graph("mine", lambda x: x + x, [row]), goal)[-1].met
        True
    """
    made = []
    for case in cases:
        inputs = tuple(np.asarray(array) for array in case)
        made.append(Case(inputs=inputs, outputs=tuple(_run(solution, inputs))))
    types = tuple(type_text(type) for type in solution.output_types)
    return Goal(types=types, cases=tuple(made), tolerance=tolerance)


def check(graph: Graph, goal: Goal) -> list[Part]:
    """The parts of ``goal``, and whether ``graph`` has each. The goal is met where all are. Numbers
    are looked at when the types are right.

    Raises:
        ArgumentError: ML824, a type of the goal cannot be read.
    """
    output = graph.function.output
    types = [] if output is None else [value.type for value in output.operands]
    parts = []
    if goal.types:
        count = len(goal.types)
        parts.append(Part(f"gives {count} output{'' if count == 1 else 's'}", len(types) == count))
        for number, text in enumerate(goal.types):
            found = types[number] if number < len(types) else None
            which = "the output" if count == 1 else f"output {number}"
            is_right = found is not None and _fits(found, text)
            has = "" if found is None or is_right else f", not {type_text(found)}"
            parts.append(Part(f"{which} is {text}{has}", is_right))
    are_right = all(part.met for part in parts)
    for number, case in enumerate(goal.cases):
        which = (
            "the right numbers" if len(goal.cases) == 1 else f"the right numbers, case {number + 1}"
        )
        parts.append(_case(graph, case, goal.tolerance, which) if are_right else Part(which, False))
    return parts


def _fits(found: Any, text: str) -> bool:
    try:
        wanted = read_type("type", text)
    except FieldError as error:
        raise ArgumentError(
            "ML824",
            f"this is no goal for a graph: {text!r} is no type",
            fix="write a type such as float32[batch, 10]",
        ) from error
    if not isinstance(found, Typed) or found.dtype != wanted.dtype:
        return False
    if len(found.shape) != len(wanted.shape):
        return False
    for mine, theirs in zip(found.shape, wanted.shape, strict=True):
        if isinstance(theirs, StaticDim) and mine != theirs:
            return False
        if isinstance(theirs, SymbolicDim) and isinstance(mine, StaticDim):
            return False
    return True


def _case(graph: Graph, case: Case, tolerance: float, which: str) -> Part:
    wanted, has = len(case.inputs), len(graph.inputs)
    if wanted != has:
        return Part(f"{which}: for {wanted} inputs, not {has}", False)
    try:
        found = _run(graph, case.inputs)
    except MaxlabError as error:
        return Part(f"{which}: it does not run: {error.what}", False)
    if len(found) != len(case.outputs):
        return Part(f"{which}: {len(case.outputs)} of them, not {len(found)}", False)
    for mine, theirs in zip(found, case.outputs, strict=True):
        if mine.shape != theirs.shape:
            return Part(f"{which}: of the shape {theirs.shape}, not {mine.shape}", False)
        scale = float(np.abs(theirs).max(initial=0)) or 1.0
        with np.errstate(invalid="ignore"):
            off = np.abs(mine.astype(np.float64) - theirs.astype(np.float64))
        largest = float(off.max(initial=0)) if np.isfinite(off).all() else float("inf")
        if not largest <= tolerance * scale:
            at = np.unravel_index(int(np.nan_to_num(off, nan=np.inf).argmax()), off.shape)
            place = ", ".join(str(int(n)) for n in at)
            return Part(f"{which}: [{place}] is {mine[at]:.4g}, not {theirs[at]:.4g}", False)
    return Part(which, True)


def _run(graph: Graph, inputs: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
    model = engine.InferenceSession().load(graph)
    return [np.asarray(output.to_numpy()) for output in model(*inputs)]


# ---------------------------------------------------------------- beside the edits
Tell = Callable[[int, "list[Part] | None", "Exception | None"], None]
"""Called with the number of a text, and the parts of its goal, None while they are checked, or why
they cannot be."""


class Watch:
    """Checks the newest text of a document on a thread of its own, so that no edit waits for it.

    Args:
        tell: Told of each check, from that thread.
    """

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._condition = threading.Condition()
        self._newest: tuple[int, str] | None = None
        self._is_over = False
        self._checked = ""
        self._thread: threading.Thread | None = None

    def look(self, number: int, text: str) -> None:
        """Check the graph of ``text``, unless another comes before that."""
        with self._condition:
            self._newest = (number, text)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="maxlab goal", daemon=True)
                self._thread.start()
            self._condition.notify_all()

    def stop(self) -> None:
        """Check nothing any more."""
        with self._condition:
            self._is_over = True
            self._condition.notify_all()

    def _work(self) -> None:
        while True:
            with self._condition:
                while self._newest is None and not self._is_over:
                    self._condition.wait()
                while not self._is_over:
                    asked = self._newest
                    self._condition.wait(QUIET_S)
                    if asked is self._newest:
                        break
                if self._is_over or self._newest is None:
                    return
                number, text = self._newest
                self._newest = None
            self._look(number, text)

    def _look(self, number: int, text: str) -> None:
        try:
            graph = graph_of(text, "the document")
            goal = graph.document.goal
            program = generic(graph.function)
            if goal is None or program == self._checked:  # a place or a comment was changed
                return
            self._tell(number, None, None)
            self._tell(number, check(graph, goal), None)
            self._checked = program
        except Exception as error:  # the page says it; the next text must be looked at
            trace.emit("warning", "goal", message=str(error))
            self._tell(number, None, error)


__all__ = ["Part", "Watch", "check", "goal_of"]

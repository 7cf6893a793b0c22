"""``Lesson`` and ``Goal``: what a document teaches, and what its graph has to become.

Both stand in the document, beside the graph. A goal has the types that the outputs shall have, and
numbers: arrays for the inputs, and what a graph that solves it gives for them. Who opens the file
as text sees these numbers, and no graph that gives them.

While the graph is there they are notes of its function, as comments are, so that setting one is a
step that is undone.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

import numpy as np

from maxlab.errors import ArgumentError, shown
from maxlab.graph.notes import Refuse, cannot_hold
from maxlab.ir import Function
from maxlab.ir.function_json import Json

DTYPES = ("bool", "float32", "float64", "int32", "int64")
"""Of the arrays of a goal."""
MOST_NUMBERS = 1 << 16
"""Of one array of a goal."""
LESSON: Final = "lesson"
GOAL: Final = "goal"
"""The tables of notes, which have one note each, under an empty key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """The subject of a document, and how it is worked through.

    Attributes:
        title: Its name in the gallery and above the text.
        says: What it is, in a sentence, for the gallery.
        text: What stands beside the graph: paragraphs, ``## headings``, ``- lists``, ``**bold**``,
            ``*slanted*`` and ``code`` in backticks. HTML in it is text.
        hints: Shown one after the other, each when it is asked for.
        more: Fields that this version does not know.
    """

    title: str
    says: str = ""
    text: str = ""
    hints: tuple[str, ...] = ()
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Case:
    """Arrays for the inputs, and what a graph that meets the goal gives for them."""

    inputs: tuple[np.ndarray[Any, Any], ...]
    outputs: tuple[np.ndarray[Any, Any], ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Goal:
    """The goal that the graph of a document has to reach.

    Attributes:
        types: Those of the outputs, such as ``"float32[batch, 10]"``; none where any will do. A dim
            with a name stands for any that has one.
        cases: Numbers that it has to give.
        tolerance: How far a number may be off, as part of the largest of its array.
        more: Fields that this version does not know.

    Raises:
        ArgumentError: ML824, there is neither a type nor a case, or the tolerance or an array is
            none that a goal can have.
    """

    types: tuple[str, ...] = ()
    cases: tuple[Case, ...] = ()
    tolerance: float = 1e-4
    more: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.types and not self.cases:
            _wrong("it has neither types nor cases", 'give types=("float32[n, 4]",), or cases')
        if not (math.isfinite(self.tolerance) and self.tolerance >= 0):
            _wrong(f"the tolerance is {self.tolerance}", "give a number such as 1e-4")
        for number, case in enumerate(self.cases):
            if not case.outputs:
                _wrong(f"case {number} has no outputs", "give what the graph has to give")
            for array in (*case.inputs, *case.outputs):
                kind = getattr(array, "dtype", type(array).__name__)
                if str(kind) not in DTYPES:
                    _wrong(
                        f"case {number} has an array of {kind}",
                        f"one of {', '.join(DTYPES)} is right",
                    )
                if array.size > MOST_NUMBERS:
                    _wrong(
                        f"case {number} has an array of {array.size:,} numbers",
                        f"at most {MOST_NUMBERS:,} are read by people who look at them",
                    )
                if array.dtype.kind == "f" and not np.isfinite(array).all():
                    _wrong(f"case {number} has a number that is not finite", "leave it out")


def _wrong(what: str, fix: str) -> NoReturn:
    raise ArgumentError("ML824", f"this is no goal for a graph: {what}", fix=fix)


# ---------------------------------------------------------------- in a document
def lesson_data(lesson: Lesson) -> Json:
    """``lesson`` as it stands in a document."""
    made: Json = {**lesson.more, "title": lesson.title}
    for name in ("says", "text"):
        if getattr(lesson, name):
            made[name] = getattr(lesson, name)
    if lesson.hints:
        made["hints"] = list(lesson.hints)
    return made


def read_lesson(data: Any, refuse: Refuse) -> Lesson:
    """The lesson that ``data`` is."""
    if not isinstance(data, dict):
        refuse(f"the lesson is {shown(data)}, expected an object", "lesson")
    texts = {name: data.get(name, "") for name in ("title", "says", "text")}
    for name, value in texts.items():
        if not isinstance(value, str):
            refuse(f"the {name} of the lesson is {shown(value)}, expected a text", "lesson")
    hints = data.get("hints", [])
    if not isinstance(hints, list) or not all(isinstance(hint, str) for hint in hints):
        refuse(f"the hints of the lesson are {shown(hints)}, expected a list of texts", "lesson")
    known = {"title", "says", "text", "hints"}
    more = {name: value for name, value in data.items() if name not in known}
    return Lesson(**texts, hints=tuple(hints), more=more)


def goal_data(goal: Goal) -> Json:
    """``goal`` as it stands in a document."""
    made: Json = dict(goal.more)
    if goal.types:
        made["types"] = list(goal.types)
    if goal.cases:
        made["cases"] = [
            {
                "inputs": [_array_data(array) for array in case.inputs],
                "outputs": [_array_data(array) for array in case.outputs],
            }
            for case in goal.cases
        ]
        made["tolerance"] = goal.tolerance
    return made


def read_goal(data: Any, refuse: Refuse) -> Goal:
    """The goal that ``data`` is."""
    if not isinstance(data, dict):
        refuse(f"the goal is {shown(data)}, expected an object", "goal")
    types, cases = data.get("types", []), data.get("cases", [])
    if not isinstance(types, list) or not all(isinstance(type, str) for type in types):
        refuse(f"the types of the goal are {shown(types)}, expected a list of texts", "goal")
    if not isinstance(cases, list):
        refuse(f"the cases of the goal are {shown(cases)}, expected a list", "goal")
    tolerance = data.get("tolerance", 1e-4)
    if tolerance.__class__ not in (int, float):
        refuse(f"the tolerance of the goal is {shown(tolerance)}, expected a number", "goal")
    made = []
    for case in cases:
        if not isinstance(case, dict):
            refuse(f"a case of the goal is {shown(case)}, expected an object", "goal")
        sides = []
        for side in ("inputs", "outputs"):
            arrays = case.get(side)
            if not isinstance(arrays, list):
                refuse(f"the {side} of a case are {shown(arrays)}, expected a list", "goal")
            sides.append(tuple(_array(array, refuse) for array in arrays))
        made.append(Case(inputs=sides[0], outputs=sides[1]))
    known = {"types", "cases", "tolerance"}
    more = {name: value for name, value in data.items() if name not in known}
    try:
        return Goal(types=tuple(types), cases=tuple(made), tolerance=tolerance, more=more)
    except ArgumentError as error:
        refuse(error.what, "goal")


def _array_data(array: np.ndarray[Any, Any]) -> Json:
    """Each number in as few digits as tell it from its neighbours."""
    flat = array.ravel()
    data = [float(str(x)) for x in flat] if array.dtype.kind == "f" else flat.tolist()
    return {"data": data, "dtype": str(array.dtype), "shape": list(array.shape)}


def _array(data: Any, refuse: Refuse) -> np.ndarray[Any, Any]:
    if not isinstance(data, dict):
        refuse(f"an array of the goal is {shown(data)}, expected an object", "goal")
    shape: Any = data.get("shape")
    dtype, numbers = data.get("dtype"), data.get("data")
    if dtype not in DTYPES:
        refuse(f"an array of the goal is of {shown(dtype)}, expected {', '.join(DTYPES)}", "goal")
    is_shape = isinstance(shape, list) and all(
        n.__class__ is int and 0 <= n <= MOST_NUMBERS for n in shape
    )
    kinds = {"bool": (bool,), "float32": (int, float), "float64": (int, float)}.get(dtype, (int,))
    if (
        not is_shape
        or not isinstance(numbers, list)
        or math.prod(shape) != len(numbers)
        or not all(number.__class__ in kinds for number in numbers)
    ):
        refuse("an array of the goal has no numbers of its shape and dtype", "goal")
    try:
        return np.array(numbers, dtype).reshape(shape)
    except OverflowError:
        refuse(f"an array of the goal has a number that {dtype} cannot hold", "goal")


# ---------------------------------------------------------------- of a graph
def lesson_of(function: Function) -> Lesson | None:
    """The lesson of ``function``; None without one."""
    note = function.notes.get(LESSON, {}).get("")
    return None if note is None else read_lesson(_loaded(note, LESSON), cannot_hold)


def goal_of(function: Function) -> Goal | None:
    """The goal of ``function``; None without one."""
    note = function.notes.get(GOAL, {}).get("")
    return None if note is None else read_goal(_loaded(note, GOAL), cannot_hold)


def taught_by(function: Function) -> Json:
    """The lesson and the goal of ``function``, if it has them, as they stand in a document."""
    notes = ((table, function.notes.get(table, {}).get("")) for table in (GOAL, LESSON))
    return {table: _loaded(note, table) for table, note in notes if note is not None}


def set_lesson(function: Function, lesson: Lesson | None) -> None:
    """Let ``function`` have ``lesson``, or none.

    Raises:
        DocumentError: ML867, it is no lesson, or has what no file can hold.
    """
    if lesson is not None and not isinstance(lesson, Lesson):
        cannot_hold(f"the lesson is {shown(lesson)}, expected a Lesson", "")
    data = None if lesson is None else lesson_data(lesson)
    if data is not None:
        read_lesson(data, cannot_hold)
    function.set_note(LESSON, "", None if data is None else _note(data, LESSON))


def set_goal(function: Function, goal: Goal | None) -> None:
    """Let ``function`` have ``goal``, or none.

    Raises:
        DocumentError: ML867, it is no goal, or has what no file can hold.
    """
    if goal is not None and not isinstance(goal, Goal):
        cannot_hold(f"the goal is {shown(goal)}, expected a Goal", "")
    function.set_note(GOAL, "", None if goal is None else _note(goal_data(goal), GOAL))


def _note(data: Json, what: str) -> str:
    try:
        return json.dumps(
            data, ensure_ascii=False, sort_keys=True, allow_nan=False, separators=(",", ":")
        )
    except (TypeError, ValueError, RecursionError) as error:
        cannot_hold(f"the {what}: {error}", "")


def _loaded(note: str, what: str) -> Any:
    try:
        return json.loads(note)
    except (ValueError, RecursionError):
        cannot_hold(f"the {what} is {shown(note)}, expected JSON", "")


__all__ = [
    "GOAL",
    "LESSON",
    "Case",
    "Goal",
    "Lesson",
    "goal_data",
    "goal_of",
    "lesson_data",
    "lesson_of",
    "read_goal",
    "read_lesson",
    "set_goal",
    "set_lesson",
    "taught_by",
]

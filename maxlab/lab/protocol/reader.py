"""Reads what came from elsewhere by its declaration: one reader for all that is declared.

Classes of ``TypedDict``, ``Literal``, unions, lists, tuples and dicts are walked as they were
declared. Of a union of classes the one is read whose ``Literal`` fields fit.
"""

from __future__ import annotations

import json
import math
import types
from collections.abc import Mapping
from functools import cache
from typing import (
    Any,
    Literal,
    NoReturn,
    NotRequired,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from maxlab.errors import ArgumentError
from maxlab.lab.protocol import (
    board,
    dashboard,
    editor,
    files,
    generation,
    hints,
    messages,
    questions,
    sampling,
)
from maxlab.lab.protocol.messages import PROTOCOL

MOST_SHOWN = 24
"""Characters of a text that a message repeats."""

NOTHING = object()
"""Stands for a value that is not there."""


class MismatchError(ValueError):
    """Something is not as it is declared.

    Attributes:
        path: Where it is, such as ``"nodes[3].op"``; empty for the whole.
        reason: What was expected, and what is there.
    """

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"{path}: {reason}" if path else reason)


def check(value: object, kind: Any, *, closed: bool) -> None:
    """Check that ``value``, read from JSON, is of the declared type ``kind``.

    Args:
        value: What came.
        kind: A type of this package.
        closed: Refuse fields that are not declared. Documents are open: later versions add fields.

    Raises:
        MismatchError: It is not.
    """
    _check("", value, kind, closed)


def _check(path: str, value: object, kind: Any, closed: bool) -> None:
    if kind is object or kind is Any:
        return
    if is_typeddict(kind):
        _record(path, value, kind, closed)
        return
    origin, inside = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        _union(path, value, inside, closed)
    elif origin is Literal:
        if not any(type(value) is type(one) and value == one for one in inside):
            _wrong(path, _words(inside), value)
    elif origin is list:
        if not isinstance(value, (list, tuple)):
            _wrong(path, "a list", value)
        for n, one in enumerate(value):
            _check(f"{path}[{n}]", one, inside[0], closed)
    elif origin is tuple:
        if not isinstance(value, (list, tuple)) or len(value) != len(inside):
            _wrong(path, f"a list of {len(inside)}", value)
        for n, (one, part) in enumerate(zip(value, inside, strict=True)):
            _check(f"{path}[{n}]", one, part, closed)
    elif origin is dict:
        if not isinstance(value, Mapping):
            _wrong(path, "an object", value)
        for key, one in value.items():
            if not isinstance(key, str):
                _wrong(path, "names as keys", key)
            _check(_inside(path, key), one, inside[1], closed)
    elif not _fits(value, kind):
        _wrong(path, _NAMES[kind], value)


def _record(path: str, value: object, kind: Any, closed: bool) -> None:
    if not isinstance(value, dict):
        _wrong(path, "an object", value)
    fields = fields_of(kind)
    for name, (inner, is_optional) in fields.items():
        if name in value:
            _check(_inside(path, name), value[name], inner, closed)
        elif not is_optional:
            raise MismatchError(_inside(path, name), "it is missing")
    if closed:
        for name in value:
            if name not in fields:
                raise MismatchError(_inside(path, str(name)[:MOST_SHOWN]), "it is not declared")


def _union(path: str, value: object, members: tuple[Any, ...], closed: bool) -> None:
    outside = [one for one in members if _fits(value, one)]
    if not outside:
        given = [one for one in members if one not in (None, types.NoneType)]
        if len(given) == 1:
            _check(path, value, given[0], closed)
        names = {_name(one) for one in members}
        _wrong(path, " or ".join(name for name in _KINDS if name in names), value)
    if len(outside) == 1 or not isinstance(value, dict):
        _check(path, value, outside[0], closed)
        return
    tag = tag_of(tuple(one for one in outside if is_typeddict(one)))
    found = value.get(tag)
    for one in outside:
        if is_typeddict(one) and found in get_args(fields_of(one)[tag][0]):
            _record(path, value, one, closed)
            return
    known = tuple(word for one in outside for word in get_args(fields_of(one)[tag][0]))
    _wrong(_inside(path, tag), _words(known), found if tag in value else NOTHING)


@cache
def fields_of(kind: Any) -> dict[str, tuple[Any, bool]]:
    """The fields of a class: by name the type, and whether it may be missing."""
    found = {}
    for name, hint in get_type_hints(kind, include_extras=True).items():
        is_optional = get_origin(hint) is NotRequired
        found[name] = (get_args(hint)[0] if is_optional else hint, is_optional)
    return found


@cache
def tag_of(members: tuple[Any, ...]) -> str:
    """The field that tells the classes of a union apart: a ``Literal`` in each, another in each."""
    first, *_ = members
    for name in fields_of(first):
        words: list[Any] = []
        for one in members:
            hint = fields_of(one).get(name, (None, False))[0]
            words += get_args(hint) if get_origin(hint) is Literal else [None]
        if None not in words and len(set(words)) == len(words):
            return name
    names = ", ".join(one.__name__ for one in members)
    raise TypeError(f"no field tells {names} apart")


_NAMES = {
    str: "text",
    int: "a whole number",
    float: "a finite number",
    bool: "true or false",
    types.NoneType: "null",
    None: "null",
}


_KINDS = ("null", "text", "a number", "true or false", "a list", "an object")


def _name(kind: Any) -> str:
    """The kind of value that a type is of, in a word of ``_KINDS``."""
    if kind in (int, float):
        return "a number"
    if kind in _NAMES:
        return _NAMES[kind]
    if get_origin(kind) is Literal:
        return "text" if isinstance(get_args(kind)[0], str) else "a number"
    return "a list" if get_origin(kind) in (list, tuple) else "an object"


def _words(known: tuple[Any, ...]) -> str:
    return " or ".join(json.dumps(word) for word in known)


def _fits(value: object, kind: Any) -> bool:
    """Whether the outermost of ``value`` is of the type ``kind``."""
    if kind is None or kind is types.NoneType:
        return value is None
    if kind is float:
        return isinstance(value, (int, float)) and type(value) is not bool and _is_finite(value)
    if kind is int:
        return type(value) is int and _is_finite(value)
    if is_typeddict(kind) or get_origin(kind) is dict:
        return isinstance(value, dict)
    if get_origin(kind) is Literal:
        return any(type(value) is type(one) and value == one for one in get_args(kind))
    if get_origin(kind) in (list, tuple):
        return isinstance(value, (list, tuple))
    return kind in (object, Any) or isinstance(value, kind)


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _inside(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _wrong(path: str, wanted: str, value: object) -> NoReturn:
    raise MismatchError(path, f"expected {wanted}, got {described(value)}")


def described(value: object) -> str:
    """A few words for ``value``, as the front end's readers say it."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case str():
            return f"text {json.dumps(value[:MOST_SHOWN], ensure_ascii=False)}"
        case int() | float():
            return f"{value!r:.40}" if _is_finite(value) else "a number without end"
        case list() | tuple():
            return "a list"
        case dict():
            return "an object"
    return "nothing" if value is NOTHING else f"a {type(value).__name__}"


# ---------------------------------------------------------------- messages

MessageT = TypeVar("MessageT")
ArgsT = TypeVar("ArgsT")
AnswerT = TypeVar("AnswerT")


def client_message(content: object) -> messages.ClientMessage:
    """``content``, a message from the view of a graph.

    Raises:
        ArgumentError: ML862, it is none: a field is missing, of another type, or not declared;
            ML863, it is of another version of the protocol.
    """
    _check_message(content, messages.ClientMessage)
    message: Any = content
    found: messages.ClientMessage = message
    return found


def dashboard_message(content: object) -> dashboard.DashboardClientMessage:
    """``content``, a message from a dashboard.

    Raises:
        ArgumentError: ML862 and ML863, as ``client_message``.
    """
    _check_message(content, dashboard.DashboardClientMessage)
    message: Any = content
    found: dashboard.DashboardClientMessage = message
    return found


def sampling_message(content: object) -> sampling.SamplingClientMessage:
    """``content``, a message from a view of sampling.

    Raises:
        ArgumentError: ML862 and ML863, as ``client_message``.
    """
    _check_message(content, sampling.SamplingClientMessage)
    message: Any = content
    found: sampling.SamplingClientMessage = message
    return found


def generation_message(content: object) -> generation.GenerationClientMessage:
    """``content``, a message from an answer whose tokens can be chosen.

    Raises:
        ArgumentError: ML862 and ML863, as ``client_message``.
    """
    _check_message(content, generation.GenerationClientMessage)
    message: Any = content
    found: generation.GenerationClientMessage = message
    return found


def board_message(content: object) -> board.BoardClientMessage:
    """``content``, a message from the board of a scheduler.

    Raises:
        ArgumentError: ML862 and ML863, as ``client_message``.
    """
    _check_message(content, board.BoardClientMessage)
    message: Any = content
    found: board.BoardClientMessage = message
    return found


def compare_question(content: object) -> files.CompareQuestion:
    """``content``, what a page wants to compare.

    Raises:
        MismatchError: It is something else.
    """
    check(content, files.CompareQuestion, closed=False)
    question: Any = content
    found: files.CompareQuestion = question
    return found


def editor_open(content: object) -> editor.EditorOpen:
    """``content``, the first message of an editor.

    Raises:
        ArgumentError: ML862 and ML863, as ``client_message``.
    """
    _check_message(content, editor.EditorOpen)
    message: Any = content
    found: editor.EditorOpen = message
    return found


def editor_message(content: object) -> editor.EditorClientMessage:
    """``content``, a later message of an editor.

    Raises:
        ArgumentError: ML862 and ML863, as ``client_message``.
    """
    _check_message(content, editor.EditorClientMessage)
    message: Any = content
    found: editor.EditorClientMessage = message
    return found


def hints_open(content: object) -> hints.HintsOpen:
    """``content``, the first message of a page that shows hints.

    Raises:
        ArgumentError: ML862 and ML863, as ``client_message``.
    """
    _check_message(content, hints.HintsOpen)
    message: Any = content
    found: hints.HintsOpen = message
    return found


def cell_cancel(content: object) -> messages.CellCancel:
    """``content``, a wish to cancel what a cell does.

    Raises:
        ArgumentError: ML862 and ML863, as ``client_message``.
    """
    _check_message(content, messages.CellCancel)
    wish: Any = content
    found: messages.CellCancel = wish
    return found


def _check_message(content: object, kind: Any) -> None:
    version = content.get("protocol", PROTOCOL) if isinstance(content, dict) else PROTOCOL
    if type(version) is int and version != PROTOCOL:
        raise ArgumentError(
            "ML863",
            f"the page speaks version {described(version)} of the protocol, the kernel {PROTOCOL}",
            fix="save the notebook, restart the kernel and reload the page",
        )
    try:
        check(content, kind, closed=True)
    except MismatchError as mismatch:
        raise ArgumentError(
            "ML862",
            f"a message of the page cannot be read: {mismatch}",
            fix="reload the page: it is of another version than the kernel",
        ) from None


def arguments(question: questions.Question[ArgsT, AnswerT], given: object) -> ArgsT:
    """``given``, the arguments of ``question``.

    Raises:
        ArgumentError: ML862, one is missing, of another type, or not declared.
    """
    try:
        check(given, types_of(question)[0], closed=True)
    except MismatchError as mismatch:
        raise ArgumentError(
            "ML862",
            f"the arguments of the question {question.name!r} cannot be read: {mismatch}",
            fix="reload the page: it is of another version than the kernel",
        ) from None
    args: Any = given
    found: ArgsT = args
    return found


def types_of(question: questions.Question[ArgsT, AnswerT]) -> tuple[Any, Any]:
    """The types of a question's arguments and of its answer."""
    return _declared()[question.name]


def question_of(name: str) -> questions.Question[Any, Any] | None:
    """The question with this name; None when there is none."""
    return questions.Question(name) if name in _declared() else None


@cache
def _declared() -> dict[str, tuple[Any, Any]]:
    found: dict[str, tuple[Any, Any]] = {}
    for constant, hint in get_type_hints(questions).items():
        if get_origin(hint) is questions.Question:
            args, answer = get_args(hint)
            found[getattr(questions, constant).name] = (args, answer)
    return found

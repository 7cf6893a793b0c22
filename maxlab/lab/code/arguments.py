"""Arguments of calls, set one by one: what is not set stays as it is written."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from maxlab.graph import TensorValue
from maxlab.graph.editing import OPERATIONS
from maxlab.ir import BufferType, TensorType, Type
from maxlab.lab.code.refusing import unread
from maxlab.lab.code.wording import Names, literal, shape_text, type_text

if TYPE_CHECKING:
    import libcst


@dataclass(frozen=True, slots=True)
class Callee:
    """The callee of a call: its parameters, in order, without the value whose method it is."""

    parameters: tuple[str, ...]

    def has(self, name: str) -> bool:
        """Whether it has the parameter ``name``."""
        return name in self.parameters


def callee_of(function: Any, method: str, wanted: str) -> Callee | None:
    """The callee ``function``, or the ``method`` of a value; None where that is not the function
    ``wanted`` of ``ops``.
    """
    skipped = 0
    if method:
        function, skipped = getattr(TensorValue, method, None), 1
        if method != wanted or function is None:
            return None
    elif function is None or OPERATIONS.get(wanted) is not function:
        return None
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    found = list(inspect.signature(function).parameters.values())[skipped:]
    if any(one.kind not in kinds for one in found):
        return None
    return Callee(tuple(one.name for one in found))


def set_arguments(text: str, callee: Callee, changed: Mapping[str, str | None]) -> str:
    """The call ``text`` with other arguments.

    Args:
        text: A call.
        callee: What it calls.
        changed: The texts of arguments by name; None for one that is left out.

    Raises:
        CodeError: ML875, they are given in a way that cannot be followed, such as ``*values``.

    Example:
        >>> callee = Callee(("value", "axis"))
        >>> set_arguments("ops.softmax(x, -1)", callee, {"axis": "0"})
        'ops.softmax(x, 0)'
        >>> set_arguments("ops.softmax( x )", callee, {"axis": "0"})
        'ops.softmax( x, axis=0 )'
    """
    import libcst as cst

    call = _call(text)
    args = list(call.args)
    if any(one.star for one in args):
        raise unread(f"{text[:60]!r} takes its arguments from elsewhere", "change it by hand")
    for name, value in changed.items():
        place = next(
            (
                number
                for number, one in enumerate(args)
                if (one.keyword.value if one.keyword is not None else None) == name
                or (one.keyword is None and callee.parameters[number : number + 1] == (name,))
            ),
            None,
        )
        if value is None:
            if place is None:
                continue
            if args[place].keyword is None and place + 1 < len(args):
                raise unread(f"{name} of {text[:60]!r} stands before others", "change it by hand")
            del args[place]
            if args and place == len(args):
                args[-1] = args[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        elif place is not None:
            args[place] = args[place].with_changes(value=_expression(value))
        else:
            args = _with(args, name, value)
    return cst.Module([]).code_for_node(call.with_changes(args=args))


def _with(args: list[libcst.Arg], name: str, value: str) -> list[libcst.Arg]:
    import libcst as cst

    new = cst.Arg(
        _expression(value),
        keyword=cst.Name(name),
        equal=cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace("")),
    )
    if not args:
        return [new]
    last = args[-1]
    if isinstance(last.comma, cst.Comma):  # it stands on its own line, or is written so
        if len(args) > 1 and isinstance(args[-2].comma, cst.Comma):
            between = args[-2].comma
        else:
            between = cst.Comma(whitespace_after=last.comma.whitespace_after)
        end = last.comma
        return [*args[:-1], last.with_changes(comma=between), new.with_changes(comma=end)]
    after = last.whitespace_after_arg
    comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    return [
        *args[:-1],
        last.with_changes(comma=comma, whitespace_after_arg=cst.SimpleWhitespace("")),
        new.with_changes(whitespace_after_arg=after),
    ]


def _call(text: str) -> libcst.Call:
    import libcst as cst

    try:
        found = cst.parse_expression(text)
    except (cst.ParserSyntaxError, RecursionError) as error:
        raise unread(f"{text[:60]!r} cannot be read apart", "change it by hand") from error
    if not isinstance(found, cst.Call):
        raise unread(f"{text[:60]!r} is no call", "change it by hand")
    return found


def _expression(text: str) -> libcst.BaseExpression:
    import libcst as cst

    return cst.parse_expression(text)


TYPE = Callee(("dtype", "shape", "device"))


def type_with(text: str, old: Type, new: Type, names: Names) -> str:
    """The type of an input as ``text`` writes ``old``, for ``new``; what is the same stays as it is
    written.

    Raises:
        CodeError: ML876, it cannot be written.
    """
    whole = type_text(new, names)
    kinds = (TensorType, BufferType)
    if not isinstance(old, kinds) or not isinstance(new, kinds):
        return whole
    try:
        call = _call(text)
    except Exception:
        return whole
    name = _call(whole).func
    if not call.func.deep_equals(name):
        return whole
    changed: dict[str, str | None] = {}
    if old.dtype != new.dtype:
        changed["dtype"] = literal(new.dtype, names)
    if old.shape != new.shape:
        changed["shape"] = shape_text(new.shape, names)
    if old.device != new.device:
        changed["device"] = literal(new.device, names)
    return set_arguments(text, TYPE, changed)


__all__ = ["Callee", "callee_of", "set_arguments", "type_with"]

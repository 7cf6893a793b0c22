"""Conditions in the text of a kernel, and the lines and words that they choose.

::

    // @if T in (float16, bfloat16) and known(n)
    f32 sum = 0;
    // @elif T == int64
    u64 sum = 0;
    // @else
    T sum = 0;
    // @endif

A condition is an expression of Python with names of parameters, type variables, dtypes and sizes,
numbers, texts, ``and or not in == != < <= > >= + - * // %``, and the functions of ``FUNCTIONS``.
It is decided when the op is compiled, so a size in it must be known by then; ``known(n)`` asks.
"""

from __future__ import annotations

import ast
import functools
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from maxlab.dtype import DType
from maxlab.errors import MaxlabError

INNER = re.compile(r"\s*//\s*@(if|elif|else|endif)\b\s*(.*?)\s*$")
"""A line within a text that chooses among the lines around it."""
FUNCTIONS: Mapping[str, Callable[[Any], Any]] = {
    "is_float": lambda dtype: dtype.is_float(),
    "is_signed": lambda dtype: dtype.is_signed_integral(),
    "is_half": lambda dtype: dtype in (DType.float16, DType.bfloat16),
    "bits": lambda dtype: 8 if dtype is DType.bool else dtype.size_in_bits,
}
"""The functions of a dtype that conditions may call; they may also call ``known(size)``."""
_COMPARED: Mapping[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda one, several: one in several,
    ast.NotIn: lambda one, several: one not in several,
}
_COMPUTED: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}

_PLAIN = (
    ast.BoolOp, ast.boolop, ast.Compare, ast.Name, ast.Tuple, ast.List, ast.expr_context,
    ast.Not, ast.USub,
)  # fmt: skip


class ConditionError(ValueError):
    """A condition, or lines around it, that cannot be read; ``line`` counts from 0."""

    def __init__(self, what: str, line: int = 0) -> None:
        super().__init__(what)
        self.what, self.line = what, line


class UnknownSizeError(ValueError):
    """A condition asks for a size that is not known when the op is compiled."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class Unknown:
    """The value of a size that is not known when the op is compiled."""


UNKNOWN = Unknown()


class Condition:
    """A condition that was read.

    Example:
        >>> Condition("N < 4 and MODE == 'max'").holds({"N": 3, "MODE": "max"})
        True
    """

    def __init__(self, text: str) -> None:
        self.text = text
        try:
            self._tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise ConditionError(f"{text!r} is not a condition") from None
        for node in ast.walk(self._tree):
            self._check(node)

    def _check(self, node: ast.AST) -> None:
        fits = isinstance(node, _PLAIN) or type(node) in (*_COMPARED, *_COMPUTED)
        if isinstance(node, ast.UnaryOp):
            fits = isinstance(node.op, (ast.Not, ast.USub))
        elif isinstance(node, ast.BinOp):
            fits = type(node.op) in _COMPUTED
        elif isinstance(node, ast.Constant):
            fits = isinstance(node.value, (int, float, str))
        elif isinstance(node, ast.Call):
            named = isinstance(node.func, ast.Name) and node.func.id in (*FUNCTIONS, "known")
            fits = named and len(node.args) == 1 and not node.keywords
            fits = fits and isinstance(node.args[0], ast.Name)
        if not fits:
            raise ConditionError(f"{self.text!r} has {ast.unparse(node)!r} in it")

    def names(self) -> set[str]:
        """The names in it, without those of functions and dtypes."""
        called = {n.func for n in ast.walk(self._tree) if isinstance(n, ast.Call)}
        named = {n.id for n in ast.walk(self._tree) if isinstance(n, ast.Name) and n not in called}
        return {name for name in named if name not in DType.__members__}

    def holds(self, env: Mapping[str, Any]) -> bool:
        """Whether it is true where names have the values of ``env``.

        Raises:
            UnknownSizeError: It needs a size that is ``UNKNOWN``.
            ConditionError: It compares what cannot be compared, or names what ``env`` lacks.
        """
        try:
            return bool(self._value(self._tree, env))
        except (TypeError, AttributeError, ZeroDivisionError) as error:
            said = error.what if isinstance(error, MaxlabError) else error
            raise ConditionError(f"{self.text!r} cannot be decided: {said}") from None

    def _value(self, node: ast.expr, env: Mapping[str, Any]) -> Any:
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return self._named(node.id, env)
        if isinstance(node, (ast.Tuple, ast.List)):
            return [self._value(each, env) for each in node.elts]
        if isinstance(node, ast.BoolOp):
            wanted = isinstance(node.op, ast.Or)
            return wanted == any(bool(self._value(e, env)) == wanted for e in node.values)
        if isinstance(node, ast.UnaryOp):
            value = self._value(node.operand, env)
            return not value if isinstance(node.op, ast.Not) else -value
        if isinstance(node, ast.BinOp):
            apply = _COMPUTED[type(node.op)]
            return apply(self._value(node.left, env), self._value(node.right, env))
        if isinstance(node, ast.Call):
            assert isinstance(node.func, ast.Name)
            (argument,) = node.args
            assert isinstance(argument, ast.Name)
            if node.func.id == "known":
                return env.get(argument.id, UNKNOWN) is not UNKNOWN
            return FUNCTIONS[node.func.id](self._value(argument, env))
        assert isinstance(node, ast.Compare)
        left = self._value(node.left, env)
        for sign, each in zip(node.ops, node.comparators, strict=True):
            right = self._value(each, env)
            if not _COMPARED[type(sign)](left, right):
                return False
            left = right
        return True

    def _named(self, name: str, env: Mapping[str, Any]) -> Any:
        if name in env:
            value = env[name]
            if value is UNKNOWN:
                raise UnknownSizeError(name)
            return value
        if name in DType.__members__:
            return DType[name]
        raise ConditionError(f"{self.text!r} names {name!r}, which is not declared")


@functools.lru_cache(maxsize=4096)
def condition(text: str) -> Condition:
    """The condition that ``text`` spells.

    Raises:
        ConditionError: It spells none.
    """
    return Condition(text)


def conditions_in(text: str) -> Iterator[tuple[int, Condition]]:
    """The conditions of the lines ``@if`` and ``@elif`` of ``text``, each with its line.

    Raises:
        ConditionError: One cannot be read, or such lines do not belong together.
    """
    opened: list[tuple[int, bool]] = []
    for number, line in enumerate(text.split("\n")):
        found = INNER.match(line)
        if found is None:
            continue
        word, rest = found.groups()
        if word in ("if", "elif"):
            try:
                yield number, condition(rest)
            except ConditionError as error:
                raise ConditionError(error.what, number) from None
        elif rest:
            raise ConditionError(f"@{word} takes nothing behind it, got {rest!r}", number)
        if word == "if":
            opened.append((number, False))
        elif not opened:
            raise ConditionError(f"@{word} stands behind no @if", number)
        elif word == "endif":
            opened.pop()
        else:
            first, closed = opened[-1]
            if closed:
                raise ConditionError(f"@{word} stands behind @else", number)
            opened[-1] = first, word == "else"
    if opened:
        raise ConditionError("@if has no @endif", opened[-1][0])


def chosen_lines(text: str, env: Mapping[str, Any]) -> list[tuple[int, str]]:
    """The lines of ``text`` that its conditions choose, each with its number from 0.

    Raises:
        UnknownSizeError: A condition needs a size that is ``UNKNOWN``.
        ConditionError: A condition cannot be decided.
    """
    made: list[tuple[int, str]] = []
    stack: list[tuple[bool, bool]] = []  # whether lines count here, and whether a branch did before
    for number, line in enumerate(text.split("\n")):
        found = INNER.match(line)
        counts = all(here for here, _ in stack)
        if found is None:
            if counts:
                made.append((number, line))
            continue
        word, rest = found.groups()
        if word == "if":
            holds = counts and condition(rest).holds(env)
            stack.append((holds, holds))
        elif word == "endif":
            stack.pop()
        else:
            _, taken = stack.pop()
            around = all(here for here, _ in stack)
            holds = around and not taken and (word == "else" or condition(rest).holds(env))
            stack.append((holds, taken or holds))
    return made


_PARTS = re.compile(r"\s+(if|else)\s+")


def chosen_words(text: str, env: Mapping[str, Any]) -> str:
    """The value that ``text``, ``A if CONDITION else B if CONDITION else C``, has with ``env``.

    Raises:
        UnknownSizeError: A condition needs a size that is ``UNKNOWN``.
        ConditionError: A condition cannot be decided.
    """
    for value, test in alternatives(text):
        if test is None or test.holds(env):
            return value
    raise ConditionError(f"{text!r} says nothing for this case")


@functools.lru_cache(maxsize=4096)
def alternatives(text: str) -> tuple[tuple[str, Condition | None], ...]:
    """The values of ``A if CONDITION else B``, each with its condition, None for the last.

    Raises:
        ConditionError: It is no such text.
    """
    parts = _PARTS.split(text.strip())
    made: list[tuple[str, Condition | None]] = []
    while len(parts) >= 3:
        value, word, test, *parts = parts
        if word != "if" or (parts and parts.pop(0) != "else"):
            raise ConditionError(f"{text!r} must be: A if CONDITION else B")
        made.append((value, condition(test)))
    if len(parts) > 1:
        raise ConditionError(f"{text!r} must be: A if CONDITION else B")
    if parts:
        made.append((parts[0], None))
    return tuple(made)


__all__ = [
    "FUNCTIONS",
    "INNER",
    "UNKNOWN",
    "Condition",
    "ConditionError",
    "UnknownSizeError",
    "alternatives",
    "chosen_lines",
    "chosen_words",
    "condition",
    "conditions_in",
]

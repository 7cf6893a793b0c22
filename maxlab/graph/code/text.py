"""Expressions of Python as they are written: one line where it fits, else one argument a line.

The form is that of ruff's formatter, so that it has nothing to change: double quotes, brackets
opened at the end of a line, a comma behind the last argument of a call that takes several lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

WIDTH: Final = 100
INDENT: Final = "    "

# How tightly an expression holds together.
_ATOM, _POWER, _SIGN, _PRODUCT, _SUM, _AND, _XOR, _OR, _COMPARE = range(9, 0, -1)
_PRECEDENCE: Final = {
    "**": _POWER,
    "*": _PRODUCT,
    "@": _PRODUCT,
    "/": _PRODUCT,
    "//": _PRODUCT,
    "%": _PRODUCT,
    "+": _SUM,
    "-": _SUM,
    "&": _AND,
    "^": _XOR,
    "|": _OR,
    ">": _COMPARE,
    ">=": _COMPARE,
    "<": _COMPARE,
    "<=": _COMPARE,
    "==": _COMPARE,
    "!=": _COMPARE,
}


class Node:
    """An expression."""

    precedence: int = _ATOM

    def flat(self) -> str:
        """The expression in one line."""
        raise NotImplementedError

    def lines(self, before: str, after: str, pad: str) -> list[str]:
        """The expression between ``before`` and ``after``, in lines that begin with ``pad``."""
        return [f"{pad}{before}{self.flat()}{after}"]

    @property
    def is_simple(self) -> bool:
        """Whether it is a name, a number, or an attribute of such."""
        return False


@dataclass(frozen=True, slots=True)
class Atom(Node):
    """A name, or a literal that is never taken apart."""

    text: str
    precedence: int = _ATOM

    def flat(self) -> str:
        return self.text

    @property
    def is_simple(self) -> bool:
        return all(c.isalnum() or c in "_.-" for c in self.text)


def number(text: str) -> Atom:
    """The number ``text``, which may have a sign."""
    return Atom(text, _SIGN if text.startswith("-") else _ATOM)


@dataclass(frozen=True, slots=True)
class Attribute(Node):
    """``of.name``."""

    of: Node
    name: str

    def flat(self) -> str:
        return f"{_held(self.of, _ATOM, as_base=True)}.{self.name}"

    @property
    def is_simple(self) -> bool:
        return self.of.is_simple


@dataclass(frozen=True, slots=True)
class Listed(Node):
    """A list, or a tuple in parentheses."""

    items: Sequence[Node]
    is_tuple: bool = False

    def flat(self) -> str:
        inner = ", ".join(item.flat() for item in self.items)
        if not self.is_tuple:
            return f"[{inner}]"
        return f"({inner},)" if len(self.items) == 1 else f"({inner})"

    def lines(self, before: str, after: str, pad: str) -> list[str]:
        left, right = "()" if self.is_tuple else "[]"
        return _exploded(self, [("", i) for i in self.items], left, right, (before, after, pad))


@dataclass(frozen=True, slots=True)
class Call(Node):
    """``function(*args, **kwargs)``."""

    function: Node
    args: Sequence[Node] = ()
    kwargs: Sequence[tuple[str, Node]] = ()

    def flat(self) -> str:
        parts = [arg.flat() for arg in self.args]
        parts += [f"{name}={value.flat()}" for name, value in self.kwargs]
        return f"{_held(self.function, _ATOM, as_base=True)}({', '.join(parts)})"

    def lines(self, before: str, after: str, pad: str) -> list[str]:
        function = _held(self.function, _ATOM, as_base=True)
        of = self.function.of if isinstance(self.function, Attribute) else None
        if isinstance(of, Call) and len(pad) + len(before) + len(self.flat()) + len(after) > WIDTH:
            return self._chain(of, before, after, pad)
        parts = [("", arg) for arg in self.args]
        parts += [(f"{name}=", value) for name, value in self.kwargs]
        return _exploded(self, parts, "(", ")", (before + function, after, pad), before)

    def _chain(self, of: Call, before: str, after: str, pad: str) -> list[str]:
        """The lines of a method of what the call ``of`` gives. The formatter puts each of several
        methods on a line of its own."""
        assert isinstance(self.function, Attribute)
        told = f".{Call(Atom(self.function.name), self.args, self.kwargs).flat()}"
        if isinstance(of.function, Attribute) and isinstance(of.function.of, Call):
            first = Call(Atom(of.function.name), of.args, of.kwargs).flat()
            inner = of.function.of.lines(before, "", pad)
            return [*inner, f"{pad}.{first}", f"{pad}{told}{after}"]
        return of.lines(before, f"{told}{after}", pad)


@dataclass(frozen=True, slots=True)
class Subscript(Node):
    """``of[items]``."""

    of: Node
    items: Sequence[Node]

    def flat(self) -> str:
        inner = ", ".join(item.flat() for item in self.items)
        return f"{_held(self.of, _ATOM, as_base=True)}[{inner}]"

    def lines(self, before: str, after: str, pad: str) -> list[str]:
        parts = [("", item) for item in self.items]
        of = _held(self.of, _ATOM, as_base=True)
        if len(parts) == 1:  # a comma behind it would make it a tuple
            if isinstance(self.of, Call):
                return self.of.lines(before, f"[{self.items[0].flat()}]{after}", pad)
            return Node.lines(self, before, after, pad)
        return _exploded(self, parts, "[", "]", (before + of, after, pad), before)


@dataclass(frozen=True, slots=True)
class Slice(Node):
    """``start:stop:step`` in a subscript."""

    start: Node | None = None
    stop: Node | None = None
    step: Node | None = None

    def flat(self) -> str:
        parts = [self.start, self.stop, *([self.step] if self.step is not None else [])]
        texts = ["" if part is None else part.flat() for part in parts]
        if all(part is None or _is_plain_bound(part) for part in parts):
            return ":".join(texts)
        made = texts[0]
        for text in texts[1:]:
            made = f"{made} :" if made else ":"
            made = f"{made} {text}" if text else made
        return made


def _is_plain_bound(node: Node) -> bool:
    text = node.flat()
    return text.removeprefix("-").replace("_", "").isalnum()


@dataclass(frozen=True, slots=True)
class Binary(Node):
    """``left operator right``."""

    operator: str
    left: Node
    right: Node
    precedence: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "precedence", _PRECEDENCE[self.operator])

    def flat(self) -> str:
        own = self.precedence
        if self.operator == "**":  # binds to the right, and tighter than a sign at its left
            left, right = _held(self.left, own + 1), _held(self.right, own - 1)
            hugs = self.left.is_simple and self.right.is_simple
            return f"{left}**{right}" if hugs else f"{left} ** {right}"
        # a < b < c is one comparison of three to Python
        least = own + (own == _COMPARE)
        return f"{_held(self.left, least)} {self.operator} {_held(self.right, own + 1)}"

    def lines(self, before: str, after: str, pad: str) -> list[str]:
        if len(pad) + len(before) + len(self.flat()) + len(after) <= WIDTH:
            return Node.lines(self, before, after, pad)
        own = self.precedence
        least = own + (own == _COMPARE)
        left, right = _held(self.left, least), _held(self.right, own + 1)
        inner = pad + INDENT
        lines = [f"{inner}{left}", f"{inner}{self.operator} {right}"]
        return [f"{pad}{before}(", *lines, f"{pad}){after}"]


@dataclass(frozen=True, slots=True)
class Unary(Node):
    """``operator of``."""

    operator: str
    of: Node
    precedence: int = _SIGN

    def flat(self) -> str:
        of = _held(self.of, _SIGN)
        if self.operator == "-" and of.startswith("-"):  # nobody reads two signs
            return f"ops.negate({self.of.flat()})"
        return f"{self.operator}{of}"


def _held(node: Node, least: int, as_base: bool = False) -> str:
    """``node``, in parentheses where it does not hold together as tightly as ``least`` asks."""
    text = node.flat()
    if as_base and isinstance(node, Atom) and text.replace("_", "").isdigit():
        return f"({text})"
    return text if node.precedence >= least else f"({text})"


def _exploded(
    node: Node,
    parts: Sequence[tuple[str, Node]],
    left: str,
    right: str,
    around: tuple[str, str, str],
    before: str | None = None,
) -> list[str]:
    start, after, pad = around
    flat = f"{pad}{start if before is None else before}{node.flat()}{after}"
    if len(flat) <= WIDTH or not parts:
        return [flat]
    lines = [f"{pad}{start}{left}"]
    for name, part in parts:
        lines += part.lines(name, ",", pad + INDENT)
    return [*lines, f"{pad}{right}{after}"]


def smaller(node: Node) -> Iterator[Node]:
    """``node`` with one argument less by name, for each that it has."""
    if isinstance(node, Call):
        for n in reversed(range(len(node.kwargs))):
            yield Call(node.function, node.args, [*node.kwargs[:n], *node.kwargs[n + 1 :]])


def mapped(node: Node, by: Callable[[Atom], Node]) -> Node:
    """``node`` with each name and number in it replaced by what ``by`` gives for it."""
    if isinstance(node, Atom):
        return by(node)
    changed: dict[str, Any] = {}
    for one in fields(node):  # type: ignore[arg-type]  # all nodes are dataclasses
        if not one.init:
            continue
        value = getattr(node, one.name)
        if isinstance(value, Node):
            changed[one.name] = mapped(value, by)
        elif one.name in ("args", "items"):
            changed[one.name] = [mapped(each, by) for each in value]
        elif one.name == "kwargs":
            changed[one.name] = [(key, mapped(each, by)) for key, each in value]
    made: Node = replace(node, **changed)  # type: ignore[type-var]  # as above
    return made


def head_lines(chosen: str, params: Sequence[str], pad: str = "") -> list[str]:
    """The first line of the function ``chosen``, or lines where one is too long."""
    flat = f"{pad}def {chosen}({', '.join(params)}):"
    if len(flat) <= WIDTH:
        return [flat]
    return [f"{pad}def {chosen}(", *(f"{pad}{INDENT}{p}," for p in params), f"{pad}):"]


def name(text: str) -> Node:
    """The name ``text``, which may have dots."""
    first, *rest = text.split(".")
    made: Node = Atom(first)
    for part in rest:
        made = Attribute(made, part)
    return made


def call(function: str, *args: Node, **kwargs: Node) -> Call:
    """``function(*args, **kwargs)``."""
    return Call(name(function), args, list(kwargs.items()))


def method(of: Node, function: str, *args: Node, **kwargs: Node) -> Call:
    """``of.function(*args, **kwargs)``."""
    return Call(Attribute(of, function), args, list(kwargs.items()))


def items(nodes: Iterable[Node]) -> Listed:
    """A list."""
    return Listed(list(nodes))


def together(nodes: Iterable[Node]) -> Listed:
    """A tuple."""
    return Listed(list(nodes), is_tuple=True)


def string(text: str) -> Atom:
    """The literal of ``text``, in the quotes that need fewer backslashes, else in double ones."""
    quote = "'" if text.count('"') > text.count("'") else '"'
    parts = []
    for char in text:
        if char in ("\\", quote):
            parts.append("\\" + char)
        elif char.isprintable():
            parts.append(char)
        else:
            parts.append(repr(char)[1:-1])
    return Atom(f"{quote}{''.join(parts)}{quote}")


__all__ = [
    "INDENT",
    "WIDTH",
    "Atom",
    "Attribute",
    "Binary",
    "Call",
    "Node",
    "Listed",
    "Slice",
    "Subscript",
    "Unary",
    "call",
    "head_lines",
    "items",
    "mapped",
    "method",
    "name",
    "number",
    "smaller",
    "string",
    "together",
]

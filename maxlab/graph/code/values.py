"""The values of one function of the code: which have names, which are expressions that wait for
the one operation that reads them, and the lines that are written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from maxlab.dtype import DType
from maxlab.graph.code.choosing import Written
from maxlab.graph.code.naming import Names, given_name, identifier, snake, word_of
from maxlab.graph.code.text import INDENT, WIDTH, Atom, Call, Listed, Node, call, name, string
from maxlab.graph.code.tree import Scope, is_source
from maxlab.ir import Op, TensorType, Value
from maxlab.ir.function import Call as Inlined
from maxlab.opset import is_weight


class Program(Protocol):
    """The program that a function of the code is part of."""

    comments: Mapping[str, list[str]]

    def is_long(self, op: Op) -> bool:
        """Whether ``op`` is a constant that is kept in the file of weights."""

    def way(self, op: Op) -> Written:
        """How ``op`` is written."""

    def seed(self, op: Op) -> str:
        """Whether the seed of ``op`` is set before it, ``"seed"``, or is the one in use,
        ``"next"``; empty for an operation that draws nothing."""

    def source(self, op: Op, within: tuple[str, ...], base: str) -> Node:
        """The expression of a weight, or of a constant in the file of weights."""

    def accessor(
        self,
        parts: tuple[str, ...],
        within: tuple[str, ...],
        base: str,
        at: int = -1,
        counter: str = "",
    ) -> Node:
        """The expression for weights by the beginning of their names."""

    def function(self, scope: Scope) -> CallOf:
        """The call of a function that ``scope`` is."""

    def subgraph(self, made: Inlined) -> tuple[str, str]:
        """The variable of the graph that is called, and the prefix of its weights."""


@dataclass(frozen=True, slots=True)
class CallOf:
    """A call of a function of the code.

    Attributes:
        name: That of the function.
        gives: What its results are called in the function.
        weights: The names of its weights begin with this; None where it has none.
    """

    name: str
    gives: list[str]
    weights: tuple[str, ...] | None


class Values:
    """The names and expressions of the values of one function, and the lines that have them.

    Args:
        program: What the function is part of.
        names: The names of the function.
        pad: What its lines begin with.
        named: Whether values keep the names that people gave them.
        within: The names of the weights in it begin with this.
        base: The scope that it is in.
        current: How the graph that is being built is written.
    """

    def __init__(
        self,
        program: Program,
        names: Names,
        pad: str,
        *,
        named: bool,
        within: tuple[str, ...] = (),
        base: tuple[str, ...] = (),
        current: str = "Graph.current",
    ) -> None:
        self.program = program
        self.names = names
        self.pad = pad
        self.named = named
        self.within = within
        self.base = base
        self.current = current
        self.weights = "weights"
        self.lines: list[str] = []
        self.known: dict[Value, Node] = {}
        self.unnamed: frozenset[Value] = frozenset()  # what the caller names
        self.outer: dict[Value, Value] = {}
        self.given: dict[str, str] = {}  # names for values, by their variables
        self.kept: set[str] = set()  # variables that keep their values
        self._left: dict[Value, int] = {}
        self._depth: dict[Value, int] = {}
        self._pending: dict[Value, tuple[list[str], list[str]]] = {}
        self._reads: dict[Value, list[Value]] = {}
        self._last: tuple[int, str, Node] | None = None  # the newest statement
        self._owned: dict[str, Value] = {}  # which value a variable of this function holds

    def origin(self, value: Value) -> Value:
        """The value outside of the regions that captured ``value``."""
        while value in self.outer:
            value = self.outer[value]
        return value

    # ------------------------------------------------------------ values
    def use(self, value: Value) -> Node:
        """The expression that stands for ``value``, which is read once more."""
        return self.known[self.origin(value)]

    def results(self, values: Sequence[Value]) -> list[Node]:
        """The expressions of what the function gives."""
        return [self._taken(value) for value in values]

    def _taken(self, value: Value) -> Node:
        at = self.origin(value)
        node = self.known[at]
        self._spend(at)
        return node

    def _spend(self, value: Value) -> None:
        """``value`` was read where a statement stands."""
        if value in self._pending:
            del self._pending[value]
            for read in self._reads.pop(value, []):
                self._spend(read)
        self._left[value] = self._left.get(value, 1) - 1

    def _leaves(self, values: Sequence[Value]) -> list[Value]:
        """``values``, with those that they read in the place of expressions."""
        found: list[Value] = []
        for value in values:
            inner = self._reads.get(value, ()) if value in self._pending else ()
            found += self._leaves(inner) if inner else [value]
        return found

    def _flush(self, values: Sequence[Value]) -> None:
        """Give those of ``values`` that are expressions names of their own."""
        for value in dict.fromkeys(map(self.origin, values)):
            if value in self._pending:
                comments, wanted = self._pending.pop(value)
                node = self.known[value]
                reads = self._reads.pop(value, [])
                leaves = self._leaves(reads)
                for read in reads:
                    self._spend(read)
                self.assign([value], node, leaves, comments, wanted=wanted)

    def _flush_readers(self, variable: str) -> None:
        """No expression that waits reads ``variable``, which is about to be another value."""
        for value in list(self._pending):
            if value in self._pending and _mentions(self.known[value], variable):
                self._flush([value])

    # ------------------------------------------------------------ statements
    def line(self, text: str) -> None:
        """Write the line ``text``."""
        self._last = None
        self.lines.append(f"{self.pad}{text}" if text else "")

    def statement(self, before: str, node: Node, comments: Sequence[str] = ()) -> None:
        """Write ``before`` and the expression ``node``, behind ``comments``."""
        for comment in comments:
            self.line(f"# {comment}".rstrip())
        self._last = len(self.lines), before, node
        self.lines += node.lines(before, "", self.pad)

    def give(self, nodes: Sequence[Node]) -> None:
        """Write that the function returns ``nodes``."""
        if not nodes:
            if not self.lines:
                self.line("pass")
            return
        value = nodes[0] if len(nodes) == 1 else Bare(nodes)
        if self._last is not None and isinstance(value, Atom):
            at, before, node = self._last
            if before == f"{value.text} = ":  # nobody gives a name to what is returned at once
                del self.lines[at:]
                value = node
        self.statement("return ", value)

    def assign(
        self,
        values: Sequence[Value],
        node: Node,
        reads: Sequence[Value],
        comments: Sequence[str] = (),
        *,
        is_list: bool = False,
        wanted: Sequence[str] = (),
    ) -> None:
        """Write that ``values`` are what ``node``, which reads ``reads``, gives."""
        used = [v for v in values if self._left.get(v, 0) > 0 or self._own_name(v)]
        if not used and is_weight(values[0].op):  # a weight comes into a graph when it is read
            self.statement("", call(f"{self.current}.add_weight", node), comments)
            return
        if not used:
            must = not isinstance(node, Call)
            self.statement("_ = " if must else "", node, comments)
            return
        variables = [
            self._variable(v, reads, wanted[n] if n < len(wanted) else "", len(values) == 1)
            if v in used
            else "_"
            for n, v in enumerate(values)
        ]
        for variable in variables:
            if variable in self._owned:
                self._flush_readers(variable)
        left = ", ".join(variables)
        if is_list and len(values) == 1:
            left = f"({left},)"
        if len(self.pad) + len(left) > WIDTH // 2 and len(variables) > 1:
            self._spread(variables, node, comments)
        else:
            self.statement(f"{left} = ", node, comments)
        for value, variable in zip(values, variables, strict=True):
            if variable != "_":
                self.bind(value, variable)

    def _spread(self, variables: Sequence[str], node: Node, comments: Sequence[str]) -> None:
        """Write an assignment to many ``variables``, one a line."""
        for comment in comments:
            self.line(f"# {comment}".rstrip())
        self.line("(")
        for variable in variables:
            self.line(f"{INDENT}{variable},")
        self.lines += node.lines(") = ", "", self.pad)
        self._last = None

    def bind(self, value: Value, variable: str) -> None:
        """``value`` is what ``variable`` holds from here on."""
        self.known[value] = Atom(variable)
        self._owned[variable] = value
        own = self._own_name(value)
        if own:
            self.given[variable] = own
            self.kept.add(variable)

    def _own_name(self, value: Value) -> str:
        return given_name(value) if self.named and value not in self.unnamed else ""

    def _variable(self, value: Value, reads: Sequence[Value], wanted: str, single: bool) -> str:
        own = self._own_name(value)
        if own:
            return self.names.new(identifier(own) or "value")
        first = next((v for v in reads if self._is_main(v)), None)
        if first is not None and single and self._follows(value, first):
            return self.known[first].flat()
        op = value.op
        short = wanted or ("x" if op is None else word_of(op.name))
        if op is not None and len(op.results) > 1 and not wanted:
            short = {"top_k": ("values", "indices")}.get(op.name[3:], (short,) * 9)[value.index % 9]
        return self.names.new(short)

    def _is_main(self, value: Value) -> bool:
        node = self.known.get(value)
        plain = value.op is None or not is_source(value.op)
        return plain and isinstance(node, Atom) and self._owned.get(node.text) is value

    def _follows(self, value: Value, first: Value) -> bool:
        """Whether ``value`` takes the name of ``first``, which nobody reads any more."""
        if self._left.get(first, 0) > 0 or self.known[first].flat() in self.kept:
            return False
        if not (isinstance(value.type, TensorType) and isinstance(first.type, TensorType)):
            return False
        kinds = [(t.is_float(), t is DType.bool) for t in (value.type.dtype, first.type.dtype)]
        return kinds[0] == kinds[1]

    def _wait(
        self,
        value: Value,
        node: Node,
        values: Sequence[Value],
        depth: int,
        wanted: Sequence[str] = (),
    ) -> None:
        self.known[value] = node
        self._pending[value] = [], list(wanted)
        self._reads[value] = list(values)
        self._depth[value] = depth

    def finish(self) -> None:
        """Write the names of values."""
        if not self.given:
            return
        plain = {k: v for k, v in self.given.items() if v.isidentifier() and identifier(v) == v}
        node: Node = Call(
            name(f"{self.current}.name_values"),
            [],
            [(own, Atom(variable)) for variable, own in plain.items()],
        )
        odd = {k: v for k, v in self.given.items() if k not in plain}
        if odd:
            pairs = ", ".join(f"{string(own).flat()}: {variable}" for variable, own in odd.items())
            assert isinstance(node, Call)
            node = Call(node.function, [Atom(f"{{{pairs}}}")], node.kwargs)
        self.statement("", node)


def weight_word(op: Op, within: Sequence[str]) -> str:
    """The name of a variable for a weight, of those whose names begin with ``within``: the last
    part of the weight's name, with the one before it where that says little.
    """
    if not is_weight(op):
        return ""
    parts = [identifier(snake(part)) for part in str(op.attrs["name"]).split(".")[len(within) :]]
    parts = [part for part in parts if part]
    if not parts:
        return "w"
    return "_".join(parts[-2:]) if parts[-1] in ("weight", "bias") else parts[-1]


class Bare(Listed):
    """Several values behind ``return``: a tuple without parentheses where it fits."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        super().__init__(list(nodes), is_tuple=True)

    def flat(self) -> str:
        return ", ".join(item.flat() for item in self.items)


def _mentions(node: Node, variable: str) -> bool:
    text = node.flat()
    at = text.find(variable)
    while at >= 0:
        before, after = text[at - 1 : at], text[at + len(variable) : at + len(variable) + 1]
        if not (before.isalnum() or before in ("_", ".")) and not (after.isalnum() or after == "_"):
            return True
        at = text.find(variable, at + 1)
    return False


__all__ = ["Bare", "Values", "weight_word"]

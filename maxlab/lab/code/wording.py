"""Operations as a cell writes them: what the writer of programs writes, by the names of the cell.

In: an operation of a graph. Out: an expression which, tried on values of the same types, makes the
same operation. What cannot be found so has no expression.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import maxlab
from maxlab.errors import MaxlabError
from maxlab.graph import Graph
from maxlab.graph.code import calls, literals
from maxlab.graph.code.imports import imports_of
from maxlab.graph.code.probe import NAMES, Probe
from maxlab.graph.code.text import Atom, Attribute, Call, Listed, Node, Subscript, mapped
from maxlab.graph.code.tree import draws
from maxlab.graph.graph import trial
from maxlab.ir import BufferType, ChainType, Dim, Op, TensorType, Type
from maxlab.lab.code.refusing import CodeError, wordless
from maxlab.opset import is_constant, role_of

MOST_NUMBERS: Final = 64
"""Numbers of a constant that are written into a cell."""


class Words(NamedTuple):
    """How an operation is written.

    Attributes:
        node: The expression, in which ``_0``, ``_1`` and so on stand for the operands.
        function: The function of ``ops`` that it calls; empty for an index.
        arguments: Its arguments that are no operands, as Python writes them, by name; those that it
            has anyhow are left out.
        gives_list: Whether it gives a list of its results, even of one.
    """

    node: Node
    function: str = ""
    arguments: Mapping[str, str] = {}
    gives_list: bool = False

    def on(self, operands: Sequence[str]) -> str:
        """The expression on ``operands``, which are expressions themselves."""
        return self._filled(operands).flat()

    def given(self, operands: Sequence[str]) -> list[str]:
        """The text between the brackets of its call on ``operands``, one argument each."""
        node = self._filled(operands)
        assert isinstance(node, Call)
        told = [f"{name}={value.flat()}" for name, value in node.kwargs]
        return [arg.flat() for arg in node.args] + told

    def _filled(self, operands: Sequence[str]) -> Node:
        by = {f"_{n}": held(text) for n, text in enumerate(operands)}
        return mapped(self.node, lambda atom: by.get(atom.text, atom))


class Names:
    """How a cell calls what expressions need.

    Args:
        namespace: The variables of the notebook.
        hidden: Names that the cell binds itself.
    """

    def __init__(self, namespace: Mapping[str, Any], hidden: Iterable[str] = ()) -> None:
        self._namespace = namespace
        self._hidden = set(hidden)

    def of(self, usual: str) -> str:
        """The name of what programs call ``usual``, such as ``DType``.

        Raises:
            CodeError: ML876, it has none.
        """
        thing = _THINGS[usual]
        found = [
            name
            for name, value in list(self._namespace.items())
            if value is thing and name.isidentifier() and name not in self._hidden
        ]
        if usual in found:
            return usual
        public = sorted(name for name in found if not name.startswith("_"))
        if public:
            return public[0]
        if self._namespace.get("maxlab") is maxlab and "maxlab" not in self._hidden:
            if usual in _WAYS:
                return _WAYS[usual]
        raise wordless(
            f"{usual}, which has no name in the notebook",
            fix=f"import it: {imports_of(usual)[-1]}",
        )

    def in_cell(self, node: Node) -> Node:
        """``node`` of a program, by the names of the cell.

        Raises:
            CodeError: ML876, something of it has no name there.
        """
        return mapped(node, lambda atom: Atom(self._renamed(atom.text), atom.precedence))

    def _renamed(self, text: str) -> str:
        if text in _THINGS:
            return self.of(text)
        if "(" not in text:  # a number, a text, or what stands for an operand
            return text
        found = [
            node
            for node in ast.walk(ast.parse(text, mode="eval"))
            if isinstance(node, ast.Name) and node.id in _THINGS
        ]
        for node in sorted(found, key=lambda node: node.col_offset, reverse=True):
            data = text.encode()
            assert node.end_col_offset is not None
            name = self.of(node.id).encode()
            text = (data[: node.col_offset] + name + data[node.end_col_offset :]).decode()
        return text


_THINGS: Final[Mapping[str, Any]] = {**NAMES, "Graph": Graph}
_WAYS: Final = {"ops": "maxlab.graph.ops", "DType": "maxlab.dtype.DType"}


def held(text: str) -> Atom:
    """The expression ``text`` as a part of others: in brackets where it would be read otherwise."""
    node = ast.parse(f"({text}\n)", mode="eval").body
    atoms = (ast.Name, ast.Call, ast.Attribute, ast.Subscript, ast.List, ast.Constant)
    return Atom(text) if isinstance(node, atoms) else Atom(text, precedence=0)


# ---------------------------------------------------------------- literals
def literal(value: Any, names: Names) -> str:
    """``value`` as Python writes it.

    Raises:
        CodeError: ML876, it is none of what can be written.
    """
    try:
        node = literals.literal(value)
    except MaxlabError as error:
        raise wordless(f"a {type(value).__name__}") from error
    return names.in_cell(node).flat()


def number(op: Op) -> str:
    """The one number of the constant ``op``, in as few digits as tell it from others."""
    return next(literals.numbers(op.attrs["value"].array)).flat()


def shape_text(shape: Iterable[Dim], names: Names) -> str:
    """The sizes of a type, as a list."""
    return names.in_cell(literals.dims(shape)).flat()


def type_text(type: Type, names: Names) -> str:
    """The type of an input.

    Raises:
        CodeError: ML876, it is of another kind.
    """
    if not isinstance(type, (TensorType, BufferType)):
        raise wordless(f"the type {type}")
    return names.in_cell(literals.type_(type)).flat()


# ---------------------------------------------------------------- operations
class Wording:
    """How operations are written by the names of a cell; each is tried once."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self._probe = Probe(trial, (), {"Graph": Graph})
        self._found: dict[Op, Words] = {}

    def of(self, op: Op) -> Words:
        """How ``op`` is written.

        Raises:
            CodeError: ML876, in no way that is known.
        """
        found = self._found.get(op)
        if found is None:
            found = self._found[op] = self._of(op)
        return found

    def _of(self, op: Op) -> Words:
        short = op.name.removeprefix("mo.")
        if is_constant(op) and op.attrs["value"].array.size > MOST_NUMBERS:
            raise wordless(
                f"the {op.attrs['value'].array.size:,} numbers of the constant {op.id}",
                fix="keep them in a variable or a file, and read it in the cell",
            )
        if op.regions or not op.results or draws(op) or role_of(op) == "custom":
            raise wordless(f"{short} {op.id}")
        own = [v for v in op.operands if not isinstance(v.type, ChainType)]
        operands = {f"_{n}": value for n, value in enumerate(own)}
        nodes = [Atom(name) for name in operands]
        nameless: CodeError | None = None
        try:
            for node in _plain(calls.ways(op, nodes), nodes):
                if self._probe.makes(node, operands, [op]):
                    node = self._probe.least(node, operands, [op])
                    try:
                        return self._words(node, self._probe.gives_list(node, operands))
                    except CodeError as error:  # another way may need no such name
                        nameless = nameless or error
        except CodeError:
            raise
        except MaxlabError as error:
            raise wordless(f"{short} {op.id} with what it has") from error
        raise nameless or wordless(f"{short} {op.id} with what it has")

    def _words(self, node: Node, gives_list: bool) -> Words:
        if not isinstance(node, Call):
            return Words(self.names.in_cell(node))
        assert isinstance(node.function, Attribute)
        told = {key: self.names.in_cell(value).flat() for key, value in node.kwargs}
        return Words(self.names.in_cell(node), node.function.name, told, gives_list)


def _plain(ways: Iterator[Node], operands: Sequence[Node]) -> Iterator[Node]:
    """Those of ``ways`` that an edit can follow: functions of ``ops`` that take the operands in
    their order, or as a list, and all else by name; and indices."""
    for node in ways:
        if isinstance(node, Subscript) and node.of in operands:
            yield node
        if not isinstance(node, Call) or not isinstance(node.function, Attribute):
            continue
        if node.function.of != Atom("ops"):
            continue
        only = node.args[0] if len(node.args) == 1 else None
        given = only.items if isinstance(only, Listed) and operands else node.args
        is_plain = list(given) == list(operands[: len(given)])
        if is_plain or not operands:
            yield node


__all__ = [
    "MOST_NUMBERS",
    "Names",
    "Wording",
    "Words",
    "held",
    "literal",
    "number",
    "shape_text",
    "type_text",
]

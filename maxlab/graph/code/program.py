"""The whole program: its imports, a function for each scope, and the graph itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from maxlab.graph.code import literals
from maxlab.graph.code.bodies import Body
from maxlab.graph.code.calls import primitive, ways
from maxlab.graph.code.choosing import Chooser, Written
from maxlab.graph.code.imports import imports_of
from maxlab.graph.code.kernels import constant, texts_of
from maxlab.graph.code.naming import Names, identifier, input_name, one_of, snake
from maxlab.graph.code.probe import Probe
from maxlab.graph.code.text import (
    INDENT,
    WIDTH,
    Atom,
    Attribute,
    Call,
    Node,
    Subscript,
    call,
    head_lines,
    items,
    method,
    name,
    number,
    string,
)
from maxlab.graph.code.tree import Called, Item, Scope, connect, draws, items_of
from maxlab.graph.code.values import CallOf, weight_word
from maxlab.graph.code.weights import Store, is_attribute, is_plain, odd, parts_of_name
from maxlab.ir import BufferType, ChainType, Function, Op, TensorType, Value
from maxlab.ir.function import Call as Inlined
from maxlab.ir.types import OpaqueType
from maxlab.opset import is_weight, role_of


class Writer:
    """Writes the program of one graph.

    Args:
        graph: The graph.
        make: Makes an empty graph, in which expressions are tried.
        store: What is kept in the file of weights.
        more: What expressions may name besides what `probe.NAMES` has.
        comments: Texts for the statements of operations, by their ids.
    """

    def __init__(
        self,
        graph: Any,
        make: Callable[[], Any],
        store: Store,
        more: Mapping[str, Any],
        comments: Mapping[str, list[str]],
        file: str,
    ) -> None:
        self.graph = graph
        self.file = file
        self.store = store
        self.comments = comments
        self._graphs = [graph, *_below(graph)]
        inputs = [value for each in self._graphs for value in each.function.inputs]
        self._probe = Probe(make, inputs, more)
        self._chooser = Chooser(self._probe)
        self._functions: dict[str, tuple[str, list[str]]] = {}
        self._of: dict[Scope, CallOf] = {}
        self._uses: dict[str, int] = {}
        self._trial = True
        self._names = Names(NEEDED)
        self._known: frozenset[str] = frozenset()
        self._unpacked = 0
        self._draws: dict[Op, str] = {}
        self._kernels = texts_of(each.function for each in self._graphs)
        self._subgraphs: dict[Function, str] = {}
        self.uses_weights = False

    # ------------------------------------------------------------ operations
    def is_long(self, op: Op) -> bool:
        """Whether ``op`` is a constant that is kept in the file of weights."""
        return self.store.keeps(op)

    def way(self, op: Op) -> Written:
        """How ``op`` is written.

        Raises:
            GraphError: ML837, nothing that can be written makes it.
        """
        own = tuple(v for v in op.operands if not isinstance(v.type, ChainType))
        if role_of(op) == "custom":
            return self._unproved(op, own, 0, is_list=True)
        if draws(op):
            kind = self._draws.get(op, "")
            return self._unproved(op, () if kind else own, 0 if kind else -1, is_list=not kind)
        return self._chooser.of(op)

    def _drawn(self, op: Op) -> Node:
        return self._shorter(op, next(ways(op, [])))

    def _unproved(self, op: Op, values: tuple[Value, ...], which: int, *, is_list: bool) -> Written:
        """A way that is right by what it says: trying it would compile kernels, or draw."""
        nodes = [Atom(f"_{n}") for n in range(len(values))]
        found = list(ways(op, nodes))
        node = found[which] if which == 0 else primitive(op, nodes)
        return Written(self._shorter(op, node), values, (), is_list and which == 0)

    def _shorter(self, op: Op, node: Node) -> Node:
        """``node`` without the arguments of a draw that say what is so anyway."""
        if draws(op) and isinstance(node, Call):
            usual = {"range": "(0.0, 1.0)", "mean": "0.0", "std": "1.0"}
            kept = [(k, v) for k, v in node.kwargs if usual.get(k) != v.flat()]
            return Call(node.function, node.args, kept)
        return node

    def plan_draws(self, function: Function) -> None:
        """Find out where seeds have to be set."""
        state: tuple[Any, int] = (None, 0)
        for op in function.walk():
            if op.regions or not draws(op) or not self._probe.draws(self._drawn(op), op):
                continue
            seed = op.operands[0] if op.operands else op.attrs["seed"]
            stream = op.attrs["stream"]
            if state == (seed, stream):
                self._draws[op] = "next"
            elif stream == 0:
                self._draws[op] = "seed"
            else:
                continue
            state = (seed, stream + 1)

    def seed(self, op: Op) -> str:
        """Whether the seed of ``op`` is set before it, ``"seed"``, or is the one in use,
        ``"next"``; empty for an operation that draws nothing, or that is written as a primitive."""
        return self._draws.get(op, "")

    # ------------------------------------------------------------ weights
    def source(self, op: Op, within: tuple[str, ...], base: str) -> Node:
        """The expression of a weight, or of a constant in the file of weights."""
        if not is_weight(op):
            where = Subscript(Atom("constants"), [number(str(self.store.number(op)))])
            args: list[Node] = [method(where, "data")]
            device = op.attrs["device"]
            if str(device) != "cpu:0":
                args += [Atom("None"), literals.literal(device)]
            return call("ops.constant", *args)
        attrs = op.attrs
        self.store.read(op)
        if not is_plain(op):
            return odd(op)
        self.uses_weights = True
        at = self.accessor(parts_of_name(attrs["name"]), within, base)
        if self.store.has_weights:
            return method(at, "allocate")
        type = attrs["type"]
        return method(at, "allocate", literals.literal(type.dtype), literals.dims(type.shape))

    def accessor(
        self,
        parts: tuple[str, ...],
        within: tuple[str, ...],
        base: str,
        at: int = -1,
        counter: str = "",
    ) -> Node:
        """The expression for the weights whose names begin with ``parts``, where ``base`` are those
        whose names begin with ``within``; part ``at`` is counted by ``counter``.
        """
        made: Node = Atom(base)
        for n, part in list(enumerate(parts))[len(within) :]:
            if n == at:
                made = Subscript(made, [Atom(counter)])
            elif part.isdigit() and part == str(int(part)):
                made = Subscript(made, [number(part)])
            elif is_attribute(part):
                made = Attribute(made, part)
            else:
                made = Subscript(made, [string(part)])
        return made

    # ------------------------------------------------------------ functions
    def function(self, scope: Scope) -> CallOf:
        """The call of a function that ``scope`` is."""
        found = self._of.get(scope)
        if found is None:
            found = self._of[scope] = self._made(scope)
        return found

    def _made(self, scope: Scope) -> CallOf:
        text = self._text(scope, named=False)
        if self._trial:
            self._uses[text.key] = self._uses.get(text.key, 0) + 1
        elif self._uses.get(text.key, 0) == 1:
            text = self._text(scope, named=True)
        if text.key not in self._functions:
            kind = identifier(snake(self.graph.scope_types.get(scope.path, "")))
            chosen = self._names.new(kind or identifier(one_of(scope.label)) or "block")
            self._functions[text.key] = chosen, [*head_lines(chosen, text.params), *text.lines]
        return CallOf(self._functions[text.key][0], text.gives, text.weights)

    def _text(self, scope: Scope, *, named: bool) -> _Text:
        weights = [op for op in scope.ops() if is_weight(op) and is_plain(op)]
        within: tuple[str, ...] | None = None
        if weights:
            within = _prefix([parts_of_name(op.attrs["name"]) for op in weights])
        names = Names(NEEDED | self._known)
        body = Body(
            self,
            names,
            INDENT,
            named=named,
            within=within or (),
            base=tuple(scope.path.split(".")),
        )
        params = []
        for value in scope.reads:
            params.append(names.new(_parameter(value)))
            body.bind(value, params[-1])
            body.given.pop(params[-1], None)  # it is named where it is made
        if within is not None:
            body.weights = names.new("weight") if len(weights) == 1 else "weights"
            params.append(body.weights)
        body.unnamed = frozenset(scope.gives)
        body.write(scope.items, scope.gives)
        gives = []
        for value in scope.gives:
            known = body.known[body.origin(value)]
            gives.append("x" if not isinstance(known, Atom) else known.text)
        nodes = body.results(scope.gives)
        body.finish()
        body.give(nodes)
        key = "\n".join([", ".join(params), *body.lines])
        return _Text(key, params, gives, within, body.lines)

    # ------------------------------------------------------------ subgraphs
    def subgraph(self, made: Inlined) -> tuple[str, str]:
        """The variable of the graph that ``made`` calls, and the prefix of its weights."""
        variable = self._subgraphs[made.body]
        prefix = ""
        for own, theirs in made.weights.items():
            if theirs.endswith(own) and len(theirs) > len(own):
                prefix = theirs[: len(theirs) - len(own)]
        return variable, prefix

    def _content(self, function: Function) -> list[Item]:
        calls = [
            made
            for made in function.calls
            if made.body in self._subgraphs and not any(map(draws, made.body.ops))
        ]
        content = items_of(function.block, (), calls)
        if self.store.has_weights:
            return content
        # A call brings the weights that its prefix names.
        called = {name for made in calls for name in made.weights.values()}
        inside = {op for item in content if isinstance(item, Called) for op in item.inside}
        return [
            item
            for item in content
            if not (
                isinstance(item, Op)
                and is_weight(item)
                and item.attrs["name"] in called
                and inside.issuperset(item.result.uses)
            )
        ]

    def _add_subgraphs(self, graph: Any, owner: str, body: Body) -> None:
        """Write the subgraphs of ``graph``, which is ``owner`` in ``body``."""
        for name_, sub in graph.subgraphs.items():
            function = self._subgraph_function(sub)
            variable = body.names.new(f"{identifier(name_) or 'sub'}_graph")
            types = items(literals.literal(v.type) for v in sub.function.inputs)
            args = [string(name_), Atom(function), types]
            body.statement(f"{variable} = ", call(f"{owner}.add_subgraph", *args))
            self._subgraphs[sub.body] = variable
            self._add_subgraphs(sub, variable, body)

    def _subgraph_function(self, sub: Any) -> str:
        """The function that builds the body of ``sub``."""
        names = Names(NEEDED | self._known)
        body = Body(self, names, INDENT, named=True)
        params = []
        for value, chosen in self._inputs(names, sub):
            body.bind(value, chosen)
            params.append(chosen)
            if value.name and value.name != f"input{value.index}":
                body.given[chosen] = value.name
                body.kept.add(chosen)
        end = sub.function.output
        results = list(end.operands) if end is not None else []
        content = self._content(sub.function)
        while len(content) == 1 and isinstance(content[0], Scope):
            content = content[0].items
        connect(content, results)
        body.write(content, results)
        nodes = body.results(results)
        body.finish()
        body.give(nodes)
        chosen = self._names.new(identifier(sub.name) or "sub")
        key = f"subgraph {chosen}"
        self._functions[key] = chosen, [*head_lines(chosen, params), *body.lines]
        return chosen

    # ------------------------------------------------------------ whole
    def text(self, head: Sequence[str], tail: Sequence[str]) -> str:
        """The program, behind the lines ``head`` and before the lines ``tail``."""
        function: Function = self.graph.function
        for each in self._graphs:
            self.plan_draws(each.function)
        self._body(function)  # finds out which functions have several calls, and their names
        self._known = frozenset(chosen for chosen, _ in self._functions.values())
        self._trial = False
        self._functions, self._of = {}, {}
        self._names = Names(NEEDED)
        body, opening = self._body(function)
        if self.uses_weights and not self.store.has_weights:
            body.lines.insert(self._unpacked, f"{INDENT}weights = graph.weights()")
        setup = self._setup()
        sections = [setup] if setup else []
        sections += [lines for _, lines in self._functions.values()]
        sections.append([*opening, *body.lines, *tail])
        code = "\n".join(line for section in sections for line in section)
        first = [*head, *([""] if head else []), *imports_of(code)]
        text = "\n".join(first)
        last = first
        for section in sections:
            gap = 3 if section[0].startswith("def ") or last[0].startswith("def ") else 2
            text += "\n" * gap + "\n".join(section)
            last = section
        return text + "\n"

    def _setup(self) -> list[str]:
        """The lines before the functions: the file of weights, and the texts of kernels."""
        made = constant(self._kernels)
        if self.store.is_used:
            opened = f"SafetensorWeights([Path(__file__).with_name({string(self.file).flat()})])"
            if not self.store.has_weights:
                made.append(f"constants = {opened}.constants")
            else:
                made.append(f"weights = {opened}")
                if self.store.constants:
                    made.append("constants = weights.constants")
        return made

    def _body(self, function: Function) -> tuple[Body, list[str]]:
        names = Names(NEEDED | self._known)
        self._subgraphs = {}
        end = function.output
        results = list(end.operands) if end is not None else []
        body = Body(self, names, INDENT, named=True, current="graph")
        for value, chosen in self._inputs(names):
            body.bind(value, chosen)
            if value.name and value.name != f"input{value.index}":
                body.given[chosen] = value.name
                body.kept.add(chosen)
        opening = self._opening(function, body)
        self._unpacked = len(body.lines)
        self._add_subgraphs(self.graph, "graph", body)
        content = self._content(function)
        connect(content, results)
        body.write(content, results)
        nodes = body.results(results)
        body.finish()
        if end is not None:
            body.statement("", Call(name("graph.output"), nodes))
        elif not body.lines:
            body.line("pass")
        return body, opening

    def _inputs(self, names: Names, graph: Any = None) -> list[tuple[Value, str]]:
        graph = self.graph if graph is None else graph
        function = graph.function
        told = graph.input_names
        found = []
        for n, value in enumerate(function.inputs):
            wanted = input_name(value, told[n] if n < len(told) else "")
            found.append((value, names.new(wanted or _parameter(value))))
        return found

    def _opening(self, function: Function, body: Body) -> list[str]:
        args: list[Node] = [string(function.name)]
        kwargs: list[tuple[str, Node]] = []
        if function.inputs:
            kwargs.append(("input_types", items(literals.literal(v.type) for v in function.inputs)))
        if self._kernels:
            kernels: Node = Atom("KERNELS")
            one = len(self._kernels) == 1
            kwargs.append(("custom_extensions", items([kernels]) if one else kernels))
        made = Call(Atom("Graph"), args, kwargs)
        opening = made.lines("with ", " as graph:", "")
        self._unpack(function, body)
        return opening

    def _unpack(self, function: Function, body: Body) -> None:
        variables = [body.known[v].flat() for v in function.inputs]
        if not variables:
            return
        words = [_as(v) for v in function.inputs]
        if len(variables) > 1 and len(set(words)) == 1 and words[0]:
            each = f"value.{words[0]} for value in graph.inputs"
            left = f"{', '.join(variables)} = ("
            if len(body.pad) + len(left) + len(each) + 1 <= WIDTH:
                body.line(f"{left}{each})")
            elif len(body.pad) + len(left) <= WIDTH:
                body.line(left)
                body.line(f"{INDENT}{each}")
                body.line(")")
            else:
                body.line("(")
                for variable in variables:
                    body.line(f"{INDENT}{variable},")
                body.line(f") = ({each})")
        else:
            for n, (variable, word) in enumerate(zip(variables, words, strict=True)):
                body.line(f"{variable} = graph.inputs[{n}]{'.' if word else ''}{word}")
        body.finish()
        body.given.clear()


@dataclass(frozen=True, slots=True)
class _Text:
    key: str
    params: list[str]
    gives: list[str]
    weights: tuple[str, ...] | None
    lines: list[str]


NEEDED = frozenset(
    {
        "BufferType", "Constant", "ConvInputLayout", "DType", "DeviceRef", "Dim", "FilterLayout",
        "Graph", "KERNELS", "OpaqueType", "Path", "QuantizationEncoding", "SafetensorWeights",
        "TensorType", "TensorValue", "Weight", "constants", "graph", "np", "ops", "weights",
    }
)  # fmt: skip
"""Names that the program needs for itself."""


def _below(graph: Any) -> list[Any]:
    """The subgraphs of ``graph``, with those of each."""
    return [each for sub in graph.subgraphs.values() for each in (sub, *_below(sub))]


def _as(value: Value) -> str:
    if isinstance(value.type, BufferType):
        return "buffer"
    if isinstance(value.type, OpaqueType):
        return "opaque"
    return "tensor" if isinstance(value.type, TensorType) else ""


def _parameter(value: Value) -> str:
    """A name for what a function is given."""
    if isinstance(value.type, BufferType):
        return "buffer"
    if isinstance(value.type, OpaqueType):
        return "handle"
    if not isinstance(value.type, TensorType):
        return "chain"
    if is_weight(value.op):
        return weight_word(value.op, ()) or "weight"
    if value.type.dtype.name == "bool":
        return "mask"
    return "x"


def _prefix(names: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """The longest common beginning of all ``names``."""
    if len(names) == 1:
        return names[0]
    first = names[0][:-1]
    size = len(first)
    for parts in names[1:]:
        size = min(size, len(parts) - 1)
        while first[:size] != parts[:size]:
            size -= 1
    return first[:size]


__all__ = ["Writer"]

"""The statements of one function of the code: expressions, names, calls and inner functions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from maxlab.graph.code import literals
from maxlab.graph.code.canonical import captured, carries
from maxlab.graph.code.choosing import Written
from maxlab.graph.code.naming import Names, identifier
from maxlab.graph.code.rolling import rolled
from maxlab.graph.code.text import (
    INDENT,
    WIDTH,
    Atom,
    Call,
    Node,
    call,
    head_lines,
    items,
    number,
    string,
)
from maxlab.graph.code.tree import (
    Called,
    Item,
    Scope,
    connect,
    has_effect,
    items_of,
)
from maxlab.graph.code.values import Values, weight_word
from maxlab.ir import Block, ChainType, Op, Value
from maxlab.opset import is_weight

NESTED = 64
"""Characters of an expression that may stand inside of another one."""
SHORT = 36
"""Characters of a weight that may stand inside of an expression."""
DEEP = 3
"""Expressions that stand inside of each other."""


class Body(Values):
    """Writes the statements of one function."""

    # ------------------------------------------------------------ whole
    def write(self, content: Sequence[Item], results: Sequence[Value]) -> None:
        """Write ``content``, after which ``results`` are read."""
        self._count(content, results)
        skipped = {
            part for item in content if isinstance(item, Op) for part in self.written(item).parts
        }
        at = 0
        while at < len(content):
            item = content[at]
            turns = self.turns(content, at)
            at += len(turns) or 1
            if len(turns) > 1:
                self.loop(turns)
            elif isinstance(item, Scope):
                self.scope(item)
            elif isinstance(item, Called):
                self.called(item)
            elif item not in skipped:
                self.op(item)
        loops = rolled(self.lines, self.pad, self.names.new)
        if len(loops) < len(self.lines):
            self.lines, self._last = loops, None

    def _count(self, content: Sequence[Item], results: Sequence[Value]) -> None:
        for item in content:
            for value in self._read_by(item):
                self._left[value] = self._left.get(value, 0) + 1
        for value in results:
            at = self.origin(value)
            self._left[at] = self._left.get(at, 0) + 1

    def _read_by(self, item: Item) -> list[Value]:
        if isinstance(item, Scope):
            return [self.origin(v) for v in item.reads]
        if isinstance(item, Called):
            return [self.origin(v) for v in item.operands]
        return [self.origin(v) for v in item.operands if not isinstance(v.type, ChainType)]

    def written(self, op: Op) -> Written:
        """How ``op``, which has no regions, is written."""
        if op.regions or is_weight(op) or self.program.is_long(op):
            return Written(Atom("_"), ())
        return self.program.way(op)

    # ------------------------------------------------------------ operations
    def op(self, op: Op) -> None:
        """Write ``op``, or keep its expression for the one operation that reads it."""
        if op.regions:
            self.regions(op)
            return
        if is_weight(op) or self.program.is_long(op):
            self._source(op)
            return
        written = self.written(op)
        is_fixed = any(map(has_effect, (op, *written.parts)))
        self._seed(op)
        values = [self.origin(v) for v in written.values]
        node = written.on([self.use(v) for v in values])
        depth = max((self._depth.get(v, 0) for v in values if v in self._pending), default=-1) + 1
        room = WIDTH - len(self.pad) - 20
        if len(node.flat()) > room or depth > DEEP or is_fixed:
            self._flush([v for v in values if v in self._pending and not self._is_data(v)])
            node = written.on([self.use(v) for v in values])
            depth = 0
        if len(node.flat()) > room:
            self._flush([v for v in values if v in self._pending])
            node = written.on([self.use(v) for v in values])
        own = [r for r in op.results if not isinstance(r.type, ChainType)]
        comments = self._note(op)
        if self._waits(own, node) and not (comments or written.is_list or is_fixed):
            self._wait(own[0], node, values, depth)
            return
        leaves = self._leaves(values)
        for value in values:
            self._spend(value)
        if not own:
            self.statement("", node, comments)
            return
        self.assign(own, node, leaves, comments, is_list=written.is_list)

    def _seed(self, op: Op) -> None:
        """Write the seed that ``op`` draws with, where another one is in use."""
        kind = self.program.seed(op)
        if not kind:
            return
        value = self.origin(op.operands[0]) if op.operands else None
        if kind == "seed":
            seed = number(str(op.attrs["seed"])) if value is None else self.use(value)
            self.statement("", call("ops.random.set_seed", seed))
        if value is not None:
            self._spend(value)

    def _is_data(self, value: Value) -> bool:
        op = value.op
        return op is not None and not op.operands and len(self.known[value].flat()) < 40

    def _waits(self, own: Sequence[Value], node: Node) -> bool:
        if len(own) != 1 or self._own_name(own[0]):
            return False
        return self._left.get(own[0], 0) == 1 and len(node.flat()) <= NESTED

    def _source(self, op: Op) -> None:
        """A weight, or a constant that is kept in the file of weights."""
        value = op.result
        node = self.program.source(op, self.within, self.weights)
        short = len(node.flat()) <= SHORT and not (self._note(op) or self._own_name(value))
        if self._left.get(value, 0) == 1 and short:
            self._wait(value, node, (), 0, [weight_word(op, self.within)])
            return
        self.assign([value], node, (), self._note(op), wanted=[weight_word(op, self.within)])

    def _note(self, op: Op) -> list[str]:
        return list(self.program.comments.get(op.id, ()))

    # ------------------------------------------------------------ scopes
    def scope(self, scope: Scope) -> None:
        """Write the call of the function that ``scope`` became."""
        function = self.program.function(scope)
        values = [self.origin(v) for v in scope.reads]
        long = [v for v in values if v in self._pending and len(self.known[v].flat()) > 24]
        self._flush(long)
        args = [self.use(v) for v in values]
        if function.weights is not None:
            args.append(self.program.accessor(function.weights, self.within, self.weights))
        node = Call(Atom(function.name), args)
        if len(node.flat()) > WIDTH - len(self.pad) - 20:
            self._flush(values)
            args[: len(values)] = [self.use(v) for v in values]
            node = Call(Atom(function.name), args)
        wanted = self._gives(function.name, scope)
        if len(scope.gives) == 1 and not any(map(has_effect, scope.ops())):
            (made,) = scope.gives
            plain = len(node.flat()) <= NESTED and not self._own_name(made)
            if plain and self._left.get(made, 0) == 1:
                self._wait(made, node, values, 1, wanted)
                return
        leaves = self._leaves(values)
        for value in values:
            self._spend(value)
        self.assign(scope.gives, node, leaves, wanted=wanted)

    def _gives(self, function: str, scope: Scope) -> list[str]:
        """Names of the results of ``function``: one as the function is, without its first words."""
        if len(scope.gives) != 1:
            return self.program.function(scope).gives
        last = function.rstrip("0123456789").rpartition("_")[2]
        return ["x" if last in self.names.taken or not last else last]

    def turns(self, content: Sequence[Item], at: int) -> list[Scope]:
        """The scopes from ``at`` on that are turns of one loop: calls of one function, each of what
        the one before it gave, with the weights of the next number."""
        first = content[at]
        if not isinstance(first, Scope):
            return []
        made = [first]
        for item in content[at + 1 :]:
            if not isinstance(item, Scope) or not self._goes_on(made[-1], item):
                break
            made.append(item)
        return made

    def _goes_on(self, last: Scope, scope: Scope) -> bool:
        before, after = self.program.function(last), self.program.function(scope)
        if before.name != after.name or len(last.gives) != 1 or len(scope.gives) != 1:
            return False
        (given,) = map(self.origin, last.gives)
        reads, old = [self.origin(v) for v in scope.reads], [self.origin(v) for v in last.reads]
        places = [n for n, (new, was) in enumerate(zip(reads, old, strict=True)) if new is not was]
        if len(places) != 1 or reads[places[0]] is not given or reads.count(given) != 1:
            return False
        if self._left.get(given, 0) != 1 or self._own_name(given):
            return False
        if before.weights is None or after.weights is None:
            return before.weights is after.weights
        moved = _moved(before.weights, after.weights)
        return moved is not None and moved >= len(self.within)

    def loop(self, turns: Sequence[Scope]) -> None:
        """Write ``turns`` as a loop."""
        first, second, last = turns[0], turns[1], turns[-1]
        function = self.program.function(first)
        places = [n for n, v in enumerate(second.reads) if self.origin(v) in first.gives]
        (place,) = places
        reads = [self.origin(v) for v in first.reads]
        self._flush(reads)
        start = reads[place]
        held = self.known[start]
        assert isinstance(held, Atom)
        variable = held.text
        if not self._is_main(start) or self._left.get(start, 0) != 1 or variable in self.kept:
            variable = self.names.new("x")
            self.statement(f"{variable} = ", held)
        args = [Atom(variable) if n == place else self.use(v) for n, v in enumerate(reads)]
        counter, numbers = "_", [number(str(len(turns)))]
        if function.weights is not None:
            after = self.program.function(second).weights
            assert after is not None
            at = _moved(function.weights, after)
            assert at is not None
            counter = self.names.new("i")
            begin = int(function.weights[at])
            numbers = [number(str(begin + len(turns)))]
            if begin:
                numbers.insert(0, number(str(begin)))
            args.append(
                self.program.accessor(function.weights, self.within, self.weights, at, counter)
            )
        for scope in turns:
            for value in scope.reads:
                self._spend(self.origin(value))
        self.line(f"for {counter} in {call('range', *numbers).flat()}:")
        node = Call(Atom(function.name), args)
        self.lines += node.lines(f"{variable} = ", "", self.pad + INDENT)
        self._last = None
        if self._left.get(last.gives[0], 0) > 0:
            self.bind(last.gives[0], variable)

    def called(self, item: Called) -> None:
        """Write a call of a subgraph."""
        values = [self.origin(v) for v in item.operands]
        self._flush(values)
        variable, prefix = self.program.subgraph(item.call)
        more = {"prefix": string(prefix)} if prefix else {}
        node = call("ops.call", Atom(variable), *[self.use(v) for v in values], **more)
        for value in values:
            self._spend(value)
        self.assign(item.results, node, values, is_list=True)

    # ------------------------------------------------------------ regions
    def regions(self, op: Op) -> None:
        """Write a branch or a loop, with its functions."""
        for region in op.regions:
            self.outer |= captured(op, region)
        count = carries(op)
        values = [self.origin(v) for v in op.operands if not isinstance(v.type, ChainType)]
        is_loop = "carried" in op.attrs
        told = 0 if is_loop or values[0] in values[1:] or self._is_long(values[0]) else 1
        self._flush(values[told:])
        own = [r for r in op.results if not isinstance(r.type, ChainType)]
        comments = self._note(op)
        words = ("condition", "body") if is_loop else ("then", "otherwise")
        functions: list[Node] = []
        for word, region in zip(words, op.regions, strict=True):
            functions.append(self._region(word, region, values[:count]))
        if is_loop:
            starts = items([self.use(v) for v in values[:count]])
            node = call("ops.while_loop", starts, *functions)
        else:
            types = [literals.literal(t) for t in op.attrs["types"]]
            given: Node = items(types) if types else Atom("None")
            node = call("ops.cond", self.use(values[0]), given, *functions)
        for value in values:
            self._spend(value)
        if own:
            self.assign(own, node, values if is_loop else (), comments, is_list=True)
        else:
            self.statement("", node, comments)

    def _is_long(self, value: Value) -> bool:
        return len(self.known[value].flat()) > 32

    def _region(self, word: str, region: Block, starts: Sequence[Value]) -> Node:
        """The function of ``region``, which is written unless it is short."""
        names = Names(self.names.taken)
        rest = [arg for arg in region.args[len(starts) :] if not isinstance(arg.type, ChainType)]
        read = {self.outer[arg] for arg in rest if arg in self.outer}
        params = []
        body = Body(
            self.program,
            names,
            self.pad + INDENT,
            named=self.named,
            within=self.within,
            base=self.base,
            current=self.current,
        )
        body.weights = self.weights
        body.unnamed = self.unnamed
        body.outer = self.outer
        body.known = dict(self.known)
        for n, arg in enumerate(region.args[: len(starts)]):
            params.append(self._parameter(arg, n, starts, read, names))
            body.bind(arg, params[-1])
        end = region.ops[-1]
        results = [v for v in end.operands if not isinstance(v.type, ChainType)]
        content = items_of(region, self.base)
        content = list(_flat(content))
        connect(content, results)
        body.write(content, results)
        nodes = body.results(results)
        if not body.lines and not body.given:
            value = nodes[0] if len(nodes) == 1 else items(nodes) if nodes else Atom("None")
            head = f"lambda {', '.join(params)}" if params else "lambda"
            text = f"{head}: {value.flat()}"
            if len(text) <= 48:
                return Atom(text, 0)
        body.finish()
        body.give(nodes)
        function = self.names.new(word)
        if self.lines and self.lines[-1].strip():
            self.lines.append("")
        self.lines += [*head_lines(function, params, self.pad), *body.lines]
        self._last = None
        self.lines.append("")
        return Atom(function)

    def _parameter(
        self, arg: Value, number: int, starts: Sequence[Value], read: set[Value], names: Names
    ) -> str:
        """The name that a function of a loop gives to ``arg``: its own, or that of its start, where
        the loop does not read that too.
        """
        told = "" if re.fullmatch(r"(input)?\d*", arg.name) else identifier(arg.name)
        if self.named and told and told not in names.taken:
            return names.new(told)
        start = starts[number]
        held = self.known[start]
        used = {self.known[self.origin(value)].flat() for value in read}
        is_free = isinstance(held, Atom) and held.text in self._owned and held.text not in used
        if is_free and starts.count(start) == 1:
            return held.flat()
        return names.new("xyzuvw"[number] if number < 6 else "x")


def _moved(before: tuple[str, ...], after: tuple[str, ...]) -> int | None:
    """Where ``after`` has the next number; None where it is not ``before`` but for that."""
    if len(before) != len(after):
        return None
    places = [n for n, (old, new) in enumerate(zip(before, after, strict=True)) if old != new]
    if len(places) != 1:
        return None
    old, new = before[places[0]], after[places[0]]
    if not (old.isdigit() and new.isdigit() and str(int(old)) == old and str(int(old) + 1) == new):
        return None
    return places[0]


def _flat(content: Sequence[Item]) -> Iterator[Item]:
    """``content`` without scopes: what stands in a region has functions of its own there."""
    for item in content:
        if isinstance(item, Scope):
            yield from _flat(item.items)
        else:
            yield item


__all__ = ["Body"]

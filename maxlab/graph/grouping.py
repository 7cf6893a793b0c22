"""Subgraphs that are made of operations of a graph, and put back into it.

The operations of a subgraph are written into the graph that calls it, in a scope of their own. So
to group operations is to let them stand together, in a new scope, and to note that they are a call
of a subgraph: the function that they are when what they read from outside are its inputs. The
operations, with their ids and names, stay the ones they were.
"""

from __future__ import annotations

from collections.abc import Sequence

from maxlab.errors import ArgumentError, GraphError, shown
from maxlab.graph.calling import joined
from maxlab.graph.excerpt import Excerpt, excerpt, given_by, read_by, with_inner
from maxlab.graph.finding import OpLike, ValueLike
from maxlab.graph.flowing import without_size
from maxlab.graph.graph import LIVE, Graph
from maxlab.graph.inlining import stands_alone
from maxlab.graph.operands import as_name
from maxlab.graph.rearranging import short_name
from maxlab.graph.staged import placed
from maxlab.graph.stepping import Stepping
from maxlab.graph.value import Value
from maxlab.ir import Call, ChainType, Function, Op
from maxlab.ir import Value as IrValue
from maxlab.opset import is_chain, is_weight

UNNAMED = "group"
"""The name of a group that is given none; the next ones have numbers."""


class Groups(Stepping):
    """The steps of an editor that make subgraphs of operations, call them, and put them back."""

    @placed
    def group(self, *ops: OpLike, name: str = "") -> str:
        """The scope of a new group: a subgraph is made of ``ops``, and they are a call of it.

        What they read from outside are its inputs, what is read of them outside its results. Where
        the graph has a subgraph of the same name that computes the same, they are a call of that
        one, and both are compiled once.

        Args:
            *ops: Operations, or their ids.
            name: What the subgraph is called: letters, digits and ``_``; ``group``, or ``group2``,
                unless it is given.

        Raises:
            GraphError: ML817, a path leaves ``ops`` and comes back; ML818, one of them cannot stand
                in a subgraph; ML300, there is no such operation.
            ArgumentError: ML323, another subgraph has the name.

        Example:
            >>> from maxlab.dtype import DType
            >>> from maxlab.graph import Editor, Graph, TensorType, ops
            >>> with Graph("g", input_types=[TensorType(DType.float32, ["n"])]) as graph:
            ...     graph.output(ops.tanh(ops.exp(graph.inputs[0].tensor)))
            >>> editor = Editor(graph)
            >>> editor.group("n0", "n1", name="squash")
            'squash'
            >>> graph.function.calls, list(graph.subgraphs)
            ([Call('squash')], ['squash'])
            >>> editor.dissolve("squash")
            ['n0', 'n1']
            >>> graph.function.calls
            []
        """
        with self.step():
            graph, function = self.graph, self.graph.function
            chosen = {self._op(op): None for op in ops}
            if not chosen:
                raise GraphError(
                    "ML300", "no operation is to be grouped", fix="name one: editor.group('n1')"
                )
            order = [op for op in function.ops if op in chosen]
            _require_inside(order)
            _bring_together(function, order)
            common = _common([op.scope for op in with_inner(order)])
            made = _body(function, order, len(common), name and _as_part(name))
            subgraph = self._subgraph(made.function, name)
            label = self.free_scope(joined(*common), subgraph.name)
            scope = joined(*common, label)
            types = dict(graph.scope_types)
            for op in with_inner(order):
                inner = _behind(op.scope, len(common))
                op.set_source(scope=joined(scope, inner))
            for path, kind in types.items():
                parts = path.split(".")
                if len(parts) > len(common) and parts[: len(common)] == common:
                    inner = joined(*parts[len(common) :])
                    graph.scope_types.setdefault(joined(scope, inner), kind)
                    subgraph.scope_types.setdefault(inner, kind)
        # Behind the step: an edit of an operation ends the call that it was part of.
        graph.calls.note(_call(subgraph, order, made, scope))
        return scope

    @placed
    def dissolve(self, group: OpLike) -> list[str]:
        """The ids of the operations of ``group``, which stand in the graph itself again, or in what
        the group stood in.

        Args:
            group: The scope of a group, as `group` gave it and views show it, or an operation: the
                innermost group that it is part of.

        Raises:
            GraphError: ML300, there is no such group.
        """
        function = self.graph.function
        scope = group if isinstance(group, str) else ""
        inside = [op for op in function.ops if _within(op.scope, scope)] if scope else []
        if not inside:
            op = self._op(group) if function.find(scope) or not scope else None
            calls = [] if op is None else [c for c in function.calls if op.id in c.ids.values()]
            scope = calls[0].scope if calls else op.scope if op is not None else ""
            if not scope:
                raise GraphError(
                    "ML300",
                    f"the graph {self.graph.name!r} has no group {shown(group)}"
                    if op is None
                    else f"{short_name(op)} {op.id} stands in no group",
                    fix="groups are the scopes in print(graph), such as 'encoder.group'",
                )
            members = set(calls[0].ids.values()) if calls else None
            inside = [
                op
                for op in function.ops
                if _within(op.scope, scope)
                and (members is None or op.id in members or is_weight(op))
            ]
        outer = _outer(scope)
        with self.step():
            for op in with_inner(inside):
                inner = _behind(op.scope, len(scope.split(".")))
                op.set_source(scope=joined(outer, inner))
            for path, kind in list(self.graph.scope_types.items()):
                if path != scope and _within(path, scope):
                    inner = _behind(path, len(scope.split(".")))
                    self.graph.scope_types.setdefault(joined(outer, inner), kind)
        return [op.id for op in inside]

    @placed
    def call(self, subgraph: str, *arguments: ValueLike) -> list[Value]:
        """The results of the subgraph that is called ``subgraph``, on ``arguments``.

        Raises:
            GraphError: ML300, the graph has no such subgraph.
            ArgumentError: ML347, another number of arguments, or one of another type.
        """
        found = self.graph.subgraphs.get(subgraph)
        if found is None:
            known = ", ".join(self.graph.subgraphs) or "none"
            raise GraphError(
                "ML300",
                f"the graph {self.graph.name!r} has no subgraph {shown(subgraph)}",
                fix=f"those that it has are: {known}",
            )
        with self.step():
            given = [self.value(value) for value in arguments]
            with self.graph.at(None, ""):
                label = self.free_scope("", subgraph)
                return self.graph.calls.write(found, given, "", label)

    # ------------------------------------------------------------ names
    def free_scope(self, outer: str, name: str) -> str:
        """The name of a group ``name`` in the scope ``outer``: with a number where there is one
        already, as the second call of a function has.
        """
        taken = {op.scope for op in self.graph.function.walk()}
        number, label = 0, name
        while any(_within(scope, joined(outer, label)) for scope in taken):
            number += 1
            label = f"{name}.{number}"
        return label

    def _subgraph(self, body: Function, name: str) -> Graph:
        """The subgraph that ``body`` is: one that there is, or a new one."""
        graph = self.graph
        made = {one.name: one for one in graph.calls.made.values()}
        known: dict[str, Graph] = {**made, **graph.subgraphs}
        for number in range(1, len(known) + 2):
            tried = name or (UNNAMED if number == 1 else f"{UNNAMED}{number}")
            found = known.get(tried)
            if found is not None and _same(found, body):
                return found
            if found is None or (found.name in made and tried not in graph.subgraphs):
                break
            if name:
                raise ArgumentError(
                    "ML323",
                    f"the graph {graph.name!r} already has a subgraph {name!r}, which computes "
                    "something else",
                    fix="give the group another name",
                )
        body.rename(tried)
        subgraph = Graph(path=body, kernel_library=graph.kernels)
        LIVE.discard(subgraph)  # it is none of the user's
        subgraph.become_part_of(graph)
        graph.calls.made[subgraph.body] = subgraph
        return subgraph


# ---------------------------------------------------------------- scopes
def _as_part(name: str) -> str:
    as_name("the name of a group", name)
    if not name.isidentifier():
        raise ArgumentError(
            "ML326",
            f"a group cannot be called {shown(name)}",
            fix="write letters, digits and _, and no digit first",
        )
    return name


def _within(scope: str, outer: str) -> bool:
    """Whether ``scope`` is ``outer`` or stands in it; ``block.1`` is a second ``block``."""
    if not scope.startswith(outer + "."):
        return scope == outer
    following = scope[len(outer) + 1 :].partition(".")[0]
    return not following.isdigit() or outer.rpartition(".")[2].isdigit()


def _behind(scope: str, count: int) -> str:
    return ".".join(scope.split(".")[count:])


def _outer(scope: str) -> str:
    """The scope around the group ``scope``: the number of a second call is part of its name."""
    parts = scope.split(".")
    numbered = len(parts) > 1 and parts[-1].isdigit() and not parts[-2].isdigit()
    return ".".join(parts[: -2 if numbered else -1])


def _common(scopes: Sequence[str]) -> list[str]:
    """The parts that all ``scopes`` begin with."""
    split = [scope.split(".") if scope else [] for scope in scopes]
    found: list[str] = []
    for parts in zip(*split, strict=False):
        if any(part != parts[0] for part in parts):
            break
        found.append(parts[0])
    # A number belongs to the name before it.
    following = [parts[len(found)] for parts in split if len(parts) > len(found)]
    if found and not found[-1].isdigit() and any(part.isdigit() for part in following):
        found.pop()
    return found


# ---------------------------------------------------------------- what can be a group
def _require_inside(order: Sequence[Op]) -> None:
    """Raises unless each of ``order`` can stand in a subgraph.

    Raises:
        GraphError: ML818, one cannot.
    """
    for op in order:
        why = ""
        if op.ends_block:
            why = "says what the graph gives"
        elif is_chain(op) or any(isinstance(v.type, ChainType) for v in op.results):
            why = "has its place in the order of effects of the graph"
        elif any(map(stands_alone, with_inner([op]))):
            why = "has an effect, or names a dim of the whole graph"
        if why:
            raise GraphError(
                "ML818",
                f"{short_name(op)} {op.id} cannot stand in a group: it {why}",
                at=op.loc,
                fix="group the operations around it without it",
            )


def _bring_together(function: Function, order: Sequence[Op]) -> None:
    """Lets ``order`` stand one behind the other, what is made of it behind, and all else before.

    Raises:
        GraphError: ML817, something that is made of ``order`` is read by it.
    """
    chosen = set(order)
    ops = function.ops
    first, last = ops.index(order[0]), ops.index(order[-1])
    made = set(order)
    late: list[Op] = []
    for op in ops[first : last + 1]:
        read = [value.op for value in op.operands if value.op in made]
        if op in chosen:
            between = next((maker for maker in read if maker not in chosen), None)
            if between is not None:
                raise GraphError(
                    "ML817",
                    f"{short_name(between)} {between.id} stands between them: it reads what the "
                    f"group makes, and {short_name(op)} {op.id} of the group reads it",
                    at=between.loc,
                    fix=f"group {between.id} too, or leave {op.id} out",
                )
        elif read:
            made.add(op)
            late.append(op)
    behind = ops[last + 1] if last + 1 < len(ops) else None
    wanted = [*order, *late]
    if ops[last + 1 - len(wanted) : last + 1] != wanted:
        for op in wanted:
            function.block.move(op, behind)


# ---------------------------------------------------------------- subgraphs
def _body(function: Function, order: Sequence[Op], depth: int, name: str) -> Excerpt:
    """A function that computes what ``order`` does; ``depth`` parts of the scopes are those of the
    group."""
    made = excerpt(order, name or UNNAMED, lambda scope: _behind(scope, depth))
    _require_sizes(made.function, {new: old for old, new in made.ids.items()}, order)
    inside = set(made.ids)
    values = {old.id: new.id for old, new in made.values.items()}
    for call in function.calls:
        if inside.issuperset(call.ids.values()):
            made.function.calls.append(
                Call(
                    call.body,
                    {key: made.ids[id] for key, id in call.ids.items()},
                    call.weights,
                    [values.get(id, id) for id in call.operands],
                    [values[id] for id in call.results],
                    _behind(call.scope, depth),
                )
            )
    return made


def _require_sizes(body: Function, originals: dict[str, str], order: Sequence[Op]) -> None:
    """Raises unless each dim in ``body`` is one of its inputs.

    Raises:
        GraphError: ML818, one is not.
    """
    by_id = {op.id: op for op in order}
    for op, _, missing in without_size(body, lambda op: (*op.operands, *op.results)):
        old = by_id[originals[op.id]]
        raise GraphError(
            "ML818",
            f"{short_name(old)} {old.id} cannot stand in a group without what has the dim "
            f"{missing!r}: nothing that the group reads has it",
            at=old.loc,
            fix="group what reads it too",
        )


def _call(subgraph: Graph, order: Sequence[Op], made: Excerpt, scope: str) -> Call:
    """The call of ``subgraph``, which computes what ``made`` does, that ``order`` is."""
    called = subgraph.body
    originals = {op.id: op for op in with_inner(order)}
    back = {new: originals[old] for old, new in made.ids.items()}
    weights: dict[str, str] = {}
    ids: dict[str, str] = {}
    for its, own in zip(with_inner(called.ops), with_inner(made.function.ops), strict=True):
        if own.id not in back:  # the output
            continue
        if is_weight(its):
            weights[its.attrs["name"]] = back[own.id].attrs["name"]
        else:
            ids[its.id] = back[own.id].id
    operands = [value.id for value in read_by(order)]
    return Call(called, ids, weights, operands, [v.id for v in given_by(order)], scope)


def _same(subgraph: Graph, body: Function) -> bool:
    """Whether ``subgraph`` computes what ``body`` does, operation by operation in the same order;
    ids, names and places do not count."""
    other = subgraph.body
    env: dict[IrValue, IrValue] = {}
    weights: dict[str, str] = {}

    def equal(ops: Sequence[Op], others: Sequence[Op]) -> bool:
        return len(ops) == len(others) and all(map(one, ops, others))

    def one(op: Op, other: Op) -> bool:
        if op.name != other.name or op.scope != other.scope:
            return False
        attrs, theirs = dict(op.attrs), dict(other.attrs)
        if is_weight(op):
            name = attrs.pop("name")
            if weights.setdefault(theirs.pop("name"), name) != name:
                return False
        if attrs != theirs or [env.get(v) for v in other.operands] != list(op.operands):
            return False
        if [v.type for v in op.results] != [v.type for v in other.results]:
            return False
        for region, its in zip(op.regions, other.regions, strict=True):
            if not matched(region.args, its.args) or not equal(region.ops, its.ops):
                return False
        env.update(zip(other.results, op.results, strict=True))
        return True

    def matched(values: Sequence[IrValue], others: Sequence[IrValue]) -> bool:
        env.update(zip(others, values, strict=False))
        return [v.type for v in values] == [v.type for v in others]

    return matched(body.inputs, other.inputs) and equal(body.ops, other.ops)


__all__ = ["Groups"]

"""A graph of ``torch.compile`` as stages: graphs of maxlab, and between them what torch runs.

One graph of maxlab is enough for most: what maxlab lacks is run by torch as a step of its plan.
That step takes and gives dense tensors of dtypes that maxlab has. Where an input or an output is
something else, complex numbers or a tensor of a GPU, say, torch runs all that touches it as a stage
of its own.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from maxlab.torch.aten import NotImported
from maxlab.torch.importer import effects_of
from maxlab.torch.parts import units_of
from maxlab.torch.types import symbols_of, types_of


@dataclass(frozen=True, slots=True)
class Stage:
    """Some nodes of a graph, as a graph of their own.

    Attributes:
        module: The graph. Each of its placeholders has the name of a node of the whole graph.
        inputs: The nodes of the whole graph that it reads, one for each placeholder.
        outputs: The nodes of the whole graph whose values it returns.
        why: Why torch runs it, by the nodes of ``module``; None for a graph of maxlab.
    """

    module: GraphModule
    inputs: Sequence[Node]
    outputs: Sequence[Node]
    why: Mapping[Node, str] | None


SHARED = "it is a view, and shares memory with an input or another output"
OUTSIDE = "an input or output next to it is none that a graph of maxlab can have"


def stages_of(module: GraphModule, names: Mapping[str, str]) -> list[Stage]:
    """The stages of ``module`` in the order in which they run.

    Args:
        module: A functional graph, its nodes annotated with what they make.
        names: The symbolic sizes that the shapes of its inputs tell.
    """
    nodes = list(module.graph.nodes)
    (last,) = (n for n in nodes if n.op == "output")
    wanted = [n for n in last.args[0] if isinstance(n, Node)]
    views = shared_views(wanted)
    below = set(views)
    wanted = [n for n in wanted if n not in below]
    wanted += [n for view in views for n in view.all_input_nodes if n not in below]
    called = [n for n in needed(nodes, wanted) if n.op == "call_function"]
    made = _split(module, nodes, called, wanted, names)
    if views:
        shown = [n for n in views if any(u.op == "output" for u in n.users)]
        made.append(_stage(module, views, shown, names, dict.fromkeys(views, SHARED)))
    return made


def _split(
    module: GraphModule,
    nodes: Sequence[Node],
    called: Sequence[Node],
    wanted: Sequence[Node],
    names: Mapping[str, str],
) -> list[Stage]:
    unseen = {n: why for n in nodes if (why := why_unseen(n, names))}
    given = {n for n in unseen if n.op == "placeholder"}
    if not given and not any(n in unseen for n in wanted):
        return [_stage(module, called, wanted, names, None)] if called else []
    alone = {n: why for n, why in unseen.items() if n.op == "call_function"}
    picks = [(n, n.args[0]) for n in called if n.target is operator.getitem]
    pairs = [*effects_of(called), *((n, of) for n, of in picks if isinstance(of, Node))]
    units = units_of(called, alone, pairs)
    level: dict[Node, int] = {}
    for unit in units:
        apart = any(
            given.intersection(n.all_input_nodes) or (n in alone and n in wanted) for n in unit
        )
        before = [level[n] for node in unit for n in node.all_input_nodes if n in level]
        first = max(before, default=0)
        # Those of torch have even numbers, those of maxlab odd ones.
        found = first if first % 2 == (0 if apart else 1) else first + 1
        level.update(dict.fromkeys(unit, found))
    made = []
    for number in sorted(set(level.values())):
        inside = [n for unit in units for n in unit if level[n] == number]
        in_torch = number % 2 == 0
        made.append(_stage(module, inside, wanted, names, unseen if in_torch else None))
    return made


def shared_views(wanted: Sequence[Node]) -> list[Node]:
    """The views that lead to outputs which torch gives as parts of other memory: of an input, of
    another output, or of more numbers than they have. In the order in which they run."""
    chains = {node: _chain(node) for node in wanted}
    roots = [chain[0] for chain in chains.values()]
    found: dict[Node, None] = {}
    for node, (root, *views) in chains.items():
        value = node.meta.get("val")
        of_input = root.op == "placeholder"
        dense = isinstance(value, torch.Tensor) and is_dense(value)
        if views and (of_input or roots.count(root) > 1 or not dense):
            found.update(dict.fromkeys(views))
    order = {n: k for k, n in enumerate(wanted[0].graph.nodes)} if found else {}
    return sorted(found, key=order.__getitem__)


def _chain(node: Node) -> list[Node]:
    """The value whose memory ``node`` has, and the views from it to ``node``."""
    found = [node]
    while True:
        first = found[0]
        of = first.args[0] if first.args else None
        if not isinstance(of, Node):
            return found
        maker = of if first.target is operator.getitem else first
        if not getattr(maker.target, "is_view", False):
            return found
        found.insert(0, of)


def is_dense(value: torch.Tensor) -> bool:
    """Whether the elements of ``value`` lie one beside the other in memory, in some order of the
    axes."""
    sizes = [hint_of(size) for size in value.shape]
    steps = [hint_of(step) for step in value.stride()]
    wanted = 1
    for step, size in sorted((t, n) for t, n in zip(steps, sizes, strict=True) if n != 1):
        if step != wanted:
            return 0 in sizes
        wanted *= size
    return True


def hint_of(size: Any) -> int:
    """``size``, a number or a symbol; of a symbol, what it is in the call that is compiled."""
    return int(size.node.hint) if isinstance(size, torch.SymInt) else int(size)


def needed(nodes: Sequence[Node], wanted: Sequence[Node]) -> list[Node]:
    """The nodes that make ``wanted``, and those that may raise."""
    marked = set(wanted)
    marked |= {n for n in nodes if n.op == "call_function" and n.is_impure()}
    for node in reversed(nodes):
        if node in marked:
            marked.update(node.all_input_nodes)
    return [n for n in nodes if n in marked]


def why_unseen(node: Node, names: Mapping[str, str]) -> str:
    """Why a graph of maxlab can have no value for ``node``; empty when it can."""
    if node.op not in ("placeholder", "call_function"):
        return ""
    try:
        if "val" in node.meta:
            types_of(node.meta["val"], names)
    except NotImported as why:
        return str(why)
    return ""


def _stage(
    module: GraphModule,
    nodes: Sequence[Node],
    wanted: Sequence[Node],
    names: Mapping[str, str],
    unseen: Mapping[Node, str] | None,
) -> Stage:
    inside = set(nodes)
    read = dict.fromkeys(n for node in nodes for n in node.all_input_nodes if n not in inside)
    attributes = [n for n in read if n.op == "get_attr"]
    inputs = [n for n in read if n.op != "get_attr"]
    if unseen is None:
        inputs += _binders(module, nodes, inputs, names)
    shown = set(wanted)
    outputs = [n for n in nodes if n in shown or any(u not in inside for u in _readers(n))]
    graph = Graph()
    new: dict[Node, Node] = {}
    for node in inputs:
        new[node] = graph.placeholder(node.name)
        new[node].meta = dict(node.meta)
    for node in (*attributes, *nodes):
        new[node] = graph.node_copy(node, new.__getitem__)
    graph.output(tuple(new[n] for n in outputs))
    why = None
    if unseen is not None:
        why = {new[n]: unseen.get(n) or OUTSIDE for n in nodes}
    return Stage(GraphModule(module, graph), inputs, outputs, why)


def _readers(node: Node) -> list[Node]:
    return [user for user in node.users if user.op != "output"]


def _binders(
    module: GraphModule, nodes: Sequence[Node], inputs: Sequence[Node], names: Mapping[str, str]
) -> list[Node]:
    """Inputs of the whole graph whose shapes tell the sizes that ``nodes`` have, and that no shape
    of ``inputs`` tells."""
    known = {str(s) for n in inputs for s in plain_sizes(n.meta.get("val"))}
    needed = {str(s) for n in (*nodes, *inputs) for s in symbols_of(n.meta.get("val"))}
    found = []
    for node in module.graph.nodes:
        missing = (needed & set(names)) - known
        if node.op != "placeholder" or not missing:
            break
        told = {str(s) for s in plain_sizes(node.meta.get("val"))}
        if told & missing and not why_unseen(node, names):
            found.append(node)
            known |= told
    return found


def plain_sizes(value: Any) -> list[Any]:
    """The symbols that are sizes of the tensor ``value`` as they stand; none of other values."""
    if not isinstance(value, torch.Tensor):
        return []
    sizes = [s for s in value.shape if isinstance(s, torch.SymInt)]
    return [s.node.expr for s in sizes if s.node.expr.is_Symbol]


__all__ = ["Stage", "hint_of", "plain_sizes", "stages_of", "why_unseen"]

"""``maxlab.torch.explain``: what of a model maxlab runs, what torch runs, where, and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule

from maxlab.errors import ArgumentTypeError, Location
from maxlab.torch.compiled import CompiledGraph, counts
from maxlab.torch.importer import Fallback
from maxlab.torch.naming import name_of_graph
from maxlab.torch.places import location_at
from maxlab.torch.tracing import traced


@dataclass(frozen=True, slots=True)
class Cut:
    """A place where ``torch.compile`` ends a graph, runs Python, and begins another one.

    Attributes:
        reason: What torch says about it.
        at: The line; None where no line of a user is known.
    """

    reason: str
    at: Location | None

    def __str__(self) -> str:
        place = f"{self.at.file}:{self.at.line}: " if self.at is not None else ""
        return f"{place}{self.reason}"


@dataclass(frozen=True, slots=True)
class Explanation:
    """The parts of a model that maxlab and torch run. Print it.

    Attributes:
        graphs: The graphs that ``torch.compile`` made, in the order of their runs.
        fallbacks: The operations in them that torch runs.
        cuts: Where graphs end because torch cannot follow the code.
        ours: How many operations maxlab runs.
        theirs: How many torch runs.
    """

    graphs: Sequence[CompiledGraph]
    fallbacks: Sequence[Fallback]
    cuts: Sequence[Cut]
    ours: int
    theirs: int

    @property
    def share(self) -> float:
        """The part of the operations that maxlab runs, as a fraction; 1 where there are none."""
        total = self.ours + self.theirs
        return self.ours / total if total else 1.0

    def __str__(self) -> str:
        count = len(self.graphs)
        lines = [
            (
                f"{count} graph{'' if count == 1 else 's'}; maxlab runs {self.ours} of "
                f"{self.ours + self.theirs} operations ({self.share:.1%})"
            )
        ]
        if self.fallbacks:
            lines += ["torch runs:", *(f"  {f}" for f in self.fallbacks)]
        if self.cuts:
            lines += ["graphs end at:", *(f"  {cut}" for cut in self.cuts)]
        return "\n".join(lines)

    __repr__ = __str__


def explain(
    model: Callable[..., Any], *inputs: Any, dynamic: bool | None = None, **named: Any
) -> Explanation:
    """The ``Explanation`` of ``torch.compile(model, backend="maxlab")(*inputs, **named)``.

    The model is called once, without gradients. As ``torch._dynamo.explain`` does, this lets torch
    forget what it has compiled: models compiled before are compiled again by their next call.

    Args:
        model: A module of torch, or a function of tensors; or what ``torch.compile`` made of it.
        *inputs: What it is called with.
        dynamic: As ``torch.compile`` takes it.
        **named: What it is called with by name.

    Raises:
        ArgumentTypeError: ML684, ``model`` cannot be called.
        Exception: What the model itself raises.

    Example:
        >>> import torch
        >>> import maxlab.torch
        >>> print(maxlab.torch.explain(torch.nn.Linear(4, 2), torch.ones(3, 4)))
        1 graph; maxlab runs 1 of 1 operations (100.0%)
    """
    if not callable(model):
        raise ArgumentTypeError(
            "ML684",
            f"explain takes a torch.nn.Module or a function, got {type(model).__name__}",
            fix="pass the model itself, then its inputs: maxlab.torch.explain(model, x)",
        )
    graphs: list[CompiledGraph] = []
    cuts: list[Cut] = []

    def backend(module: GraphModule, examples: Sequence[Any]) -> Callable[..., Any]:
        cuts.extend(_cuts(module))
        name = name_of_graph(module)

        def compiler(graph: GraphModule, weights: Mapping[int, str]) -> CompiledGraph:
            graphs.append(CompiledGraph(graph, weights, name))
            return graphs[-1]

        return traced(module, examples, compiler)

    torch._dynamo.reset()
    try:
        with torch.no_grad():
            torch.compile(_plain(model), backend=backend, dynamic=dynamic)(*inputs, **named)
    finally:
        torch._dynamo.reset()
    fallbacks = [f for graph in graphs for f in graph.fallbacks]
    ours, theirs = counts([row for graph in graphs for row in graph.coverage])
    return Explanation(graphs, fallbacks, cuts, ours, theirs)


def _plain(model: Any) -> Any:
    """``model`` as it was before ``torch.compile``."""
    inner = getattr(model, "_orig_mod", None)
    return getattr(model, "_torchdynamo_orig_callable", model) if inner is None else inner


def _cuts(module: GraphModule) -> list[Cut]:
    reason = getattr(module, "compile_subgraph_reason", None)
    if reason is None or not reason.graph_break:
        return []
    frame = reason.user_stack[-1] if reason.user_stack else None
    at = location_at(frame.filename, frame.lineno, frame.name) if frame is not None else None
    first = next((line for line in str(reason.reason).splitlines() if line.strip()), "")
    return [Cut(first.strip(), at)]


__all__ = ["Cut", "Explanation", "explain"]

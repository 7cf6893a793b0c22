"""``maxlab.diff``: of two graphs, which operations came, went and changed; of two plans, what runs
otherwise; and of runs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, overload

from maxlab.analysis.revisions import graph_at, is_revision
from maxlab.analysis.runs.diff import Diff, Given
from maxlab.analysis.runs.diff import diff as diff_runs
from maxlab.collector import paused
from maxlab.compiler.plan import Plan
from maxlab.compiler.plan_changes import PlanDiff
from maxlab.engine import Model
from maxlab.errors import ArgumentTypeError
from maxlab.graph import Graph
from maxlab.graph.document import SUFFIX
from maxlab.lab import words
from maxlab.lab.contrasts import Contents
from maxlab.lab.graph_diff import GraphDiff
from maxlab.lab.protocol.document import Packed
from maxlab.lab.reruns import run_before
from maxlab.lab.snapshot import Snapshot, take, without_times
from maxlab.opset import is_constant

_CALLS = {
    "plan": "diff(model_a.plan, model_b.plan)",
    "graph": "diff(graph_a, graph_b)",
    "run": "diff(profile_a, profile_b)",
}
"""By the kind of what is compared: what to write."""


_SUFFIXES = (SUFFIX, ".mlir")


@overload
def diff(before: str | Path, after: str | Path, /) -> Diff | GraphDiff: ...  # type: ignore[overload-overlap]


@overload
def diff(
    *given: Given | Sequence[Given],
    confidence: float = 0.95,
    least: float = 0.01,
    margin: float = 0.05,
) -> Diff: ...


@overload
def diff(before: Graph | Model, after: Graph | Model | str | Path, /) -> GraphDiff: ...


@overload
def diff(before: str | Path, after: Graph | Model, /) -> GraphDiff: ...


@overload
def diff(after: Graph | Model, /) -> GraphDiff: ...


@overload
def diff(before: Plan, after: Plan, /) -> PlanDiff: ...


def diff(
    *given: Given | Sequence[Given] | Graph | Model | Plan,
    confidence: float = 0.95,
    least: float = 0.01,
    margin: float = 0.05,
) -> Diff | GraphDiff | PlanDiff:
    """The ``Diff`` of two or more runs: the first against each of the others, kernel by kernel; the
    ``GraphDiff`` of two graphs or models: which operations were added, removed, changed, moved and
    renamed; or the ``PlanDiff`` of two plans: which steps, buffers and kernels run otherwise.

    Of a graph alone it is what differs from the graph that the same cell of a notebook showed in
    its run before.

    A graph may be a file, ``"scores.mlgraph"``, or a file of a commit of Git,
    ``"HEAD~1:scores.mlgraph"``.

    Two models are compared by their graphs, what was written; their plans, what was made of it, are
    ``diff(model_a.plan, model_b.plan)``, which is ``model_a.plan.diff(model_b.plan)``.

    Args:
        *given: Two graphs, models, or files of graphs; two plans; or runs, each a profile, a saved
            run, a path of one, a folder of them, or a list of such, which are then runs of the same
            program.
        confidence: Of intervals and p-values of runs.
        least: The smallest change of a time that matters, as a fraction of it.
        margin: Times are the same when their ratio is known to be within this of one.

    Raises:
        ArgumentError: ML846, fewer than two runs, an empty folder, or a fraction out of range;
            ML847, runs of one side are of different programs; ML887, there is no run before.
        ArgumentTypeError: ML844, something else than a run; ML898, things of different kinds;
            ML899, more or fewer graphs or plans than two.
        DocumentError: A file that is no saved run.
        FileError: ML855, Git has no such revision or file.
        ParseError: A file has no graph.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType, ops
        >>> def build(name, function):
        ...     with Graph(name, input_types=[TensorType(DType.float32, ["n"])]) as graph:
        ...         graph.output(function(ops.relu(graph.inputs[0].tensor)))
        ...     return graph
        >>> print(diff(build("one", ops.exp), build("two", lambda x: ops.exp(ops.tanh(x)))))
        one → two: 1 added, 1 changed
        + tanh (n1)
            → f32[n]
        ~ exp (n1 → n2)
            operand 0: relu n0 → tanh n1
    """
    with paused():
        opened = [_opened(one) for one in given]
    plans = [one for one in opened if isinstance(one, Plan)]
    graphs = [one for one in opened if isinstance(one, (Graph, Model))]
    runs: list[Any] = [one for one in opened if not isinstance(one, (Plan, Graph, Model))]
    kinds: dict[str, Sequence[object]] = {"plan": plans, "graph": graphs, "run": runs}
    used = [kind for kind, found in kinds.items() if found]
    if len(used) > 1:
        one, other = used[:2]
        raise ArgumentTypeError(
            "ML898",
            f"a {one} is compared with a {one}, got a {type(kinds[one][0]).__name__} beside a "
            f"{type(kinds[other][0]).__name__}",
            fix=f"{_CALLS[one]}, or {_CALLS[other]}",
        )
    if not plans and not graphs:
        return diff_runs(*runs, confidence=confidence, least=least, margin=margin)
    if len(graphs) == 1:
        return diff_of_run(graphs[0])
    if len(given) != 2:
        raise ArgumentTypeError(
            "ML899",
            f"two {used[0]}s are compared, got {len(given)}",
            fix="diff(before, after)",
        )
    if plans:
        return plans[0].diff(plans[1])
    return diff_graphs(graphs[0], graphs[1])


def diff_graphs(one: Graph | Model, other: Graph | Model, labels: Sequence[str] = ()) -> GraphDiff:
    """The ``GraphDiff`` of two graphs.

    Args:
        one: The first.
        other: The second.
        labels: What to call them; their names, unless it is given.
    """
    with paused():  # all that is made stays until the end
        return _diff_graphs((one, other), labels)


def diff_of_run(shown: Graph | Model) -> GraphDiff:
    """The ``GraphDiff`` of a graph and of that which the same cell showed in its run before.

    Raises:
        ArgumentError: ML887, there is none.
    """
    graph = shown.graph if isinstance(shown, Model) else shown
    before = without_times(run_before(graph))
    after = without_times(take(shown, sources=False).document)
    labels = [f"{graph.name} (the run before)", f"{graph.name} (this run)"]
    return GraphDiff(before, after, labels, ({}, {}))


def packed_diff_of_run(shown: Graph | Model) -> tuple[int, Packed]:
    """How many differences `diff_of_run` has, and its document as pages get it.

    Raises:
        ArgumentError: ML887, there is no run before.
    """
    found = diff_of_run(shown)
    document: Any = found.document
    return len(found.differences), Snapshot(document).packed


def _diff_graphs(graphs: tuple[Graph | Model, Graph | Model], labels: Sequence[str]) -> GraphDiff:
    names = list(labels) or [str(graph.name) for graph in graphs]
    if names[0] == names[1]:
        names = [f"{names[0]} (before)", f"{names[1]} (after)"]
    before, after = (without_times(take(graph, sources=False).document) for graph in graphs)
    return GraphDiff(before, after, names, (_contents(graphs[0]), _contents(graphs[1])))


def _opened(given: Given | Sequence[Given] | Graph | Model | Plan) -> object:
    """The graph of a file, or of a commit, that ``given`` names; ``given`` itself otherwise."""
    if not isinstance(given, (str, Path)):
        return given
    text = os.fspath(given)
    return graph_at(text) if text.endswith(_SUFFIXES) or is_revision(text) else given


def _contents(shown: Graph | Model) -> Contents:
    """The values of the constants of ``shown`` that are too large to be written on its picture."""
    graph = shown.graph if isinstance(shown, Model) else shown
    return {
        op.id: op.attrs["value"].array
        for op in graph.function.walk()
        if is_constant(op) and op.attrs["value"].array.size > words.SMALL
    }


__all__ = ["diff", "diff_graphs", "diff_of_run", "packed_diff_of_run"]

"""``CompiledGraph``: one graph of ``torch.compile``, run by maxlab."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

from maxlab import trace
from maxlab.engine import InferenceSession, Model
from maxlab.engine.profile import Profile
from maxlab.engine.times import plural
from maxlab.errors import CancelledError, InputError, MaxlabError, shown
from maxlab.graph import Graph
from maxlab.torch.calls import is_operation, name_of
from maxlab.torch.crossing import given, taken
from maxlab.torch.importer import Fallback, Importer, Ran, fallback
from maxlab.torch.loaded import LoadedModels
from maxlab.torch.source import of_graph
from maxlab.torch.stages import Stage, hint_of, plain_sizes, stages_of


class CompiledGraph:
    """One graph that ``torch.compile`` made of a model or a function, compiled by maxlab.

    Attributes:
        name: The class of the model, or the name of the function.
        graphs: Its graphs: one, unless torch has to run something between two of them; none when
            torch runs all of it.
        coverage: Every operation, how often it stands in the graphs, who runs it, and if that is
            torch, why.
        fallbacks: The operations that torch runs, with their lines.
        weights: The names of the parameters and buffers that its models read.
    """

    def __init__(
        self,
        module: GraphModule,
        weights: Mapping[int, str],
        name: str,
        *,
        num_threads: int | None = None,
        pack: bool = True,
    ) -> None:
        self.name = name
        placeholders = [n for n in module.graph.nodes if n.op == "placeholder"]
        names = {str(s): str(s) for n in placeholders for s in plain_sizes(n.meta.get("val"))}
        known = {placeholders[place].name: name for place, name in weights.items()} if pack else {}
        session = InferenceSession(num_threads=num_threads)
        slots = {node: place for place, node in enumerate(placeholders)}
        self._steps: list[tuple[_InMaxlab | _InTorch, list[int]]] = []
        for stage in stages_of(module, names):
            step = _step(stage, names, known, session, name)
            self._steps.append((step, [slots[n] for n in stage.inputs]))
            for node in stage.outputs:
                slots[node] = len(slots)
        (last,) = (n for n in module.graph.nodes if n.op == "output")
        self._wanted = [_Output(x, slots) for x in last.args[0]]
        self._ours = [step for step, _ in self._steps if isinstance(step, _InMaxlab)]
        self.graphs: list[Graph] = [step.graph for step in self._ours]
        self.coverage: list[Ran] = [row for step, _ in self._steps for row in step.coverage]
        self.fallbacks: list[Fallback] = [f for step, _ in self._steps for f in step.fallbacks]
        self.weights: list[str] = [n for step in self._ours for n in step.weights]

    # ------------------------------------------------------------ running
    def __call__(self, args: Sequence[Any]) -> list[Any]:
        """The outputs for the inputs ``args`` of the graph, parameters and buffers among them."""
        values = list(args)
        for step, slots in self._steps:
            values += step.run([values[slot] for slot in slots])
        _remember(self)
        return [output.of(values) for output in self._wanted]

    # ------------------------------------------------------------ looking
    @property
    def graph(self) -> Graph:
        """The graph; the one with the most operations where there are several.

        Raises:
            InputError: ML888, torch runs all of it.
        """
        return self._largest.graph

    @property
    def model(self) -> Model:
        """The model of ``graph`` that was loaded last: look at its kernels, plan and passes.

        Raises:
            InputError: ML888, it has not run yet, or torch runs all of it.
        """
        found = self._largest.models.newest
        if found is None:
            raise InputError(
                "ML888",
                f"{self.name} has not run yet, so no model of it is loaded",
                fix="call what torch.compile returned first",
            )
        return found

    @property
    def _largest(self) -> _InMaxlab:
        if not self._ours:
            raise InputError(
                "ML888",
                f"torch runs all of {self.name}: there is no graph of maxlab",
                why=[str(f) for f in self.fallbacks[:3]],
                fix="print(maxlab.torch.explain(model, x)) says why",
            )
        return max(self._ours, key=lambda step: len(step.graph.function.ops))

    def profile(self, *, runs: int = 20, warmup: int = 3) -> Profile:
        """A ``Profile`` of ``model`` on what it was called with last.

        Args:
            runs: Timed executions.
            warmup: Executions before them that are not counted.

        Raises:
            InputError: ML888, another graph has run since, and only what the last one was called
                with is kept; or it has not run yet.
        """
        model, inputs = self.model, self._largest.inputs
        if inputs is None:
            raise InputError(
                "ML888",
                f"another graph has run since {self.name}, whose inputs are gone",
                fix="call the model again, then maxlab.torch.last().profile()",
            )
        made = model.profile(*inputs, runs=runs, warmup=warmup)
        assert isinstance(made, Profile)
        return made

    def forget_inputs(self) -> None:
        """Lets go of what it was called with last."""
        for step in self._ours:
            step.inputs = None

    def __repr__(self) -> str:
        ours, theirs = counts(self.coverage)
        run = plural(ours, "operation")
        return f"CompiledGraph({self.name!r}, {run} run by maxlab, {theirs} by torch)"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        return trace.mimebundle(self.model, include, exclude)


def counts(rows: Sequence[Ran]) -> tuple[int, int]:
    """How many operations maxlab runs, and how many torch."""
    ours = sum(row.count for row in rows if row.by == "maxlab")
    return ours, sum(row.count for row in rows if row.by == "torch")


# ---------------------------------------------------------------- the last run
_last: CompiledGraph | None = None


def last() -> CompiledGraph:
    """The ``CompiledGraph`` that ran last: show it to see its graph, or call its ``profile``.

    It keeps what it was called with until another one runs.

    Raises:
        InputError: ML888, none has run.

    Example:
        >>> import torch
        >>> import maxlab.torch
        >>> layer = torch.compile(torch.nn.Linear(4, 2), backend="maxlab")
        >>> with torch.no_grad():
        ...     y = layer(torch.ones(3, 4))
        >>> maxlab.torch.last()
        CompiledGraph('compiled', 1 operation run by maxlab, 0 by torch)
        >>> len(maxlab.torch.last().profile(runs=3).kernels) > 0
        True
    """
    if _last is None:
        raise InputError(
            "ML888",
            "no graph of torch.compile has run in maxlab yet",
            fix='call a model: torch.compile(model, backend="maxlab")(x), inside of '
            "`with torch.no_grad():`",
        )
    return _last


def _remember(made: CompiledGraph) -> None:
    global _last
    if _last is not made:
        if _last is not None:
            _last.forget_inputs()
        _last = made


# ---------------------------------------------------------------- stages
def _step(
    stage: Stage,
    names: Mapping[str, str],
    weights: Mapping[str, str],
    session: InferenceSession,
    name: str,
) -> _InMaxlab | _InTorch:
    if stage.why is not None:
        return _InTorch(stage, stage.why)
    try:
        return _InMaxlab(stage, names, weights, session, name)
    except Exception as error:  # one of maxlab's faults must not keep a model from running
        called = [n for n in stage.module.graph.nodes if n.op == "call_function"]
        why = error.what if isinstance(error, MaxlabError) else shown(error, 200)
        warnings.warn(
            f"torch runs {name}, which maxlab cannot import: {why}", UserWarning, stacklevel=2
        )
        return _InTorch(stage, dict.fromkeys(called, why))


class _InTorch:
    """A stage that torch runs."""

    def __init__(self, stage: Stage, why: Mapping[Node, str]) -> None:
        nodes = [n for n in why if is_operation(n)]
        self.fallbacks = [fallback(n, why[n]) for n in nodes]
        self._module = stage.module
        counted: dict[tuple[str, str], int] = {}
        for node in nodes:
            key = name_of(node), why[node]
            counted[key] = counted.get(key, 0) + 1
        self.coverage = [Ran(name, n, "torch", why) for (name, why), n in counted.items()]

    def run(self, args: Sequence[Any]) -> Sequence[Any]:
        """The values of its outputs."""
        with torch.no_grad():
            made: Sequence[Any] = self._module(*args)
        return made


class _InMaxlab:
    """A stage that is a graph of maxlab."""

    def __init__(
        self,
        stage: Stage,
        names: Mapping[str, str],
        weights: Mapping[str, str],
        session: InferenceSession,
        name: str,
    ) -> None:
        source = of_graph(stage.module, weights, names)
        found = Importer(source, name)
        self.graph: Graph = found.build()
        self.coverage = found.coverage
        self.fallbacks = found.fallbacks
        self.weights = [n for n, data in found.weights.items() if data is None]
        self.models = LoadedModels(self._load)
        self.inputs: list[Any] | None = None
        self._constants = {n: data for n, data in found.weights.items() if data is not None}
        self._session = session
        self._module = stage.module
        places = {n: p for p, n in enumerate(n for n in stage.module.graph.nodes)}
        self._inputs = [places[n] for n in source.inputs]
        by_name = {datum.name: places[datum.node] for datum in source.data}
        self._places = [by_name[n] for n in self.weights]
        self._fakes = [n.meta.get("val") for n in source.outputs]
        self._layouts = [_Layout(fake) for fake in self._fakes]

    def _load(self, tensors: Sequence[torch.Tensor]) -> Model:
        data = [given(tensor) for tensor in tensors]
        registry = {**self._constants, **dict(zip(self.weights, data, strict=True))}
        return self._session.load(self.graph, weights_registry=registry)

    def run(self, args: Sequence[Any]) -> Sequence[Any]:
        """The values of its outputs."""
        try:
            model = self.models.of([args[place] for place in self._places])
            inputs = [given(args[place]) for place in self._inputs]
            made = model.execute(*inputs)
        except CancelledError:
            raise
        except MaxlabError as error:
            return self._run_in_torch(args, error)
        self.inputs = inputs
        return [layout.taken(x) for layout, x in zip(self._layouts, made, strict=True)]

    def _run_in_torch(self, args: Sequence[Any], error: MaxlabError) -> Sequence[Any]:
        """The outputs that torch computes. Its own exceptions are those that a caller expects."""
        with torch.no_grad():
            made: Sequence[Any] = self._module(*args)
        warnings.warn(
            f"torch runs this call of {self.graph.name}, which fails in maxlab: {error.what}",
            UserWarning,
            stacklevel=2,
        )
        return made


# ---------------------------------------------------------------- outputs
class _Output:
    """One output of the whole graph: a constant, or the value of a node."""

    def __init__(self, made: Any, slots: Mapping[Node, int]) -> None:
        self._slot = slots[made] if isinstance(made, Node) else None
        self._constant = made

    def of(self, values: Sequence[Any]) -> Any:
        return self._constant if self._slot is None else values[self._slot]


class _Layout:
    """How torch has an output of a stage: as a size, or a tensor with its axes in some order."""

    def __init__(self, fake: Any) -> None:
        self._is_tensor = isinstance(fake, torch.Tensor)
        self._order = _order(fake) if self._is_tensor else None
        order = self._order or []
        self._back = sorted(range(len(order)), key=order.__getitem__)

    def taken(self, made: Any) -> Any:
        """``made`` by a model, as torch expects it: later views of it count on its steps."""
        tensor = taken(made)
        if not self._is_tensor:
            return int(tensor)
        if self._order is None:
            return tensor
        return tensor.permute(self._order).contiguous().permute(self._back)


def _order(fake: torch.Tensor) -> list[int] | None:
    """The axes of ``fake`` from the one with the largest steps to the one with the smallest; None
    where that is the order of the axes, as in most tensors."""
    if fake.is_contiguous():
        return None
    steps = [hint_of(s) for s in fake.stride()]
    order = sorted(range(fake.dim()), key=lambda axis: (-steps[axis], axis))
    return None if order == list(range(fake.dim())) else order


__all__ = ["CompiledGraph", "counts", "last"]

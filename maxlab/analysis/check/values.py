"""``values``: what flows along any edge of a graph, whether or not it is ever in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from maxlab.analysis.check.alone import Alone
from maxlab.analysis.check.inside import last_turn, owners
from maxlab.analysis.check.places import Scalar, element_grid, indices_of, places_of
from maxlab.analysis.check.reference import Reference
from maxlab.analysis.check.rounding import Rounded, exact
from maxlab.analysis.check.steps import StepFacts, facts_of
from maxlab.analysis.check.taps import read_scalars
from maxlab.analysis.target import model_behind
from maxlab.engine.model import Model
from maxlab.engine.profile import Profile
from maxlab.engine.stepping import Walk
from maxlab.errors import ArgumentError, MaxlabError
from maxlab.habits import fitting
from maxlab.ir import Call, ChainType, Op, Value
from maxlab.opset import OPSET, is_call, is_weight

Array = np.ndarray[Any, Any]
BINS = 48
IMAGE = 96
"""Rows and columns of a picture, at most."""

HOW = {
    "memory": "read from memory",
    "kernel": "computed by the kernel, read out of its text",
    "reference": "computed by the reference from what is in memory",
    "turn": "computed by the references, in the last turn that ran it",
}


@dataclass(frozen=True)
class Values:
    """One value of a graph in one run. ``values`` makes it.

    Attributes:
        node: The op that makes it, ``"n12"``, or the name of the input.
        op: What that is, ``"gelu"``.
        array: The elements, with bfloat16 and float8 as ``ml_dtypes``.
        dtype: The name of their dtype.
        how: ``"memory"``, ``"kernel"`` when it is fused away and its kernel's text was run again
            with a line that writes it down, ``"reference"`` when no kernel computes it, or
            ``"turn"`` when it is in a branch or a loop: what the references made of it when it ran
            last.
        kernel: The kernel that computes it; empty for inputs and for what has none.
    """

    node: str
    op: str
    array: Array = field(repr=False)
    dtype: str
    how: str
    kernel: str = ""

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes."""
        return tuple(self.array.shape)

    @cached_property
    def _numbers(self) -> Array:
        if self.array.dtype.kind in "biuf" and self.array.dtype.itemsize > 2:
            return self.array
        return self.array.astype(np.float64 if self.array.dtype.kind in "biu" else np.float32)

    @cached_property
    def _finite(self) -> Array:
        numbers = self._numbers
        found: Array = numbers[np.isfinite(numbers)]
        return found

    @cached_property
    def nan(self) -> int:
        """How many elements are NaN."""
        return int(np.isnan(self._numbers).sum())

    @cached_property
    def inf(self) -> int:
        """How many elements are infinite."""
        return int(np.isinf(self._numbers).sum())

    @cached_property
    def zero(self) -> int:
        """How many elements are 0."""
        return int((self._numbers == 0).sum())

    @property
    def min(self) -> float:
        """The smallest finite element; NaN when there is none."""
        return float(self._finite.min()) if self._finite.size else float("nan")

    @property
    def max(self) -> float:
        """The largest finite element; NaN when there is none."""
        return float(self._finite.max()) if self._finite.size else float("nan")

    @cached_property
    def mean(self) -> float:
        """The mean of the finite elements, in float64; NaN when there is none."""
        return float(self._finite.mean(dtype=np.float64)) if self._finite.size else float("nan")

    @cached_property
    def std(self) -> float:
        """The standard deviation of the finite elements; NaN when there is none."""
        return float(self._finite.std(dtype=np.float64)) if self._finite.size else float("nan")

    def histogram(self, bins: int = BINS) -> tuple[Array, Array]:
        """Counts of the finite elements, and the ``bins + 1`` edges between them.

        Raises:
            ArgumentError: ML664, fewer than one bin.
        """
        if bins < 1:
            raise ArgumentError(
                "ML664", f"a histogram has 1 bin or more, got {bins}", fix="leave bins out"
            )
        data = self._finite.astype(np.float64)
        counts, edges = np.histogram(data, bins=bins)
        return counts, edges

    def image(self, size: int = IMAGE) -> Array:
        """The elements as a picture of at most ``size`` rows and columns, float32: the last axis
        goes right, all others go down. Each point is the mean of what it stands for, and NaN where
        one of them is no number.

        Raises:
            ArgumentError: ML664, a picture smaller than one point.
        """
        if size < 1:
            raise ArgumentError(
                "ML664", f"a picture has 1 row or more, got {size}", fix="leave size out"
            )
        flat = self._numbers
        if flat.ndim < 2:
            wide = max(int(np.ceil(flat.size**0.5)), 1) if flat.size > size else max(flat.size, 1)
            padded = np.full(-(-flat.size // wide) * wide, np.nan, np.float32)
            padded[: flat.size] = flat.reshape(-1)
            sheet: Array = padded.reshape(-1, wide)
        else:
            sheet = flat.reshape(-1, flat.shape[-1]).astype(np.float32)
        if not sheet.size:
            return np.zeros((0, 0), np.float32)
        for axis in (0, 1):
            count = sheet.shape[axis]
            if count > size:
                starts = (np.arange(size) * count) // size
                widths = np.diff(np.append(starts, count))
                total = np.add.reduceat(sheet, starts, axis=axis)
                sheet = total / (widths[:, None] if axis == 0 else widths[None, :])
        return np.asarray(sheet, np.float32)

    def corner(self, rows: int = 6, columns: int = 8) -> Array:
        """The first elements: of the last two axes, where all others are 0."""
        part = self.array
        while part.ndim > 2 and part.shape[0]:
            part = part[0]
        if part.ndim > 2:
            part = part.reshape(-1, part.shape[-1])
        return part[:rows, :columns] if part.ndim == 2 else part.reshape(-1)[:columns]

    def table(self) -> str:
        """The facts as text."""
        shape = "×".join(map(str, self.shape)) or "one number"
        where = f" in {self.kernel}" if self.kernel else ""
        lines = [
            f"{self.node} ({self.op}){where}: {self.dtype} {shape}, {HOW[self.how]}",
            f"min {self.min:.6g}  max {self.max:.6g}  mean {self.mean:.6g}  std {self.std:.6g}",
            f"NaN {self.nan}  inf {self.inf}  zero {self.zero}  of {self.array.size}",
        ]
        return "\n".join([*lines, str(self.corner())])

    def __repr__(self) -> str:
        bad = f", {self.nan} NaN, {self.inf} inf" if self.nan or self.inf else ""
        return (
            f"Values({self.node!r}, {self.op}, {self.dtype}{list(self.shape)}, "
            f"mean={self.mean:.4g}, std={self.std:.4g}{bad})"
        )


@fitting("ML975", "maxlab.values(model, 'n1')")
def values(target: Model | Profile, node: str, *inputs: Any) -> Values:
    """The values that the op ``node`` computes when ``target`` runs on ``inputs``.

    A value that is fused away is read out of the kernel: its text is run once more, on the memory
    that it had, with a line that writes the value down.

    Args:
        target: The model, or a profile of it.
        node: The id of an op, ``"n12"``, of its result, ``"v12"``, or the name of an input or
            weight.
        *inputs: As for ``Model.execute``; those of its newest profile when left out.

    Raises:
        ArgumentError: ML805, the graph has nothing of that name; ML759, it is in a branch or a loop
            and did not run.
        ExecutionError: ML757, it is in a loop of more turns than the references do.
        InputError: Inputs that the model does not take.
        ArgumentTypeError: ML674, ``target`` is no model.

    Example:
        >>> import numpy as np
        >>> from maxlab import engine
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType
        >>> with Graph("double", input_types=[TensorType(DType.float32, ["n"])]) as graph:
        ...     graph.output((graph.inputs[0].tensor * 2) + 1)
        >>> model = engine.InferenceSession().load(graph)
        >>> found = values(model, "n1", np.arange(4, dtype=np.float32))
        >>> found.array, found.how
        (array([0., 2., 4., 6.], dtype=float32), 'kernel')
    """
    model = model_behind(target, "values")
    if not isinstance(node, str):
        raise ArgumentError(
            "ML805",
            f"values takes the name of an op, got {type(node).__name__}",
            fix="the name comes before the inputs: maxlab.values(model, 'n1')",
        )
    (found,) = all_values(model, [node], inputs)
    return found


def all_values(model: Model, nodes: Sequence[str], inputs: Sequence[Any]) -> list[Values]:
    """As `values`, for several nodes in one run.

    Raises:
        ArgumentError: ML805, the graph has nothing of one of the names.
        InputError: Inputs that the model does not take.
    """
    from maxlab.analysis.check.compare import known_inputs

    return Edges(model, nodes).run(known_inputs(model, inputs))[0]


class Edges:
    """Reads values of one model, run after run.

    Args:
        model: The model.
        nodes: As for `values`.

    Raises:
        ArgumentError: ML805, the graph has nothing of one of the names.
    """

    def __init__(self, model: Model, nodes: Sequence[str]) -> None:
        self._model = model
        self._owners = owners(model.compiled.source)
        self._wanted = [self._resolved(name) for name in nodes]
        self._facts = facts_of(model.compiled)

    def _resolved(self, name: str) -> tuple[str, Value]:
        """The user's value that ``name`` names."""
        source = self._model.compiled.source
        for value in source.inputs:
            if name in (value.id, value.name):
                return value.name, value
        for op in source.walk():
            if name == op.id or any(name == r.id for r in op.results):
                result = next((r for r in op.results if r.id == name), None)
                if op.results:
                    return op.id, result or op.results[0]
            if is_weight(op) and op.attrs["name"] == name:
                return op.id, op.result
        raise ArgumentError(
            "ML805",
            f"the graph {source.name!r} has no op {name!r}",
            fix="ids are those in the inspector and in print(graph), such as 'n12'",
        )

    def _compiled(self, value: Value) -> Value | None:
        """The value of the compiled function that is the user's ``value``; None when no kernel
        computes that one any more."""
        function = self._model.compiled.function
        if value.op is None:
            return function.inputs[value.index]
        found = None
        for op in function.ops:
            for result in op.results:
                if result.id == value.id:
                    return result
                if value.op.id in op.origins and result.type == value.type:
                    if is_call(op) and not _gives(op, result, value):
                        continue  # the call computes it on the way
                    found = result
        return found

    def _begun(self, values: Sequence[Value], stored: set[Value]) -> dict[Value, Value]:
        """The user's values that are in memory and from which ``values`` follow, with what they
        became."""
        found: dict[Value, Value] = {}
        seen: set[Value] = set()
        stack = list(values)
        while stack:
            value = stack.pop()
            if value in seen or isinstance(value.type, ChainType):
                continue
            seen.add(value)
            made = self._compiled(value)
            if made is not None and (made in stored or made.op is None):
                found[value] = made
            elif value.op is not None:
                stack.extend(value.op.operands)
        return found

    def run(self, inputs: Sequence[Any]) -> tuple[list[Values], Walk]:
        """The values on ``inputs``, in the order of the nodes, and the run they are of.

        Raises:
            InputError: Inputs that the model does not take.
            ExecutionError: What the run found wrong.
        """
        walk = Walk(self._model, inputs)
        compiled = self._model.compiled
        weights = walk.memory.weights()
        reference = Reference(compiled.function, walk.env, weights)
        places = {
            name: None if value.op in self._owners else self._compiled(value)
            for name, value in self._wanted
        }
        stored = {w.value for facts in self._facts for w in facts.writes}
        begun: dict[Value, Value] = {}
        for name, value in self._wanted:
            if places[name] is None:
                owner = None if value.op is None else self._owners.get(value.op)
                begun |= self._begun([value] if owner is None else owner.operands, stored)
        whole = [v for v in places.values() if v is not None]
        frontier = self._frontier([*whole, *begun.values()], stored)
        kept: dict[Value, Rounded] = {}
        for value, tensor in zip(compiled.function.inputs, walk.inputs, strict=True):
            kept[value] = exact(tensor.copied())
        fused = {v for v in places.values() if v is not None and v not in stored and v not in kept}
        read: dict[Value, tuple[Array, str]] = {}
        for facts, _ in zip(self._facts, walk, strict=True):
            for write in facts.writes:
                if write.value in frontier:
                    kept[write.value] = exact(np.array(walk.memory.value(write.slot, write.value)))
            wanted = fused - set(read)
            if wanted and facts.step.kind != "pack":
                read.update(self._scalars(walk, facts, wanted))
        known = dict(kept)
        known |= {value: exact(array) for value, (array, _) in read.items()}
        given = {user: known[made] for user, made in begun.items()}
        source = Reference(compiled.source, walk.env, weights)
        found = []
        for name, user in self._wanted:
            made = places[name]
            how, kernel = "reference", self._kernel_of(name)
            array: Array
            if made is not None and made in kept:
                array, how = kept[made].base, "memory"
            elif made is not None and made in read:
                array, how, kernel = read[made][0], "kernel", read[made][1]
            elif made is not None:
                array = reference.evaluate([made], known)[made].base
                if self._is_exact(made, known):
                    how = "memory"
            elif user.op in self._owners:
                assert user.op is not None
                how, owner = "turn", self._owners[user.op]
                operands = [v for v in owner.operands if not isinstance(v.type, ChainType)]
                made_of = source.evaluate(operands, given)
                arrays = [np.array(made_of[v].base) for v in operands]
                array = last_turn(user, owner, arrays, walk.env, weights)
            else:
                array = source.evaluate([user], given)[user].base
            op = user.op.name.removeprefix("mo.") if user.op is not None else "input"
            dtype = user.tensor_type.dtype.name
            found.append(Values(name, op, array, dtype, how, kernel))
        return found, walk

    def _kernel_of(self, node: str) -> str:
        for facts in self._facts:
            if node in facts.step.nodes and facts.step.kind != "pack":
                return facts.step.id
        return ""

    def _is_exact(self, value: Value, known: dict[Value, Rounded]) -> bool:
        """Whether only views and data stand between ``value`` and what is known."""
        while value not in known:
            op = value.op
            if op is None:
                return False
            kind = OPSET[op.name].kind
            if kind in ("constant", "external"):
                return True
            if kind not in ("view", "transfer"):
                return False
            value = op.operands[0]
        return True

    def _frontier(self, values: Sequence[Value], stored: set[Value]) -> set[Value]:
        """The values in memory from which ``values`` follow."""
        found: set[Value] = set()
        seen: set[Value] = set()
        stack = list(values)
        while stack:
            value = stack.pop()
            if value in seen:
                continue
            seen.add(value)
            if value in stored:
                found.add(value)
            elif value.op is not None:
                stack.extend(value.op.operands)
        return found

    def _scalars(
        self, walk: Walk, facts: StepFacts, wanted: set[Value]
    ) -> dict[Value, tuple[Array, str]]:
        """Those of ``wanted`` that the step that ran last computes and does not store."""
        model, step = self._model, facts.step
        made = {v for op in facts.group.ops for v in op.results}
        made |= {
            v
            for group in model.compiled.schedule.inliner.groups_in(facts.group)
            for op in group.ops
            for v in op.results
        }
        mine = wanted & made
        if not mine:
            return {}
        variant = model.chosen.get(step.number, 0)
        written = facts.writes[0] if facts.writes else None
        places = places_of(model.compiled.schedule, facts.group, step, variant, written)
        alone = Alone.of(walk, step, {w.slot for w in facts.writes})
        if places is None or alone is None:
            return {}
        places.scalars = {n: s for n, s in places.scalars.items() if s.value in mine}
        if not places.scalars:
            return {}
        try:
            reads = read_scalars(alone, places, walk.env)
        except MaxlabError:
            return {}  # the reference then says what it is
        found: dict[Value, tuple[Array, str]] = {}
        for read in reads:
            scalar = places.scalars[read.number]
            grid = element_grid(places, walk.env, read.inner, read.reduced)
            array = scattered(scalar, read.array, read.written, grid, walk.env)
            if array is not None:
                found[scalar.value] = (array, step.id)
        return found


def _gives(op: Op, result: Value, value: Value) -> bool:
    """Whether ``result`` of the call ``op`` is the user's ``value``."""
    call: Call = op.attrs["call"]
    output = call.body.output
    assert output is not None
    inner = output.operands[result.index]
    assert value.op is not None
    return (
        inner.op is not None
        and call.ids.get(inner.op.id) == value.op.id
        and inner.index == value.index
    )


def scattered(
    scalar: Scalar, array: Array, written: Array, grid: dict[str, Any], env: dict[str, int]
) -> Array | None:
    """The whole value of which ``array`` has elements; None when some are nowhere in it."""
    shape = tuple(d.evaluate(env) for d in scalar.value.tensor_type.shape)
    kind = scalar.value.tensor_type.dtype.ml_numpy
    if not shape:
        return array.reshape(-1)[:1].astype(kind).reshape(()) if written.any() else None
    made = np.zeros(shape, kind)
    there = np.zeros(shape, bool)
    at = indices_of(scalar, shape, grid, array.shape)
    if at is None:
        return None
    if kind.itemsize > 1 and not written.all():
        at = tuple(np.broadcast_to(a, array.shape)[written] for a in at)
        array = array[written]
    made[at] = array.astype(kind)
    there[at] = True
    return made if there.all() else None


__all__ = ["Edges", "Values", "all_values", "values"]

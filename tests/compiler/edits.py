"""Random changes of functions, as people make them: one change, and the graph is built again.

A `Draft` is a function as a list that can be changed anywhere; ``build`` types all of it anew, so
that a change of a dim or a dtype reaches whatever depends on it, under ids of its own.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxlab import opset
from maxlab.dtype import DType
from maxlab.errors import MaxlabError
from maxlab.ir import Constant, Dim, Function, Shape, TensorType, Value
from tests.compiler.interpret import Array
from tests.compiler.programs import SMOOTH

Ref = tuple[str, int]
"""A value: ``("in", number of the input)`` or ``("op", number of the op)``."""
BINARY = ("add", "sub", "mul", "max", "min")
FOLDS = ("reduce.sum", "reduce.max", "reduce.min")
OTHER = {DType.float32: DType.float64, DType.float64: DType.float32}


@dataclass
class Line:
    """One op of a draft."""

    name: str
    operands: list[Ref]
    attrs: dict[str, Any]


class Draft:
    """A function whose ops have one result each, to be changed."""

    def __init__(self, function: Function) -> None:
        refs: dict[Value, Ref] = {v: ("in", n) for n, v in enumerate(function.inputs)}
        self.inputs: list[Any] = [v.tensor_type for v in function.inputs]
        self.lines: list[Line] = []
        for op in function.ops[:-1]:
            operands = [refs[v] for v in op.operands]
            refs[op.result] = "op", len(self.lines)
            self.lines.append(Line(op.name.removeprefix("mo."), operands, dict(op.attrs)))
        assert function.output is not None
        self.outputs = [refs[v] for v in function.output.operands]

    def build(self, first: int = 0) -> Function:
        """The function, whose ops have ids from the number ``first`` on.

        Raises:
            MaxlabError: It has no types.
        """
        made = Function("edited")
        made.reserve(f"n{first}")
        values: dict[Ref, Value] = {}
        for number, typed in enumerate(self.inputs):
            values["in", number] = made.add_input(typed)
        for number, line in enumerate(self.lines):
            row = opset.lookup(f"mo.{line.name}")
            operands = [values[ref] for ref in line.operands]
            given: list[Any] = [v.type for v in operands]
            types = row.infer(given, line.attrs)
            op = made.create(row.name, operands, types, line.attrs)
            made.block.append(op)
            values["op", number] = op.result
        ends = made.create("mo.output", [values[ref] for ref in self.outputs], [])
        made.block.append(ends)
        return made

    def refs(self) -> list[Ref]:
        """All values."""
        found: list[Ref] = [("in", n) for n in range(len(self.inputs))]
        return found + [("op", n) for n in range(len(self.lines))]

    def insert(self, at: int, line: Line) -> None:
        """Put ``line`` before the op ``at``."""
        for other in self.lines:
            other.operands = [_moved(ref, at) for ref in other.operands]
        self.outputs = [_moved(ref, at) for ref in self.outputs]
        self.lines.insert(at, line)

    def replace(self, old: Ref, new: Ref) -> None:
        """Read ``new`` wherever ``old`` was read."""
        for line in self.lines:
            line.operands = [new if ref == old else ref for ref in line.operands]
        self.outputs = [new if ref == old else ref for ref in self.outputs]


def _moved(ref: Ref, at: int) -> Ref:
    return ("op", ref[1] + 1) if ref[0] == "op" and ref[1] >= at else ref


# ---------------------------------------------------------------- the changes
Change = Callable[[Draft, random.Random], bool]
"""Changes a draft; false where it has nothing to change."""


def change_op(draft: Draft, rng: random.Random) -> bool:
    """Another operation on the same operands."""
    families = (tuple(n for n in SMOOTH if n != "gelu"), BINARY, FOLDS)
    known = [(line, f) for line in draft.lines for f in families if line.name in f]
    if not known:
        return False
    line, family = rng.choice(known)
    line.name = rng.choice([name for name in family if name != line.name])
    return True


def add_op(draft: Draft, rng: random.Random) -> bool:
    """One more operation on what some operation makes, for all that read it."""
    at = rng.randrange(len(draft.lines))
    draft.insert(at + 1, Line(rng.choice(("tanh", "abs", "negate", "sin")), [], {}))
    draft.replace(("op", at), ("op", at + 1))
    draft.lines[at + 1].operands = [("op", at)]
    return True


def remove_op(draft: Draft, rng: random.Random) -> bool:
    """What read an operation reads its first operand."""
    known = [n for n, line in enumerate(draft.lines) if line.operands]
    at = rng.choice(known)
    draft.replace(("op", at), draft.lines[at].operands[0])
    return True


def change_dim(draft: Draft, rng: random.Random) -> bool:
    """A size of the inputs is another one, wherever it is."""
    known = {str(dim): dim for typed in draft.inputs for dim in typed.shape}
    if not known:
        return False
    old = known[rng.choice(sorted(known))]
    new = rng.choice([Dim("q"), Dim("wide"), Dim(2), Dim(3), Dim(6), Dim(9)])

    def renamed(attr: Any) -> Any:
        if isinstance(attr, Dim):
            return new if attr == old else attr
        if isinstance(attr, Shape):
            return Shape([renamed(dim) for dim in attr])
        return tuple(map(renamed, attr)) if isinstance(attr, tuple) else attr

    draft.inputs = [TensorType(t.dtype, map(renamed, t.shape), t.device) for t in draft.inputs]
    for line in draft.lines:
        line.attrs = {name: renamed(attr) for name, attr in line.attrs.items()}
    return bool(new != old)


def change_dtype(draft: Draft, rng: random.Random) -> bool:
    """A float input, or all that is of its dtype, has the other width."""
    known = [n for n, typed in enumerate(draft.inputs) if typed.dtype in OTHER]
    if not known:
        return False
    one, old = rng.choice(known), rng.choice([DType.float32, DType.float64])
    only = rng.random() < 0.3

    def other(typed: Any) -> Any:
        new = OTHER[old] if typed.dtype is old else typed.dtype
        return TensorType(new, typed.shape, typed.device)

    draft.inputs = [t if only and n != one else other(t) for n, t in enumerate(draft.inputs)]
    for line in draft.lines if not only else []:
        for name, attr in line.attrs.items():
            if isinstance(attr, Constant) and attr.array.dtype == old.ml_numpy:
                line.attrs[name] = Constant(attr.array.astype(OTHER[old].ml_numpy))
            elif attr is old:
                line.attrs[name] = OTHER[old]
            elif isinstance(attr, TensorType):
                line.attrs[name] = other(attr)
    return True


def change_attribute(draft: Draft, rng: random.Random) -> bool:
    """An attribute, or a number of a constant, is another one."""
    known = [(line, name) for line in draft.lines for name in sorted(line.attrs)]
    if not known:
        return False
    line, name = rng.choice(known)
    attr = line.attrs[name]
    if isinstance(attr, Constant):
        line.attrs[name] = Constant(np.asarray(attr.array + np.asarray(1, attr.array.dtype)))
    elif isinstance(attr, bool):
        line.attrs[name] = not attr
    elif isinstance(attr, (int, float)):
        line.attrs[name] = attr + rng.choice([-1, 1])
    elif name == "approximate":
        line.attrs[name] = rng.choice(["none", "tanh", "quick"])
    elif isinstance(attr, tuple) and attr:
        line.attrs[name] = tuple(rng.sample(attr, len(attr)))
    else:
        return False
    return True


def change_outputs(draft: Draft, rng: random.Random) -> bool:
    """One output more, or fewer, or they come in another order."""
    how = rng.random()
    if how < 0.5:
        draft.outputs.append(rng.choice(draft.refs()))
    elif how < 0.8 and len(draft.outputs) > 1:
        draft.outputs.pop(rng.randrange(len(draft.outputs)))
    else:
        rng.shuffle(draft.outputs)
    return True


CHANGES: tuple[Change, ...] = (
    change_op, add_op, remove_op, change_dim, change_dtype, change_attribute, change_outputs,
)  # fmt: skip


def changed(draft: Draft, rng: random.Random) -> tuple[str, Draft, Function]:
    """One change of ``draft`` that leaves a function with types: its name, the draft, and that."""
    while True:
        change = rng.choice(CHANGES)
        made = copy.deepcopy(draft)
        try:
            if change(made, rng):
                return change.__name__, made, made.build(rng.randrange(50))
        except (MaxlabError, ValueError, IndexError, ZeroDivisionError):
            continue  # no types, or another rank


def arrays_for(function: Function, seed: int) -> tuple[list[Array], dict[str, Array]]:
    """Inputs and weights for ``function``; every name has a size of its own."""
    rng = np.random.default_rng(seed)
    names: dict[str, int] = {}

    def made(typed: Any) -> Array:
        for name in (p.name for p in typed.shape.parameters):
            names.setdefault(name, 2 + len(names))
        sizes = [dim.evaluate(names) for dim in typed.shape]
        if typed.dtype is DType.bool:
            return np.asarray(rng.random(sizes) < 0.5)
        if typed.dtype.is_integral():
            return np.asarray(rng.integers(0, 2, sizes)).astype(typed.dtype.ml_numpy)
        return np.asarray(rng.uniform(-1.5, 1.5, sizes)).astype(typed.dtype.ml_numpy)

    inputs = [made(value.tensor_type) for value in function.inputs]
    weights = {
        op.attrs["name"]: op.attrs["type"] for op in function.ops if "placeholder" in op.attrs
    }
    return inputs, {name: made(typed) for name, typed in weights.items()}

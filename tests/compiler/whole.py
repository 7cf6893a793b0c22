"""Random programs over the whole op table, their comparison with the references, and the smallest
part of a program that still goes wrong.

A program begins with one to three ops of any row, each on a variant of one of its samples whose
operands lie in memory in random ways, and goes on with steps of ``programs`` on their results.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable

import numpy as np

from maxlab.dtype import DType
from maxlab.ir import Function, Op, TensorType, Value
from maxlab.ir.printer import pretty
from maxlab.opset import OPSET, Sample, evaluate
from tests.compiler.interpret import Array, interpret, load, outputs_of, same, sizes_of
from tests.compiler.programs import Generator, Program
from tests.compiler.variants import LAYOUTS, PREPARED, any_variant, applied

HALVES = (DType.float16, DType.bfloat16)
MOST = 60_000
"""Elements of an operand, at most."""


@functools.cache
def rows() -> list[str]:
    """The names of the ops that have samples."""
    return [name for name in OPSET if samples_of(name)]


@functools.cache
def samples_of(name: str) -> list[Sample]:
    """The samples of a row that are no larger than a test should be."""
    row = OPSET[name]
    found = row.samples() if row.samples is not None else ()
    return [s for s in found if all(a.size <= MOST for a in s.arrays)]


class Whole(Generator):
    """Makes the program of one seed, or one that Hypothesis chooses."""

    def __init__(self, seed: int | random.Random) -> None:
        super().__init__(seed)
        self.rough: list[Value] = []

    def sampled(self) -> None:
        """The results of an op of any row."""
        name = self.rng.choice(rows())
        row = OPSET[name]
        sample = any_variant(row, self.rng, samples_of(name), name not in PREPARED)
        if sample is None:
            return
        known = [w for w in LAYOUTS if w != "repeated" or name not in PREPARED]
        layouts = [self.rng.choice([*known, "plain"]) for _ in range(3)]
        results = applied(self.b, row, sample, layouts, self.program.inputs)
        floats = [a for a in sample.arrays if a.dtype.kind == "f"]
        with np.errstate(over="ignore"):
            huge = not all((np.abs(a.astype(np.float64)) < 1e6).all() for a in floats)
        for value in results or ():
            dtype = value.tensor_type.dtype
            if dtype in HALVES or dtype.is_float8() or value.tensor_type.rank > 4 or huge:
                self.rough.append(value)  # no step may make a small difference a large one
            else:
                self.pool.append(value)

    def make(self) -> Program:
        """The program."""
        for _ in range(self.rng.choice([1, 1, 2, 3])):
            self.sampled()
        if not self.pool:
            self.pool.append(self.fresh(DType.float32, [self.dim(), self.dim()]))
        self.steps(self.rng.randint(0, 6))
        unread = [v for v in self.pool if not v.uses]
        chosen = unread[-4:] + self.rng.sample(self.pool, 1)
        self.b.output(*chosen, *self.rough)
        return self.program


def differs(program: Program, threads: int | None = None) -> str:
    """What is wrong with the compiled ``program``: an empty text when nothing is."""
    with np.errstate(all="ignore"):
        want = interpret(program.function, program.inputs, program.weights)
    try:
        got = outputs_of(load(program.function, program.weights, threads), program.inputs)
        for number, (g, w) in enumerate(zip(got, want, strict=True)):
            try:
                close(g, w)
            except AssertionError as error:
                return f"output {number}: {error}"
    except Exception as error:  # whatever a compiler may raise is a finding
        return f"{type(error).__name__}: {error}"
    return ""


def close(got: Array, want: Array) -> None:
    """Assert that two results are as close as a few roundings leave them."""
    if want.dtype.kind in "biu":
        same(got, want)
        return
    finite = want[np.isfinite(want)].astype(np.float64)
    scale = max(float(np.max(np.abs(finite), initial=1.0)), 1.0)
    rough = want.dtype.itemsize == 2
    same(got, want, rtol=3e-2 if rough else 1e-3, atol=(2e-2 if rough else 1e-4) * scale)


# ---------------------------------------------------------------- the smallest part
def smallest(program: Program, wrong: Callable[[Program], str] = differs) -> Program:
    """A part of ``program`` that is wrong too, and of which no smaller part is.

    A single op, if one is wrong by itself on the operands that the references compute; else a chain
    of ops that go wrong together, from which outputs and first ops are left out one by one.
    """
    for op in program.function.ops:
        if op.name != "mo.output" and _typed(op):
            before = {v.owner for v in op.operands if isinstance(v.owner, Op)}
            part = _part(program, list(op.results), before)
            if wrong(part):
                return part
    best = program
    for chosen in _outputs(best):
        part = _part(program, [chosen], set())
        if wrong(part):
            best = part
            break
    changed = True
    while changed:
        changed = False
        for op in list(best.function.ops):
            if op.name == "mo.output" or not _typed(op):
                continue
            part = _part(best, _outputs(best), {op})
            if len(part.function.ops) < len(best.function.ops) and wrong(part):
                best, changed = part, True
                break
    return best


def _outputs(program: Program) -> list[Value]:
    return list(program.function.ops[-1].operands)


def _typed(op: Op) -> bool:
    return all(isinstance(r.type, TensorType) for r in op.results)


def _part(program: Program, outputs: list[Value], given: set[Op]) -> Program:
    """The ops that ``outputs`` need, with the results of the ops ``given`` as inputs."""
    env = sizes_of(program.function, program.inputs)
    known: dict[Value, Array] = dict(zip(program.function.inputs, program.inputs, strict=True))
    needed, todo = set[Op](), [v.owner for v in outputs]
    while todo:
        owner = todo.pop()
        if isinstance(owner, Op) and owner not in needed:
            needed.add(owner)
            if owner not in given:
                todo += [v.owner for v in owner.operands]
    part = Program(Function(program.function.name), [], program.weights)
    value: dict[Value, Value] = {}
    for old in program.function.inputs:  # all of them: their dims may be named elsewhere
        value[old] = part.function.add_input(old.tensor_type)
        part.inputs.append(known[old])
    for op in program.function.ops:
        if op.name == "mo.output":
            break
        if op.name == "mo.constant.external":
            known[op.result] = program.weights[op.attrs["name"]]
        else:
            with np.errstate(all="ignore"):
                made = evaluate(op, [known[v] for v in op.operands], env)
            known.update(zip(op.results, made, strict=True))
        if op not in needed:
            continue
        if op in given:
            for result in op.results:
                value[result] = part.function.add_input(result.tensor_type)
                part.inputs.append(known[result])
            continue
        new = part.function.create(
            op.name, [value[v] for v in op.operands], [r.type for r in op.results], op.attrs
        )
        part.function.block.append(new)
        value.update(zip(op.results, new.results, strict=True))
    part.function.block.append(part.function.create("mo.output", [value[v] for v in outputs], []))
    return part


def told(program: Program) -> str:
    """The program as text, with its small inputs."""
    lines = [pretty(program.function)]
    for number, array in enumerate(program.inputs):
        shown = np.array2string(array, threshold=40, max_line_width=100)
        lines.append(f"input {number}: {array.dtype} {array.shape}\n{shown}")
    return "\n".join(lines)

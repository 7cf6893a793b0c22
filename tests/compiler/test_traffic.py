"""Bytes and operations that are counted for each kernel: counts by hand for every kind of kernel,
and a count of every element that the loops of each op of the table touch.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from maxlab import engine, opset
from maxlab.compiler.loops import Kernel, walk
from maxlab.compiler.options import Options
from maxlab.compiler.passes import PIPELINE, applied
from maxlab.compiler.passes import run as run_passes
from maxlab.compiler.plan import Plan, Step
from maxlab.compiler.planner import Planner
from maxlab.compiler.schedule import Schedule
from maxlab.dtype import DType
from maxlab.graph import Graph, TensorType, ops
from maxlab.ir import Poly
from tests.compiler.test_matrix import CASES, Case, build

F32, F64, BF16, I64 = DType.float32, DType.float64, DType.bfloat16, DType.int64
Types = Sequence[tuple[DType, Sequence[int | str]]]


def plan_of(build: Callable[..., Any], types: Types, options: Options | None = None) -> Plan:
    """The plan of the graph that ``build`` makes of inputs of ``types``."""
    kinds = [TensorType(dtype, list(shape)) for dtype, shape in types]
    with Graph("counted", input_types=kinds) as graph:
        made = build(*(value.tensor for value in graph.inputs))
        graph.output(*(made if isinstance(made, tuple) else (made,)))
    work = graph.function.clone()
    run_passes(work, PIPELINE)
    chosen = options or Options()
    return Planner(Schedule(work, chosen)).build()


def counts(plan: Plan, **env: int) -> list[tuple[str, int, int, int]]:
    """(kind, flops, bytes read, bytes written) of each step."""
    found = []
    for step in plan.steps:
        traffic = step.traffic().values()
        read = sum(r.evaluate(env) for r, _ in traffic)
        written = sum(w.evaluate(env) for _, w in traffic)
        assert step.nbytes.evaluate(env) == read + written
        found.append((step.kind, step.flops.evaluate(env), read, written))
    return found


def _small(case: Case) -> bool:
    return sum(x.size for x in case.sample.arrays) <= 2000


M, N, K = 24, 40, 56

HAND: dict[str, tuple[Callable[..., Any], Types, list[tuple[str, int, int, int]]]] = {
    "map": (lambda x: x + 1.0, [(F32, ["m", N])], [("map", M * N, 4 * M * N, 4 * M * N)]),
    "a function counts as the arithmetic that evaluates it": (
        ops.exp,
        [(F32, ["m", N])],
        [("map", 8 * M * N, 4 * M * N, 4 * M * N)],
    ),
    "broadcast: a row is read once": (
        lambda x, b: x + b,
        [(F32, ["m", N]), (F32, [N])],
        [("map", M * N, 4 * (M * N + N), 4 * M * N)],
    ),
    "broadcast: a column is read once": (
        lambda x, b: x * b,
        [(F32, ["m", N]), (F32, ["m", 1])],
        [("map", M * N, 4 * (M * N + M), 4 * M * N)],
    ),
    "fused maps leave nothing in memory between them": (
        lambda x: ops.tanh(x * 2.0) + 1.0,
        [(F32, ["m", N])],
        [("map", 10 * M * N, 4 * M * N, 4 * M * N)],
    ),
    "both halves of a swap": (
        lambda x: ops.concat([x[:, N // 2 :], x[:, : N // 2]], axis=1),
        [(F32, ["m", N])],
        [("concat", 0, 2 * M * N, 2 * M * N)] * 2,
    ),
    "slice": (lambda x: x[:, :8] * 2.0, [(F32, ["m", N])], [("map", 8 * M, 32 * M, 32 * M)]),
    "slices that overlap read each element once": (
        lambda x: x[1:] - x[:-1],
        [(F32, [N])],
        [("map", N - 1, 4 * N, 4 * (N - 1))],
    ),
    "cast": (
        lambda x: ops.cast(x, BF16),
        [(F64, ["m", N])],
        [("map", 0, 8 * M * N, 2 * M * N)],
    ),
    "reduce rows": (
        lambda x: ops.sum(x, axis=-1),
        [(F32, ["m", N])],
        [("row", M * N, 4 * M * N, 4 * M)],
    ),
    "reduce columns": (
        lambda x: ops.max(x, axis=0),
        [(F32, ["m", N])],
        [("reduce", M * N, 4 * M * N, 4 * N)],
    ),
    # max, subtract, exp (8), sum and multiply for each element; a reciprocal (4) for each row
    "softmax passes over each row several times, and reads it once": (
        ops.softmax,
        [(F32, ["m", N])],
        [("row", 12 * M * N + 4 * M, 4 * M * N, 4 * M * N)],
    ),
    "gather reads a row for each index": (
        lambda table, at: ops.gather(table, at, axis=0),
        [(F32, [1000, N]), (I64, ["m"])],
        [("map", 0, 4 * M * N + 8 * M, 4 * M * N)],
    ),
    "a table is not read more than whole": (
        lambda table, at: ops.gather(table, at, axis=0),
        [(F32, [10, N]), (I64, [100])],
        [("map", 0, 4 * 10 * N + 800, 400 * N)],
    ),
    "pad": (
        lambda x: ops.pad(x, [0, 0, 2, 3]),
        [(F32, ["m", N])],
        [("map", 0, 4 * M * N, 4 * M * (N + 5))],
    ),
    "copy": (
        lambda x: ops.permute(x, [1, 0]),
        [(F32, ["m", N])],
        [("copy", 0, 4 * M * N, 4 * M * N)],
    ),
    # panels of 32 columns: 64 for 40
    "product of inputs": (
        ops.matmul,
        [(F32, ["m", K]), (F32, [K, N])],
        [
            ("pack", 0, 4 * K * N, 4 * K * 64),
            ("contract", 2 * M * N * K, 4 * M * K + 4 * K * 64, 4 * M * N),
        ],
    ),
    "product with bias and activation": (
        lambda x, w, b: ops.relu(ops.matmul(x, w) + b),
        [(F32, ["m", K]), (F32, [K, N]), (F32, [N])],
        [
            ("pack", 0, 4 * K * N, 4 * K * 64),
            ("contract", 2 * M * N * K + 2 * M * N, 4 * (M * K + K * 64 + N), 4 * M * N),
        ],
    ),
    "product of a part": (
        lambda x, y: ops.matmul(x[:, :, :16], y),
        [(F32, [3, M, K]), (F32, [3, 16, N])],
        [("contract", 2 * 3 * M * N * 16, 4 * 3 * (M * 16 + 16 * N), 4 * 3 * M * N)],
    ),
    "batched product": (
        ops.matmul,
        [(F32, ["b", M, K]), (F32, ["b", K, N])],
        [("contract", 10 * M * N * K, 20 * (M * K + K * N), 20 * M * N)],
    ),
    "one left matrix for a batch": (
        ops.matmul,
        [(F32, [M, K]), (F32, ["b", K, N])],
        [("contract", 10 * M * N * K, 4 * M * K + 20 * K * N, 20 * M * N)],
    ),
    "product of doubles": (
        ops.matmul,
        [(F64, ["m", K]), (F64, [K, N])],
        [("contract", 2 * M * N * K, 8 * (M * K + K * N), 8 * M * N)],
    ),
    # scores and values 2 * 6 * 10 * 20 * 8 each; a map and the softmax on 6 * 10 * 20
    "attention": (
        lambda q, k, v: ops.matmul(ops.softmax(ops.matmul(q, ops.transpose(k, -1, -2)) * 0.125), v),
        [(F32, [2, 3, 10, 8]), (F32, [2, 3, 20, 8]), (F32, [2, 3, 20, 8])],
        [
            (
                "attention",
                2 * 2 * 6 * 10 * 20 * 8 + 13 * 6 * 10 * 20 + 4 * 60,
                4 * (6 * 10 * 8 + 2 * 6 * 20 * 8),
                4 * 6 * 10 * 8,
            )
        ],
    ),
}


@pytest.mark.parametrize("name", HAND)
def test_counts_are_those_made_by_hand(name: str) -> None:
    made, types, wanted = HAND[name]
    assert counts(plan_of(made, types), m=M, b=5) == wanted


@pytest.mark.parametrize(
    "case",
    [c for c in CASES if opset.OPSET[c.name].kind == "composite" and _small(c)],
    ids=lambda c: c.id,
)
def test_a_composite_costs_what_it_is_written_out_in(case: Case) -> None:
    function, _ = build(case)
    (op,) = (op for op in function.ops if op.name == case.name)
    expected = opset.flops_of(op)
    work = function.clone()
    for name, apply in PIPELINE:
        if name == "decompose":
            applied(work, apply)
    total = Poly.constant(0)
    for part in work.ops:
        total = total + opset.flops_of(part)
    assert case.name not in {part.name for part in work.ops}
    assert str(total) == str(expected)


def test_a_mask_of_attention_is_counted_with_it() -> None:
    def masked(q: Any, k: Any, v: Any, mask: Any) -> Any:
        scores = ops.matmul(q, ops.transpose(k, -1, -2)) * 0.125 + mask
        return ops.matmul(ops.softmax(scores), v)

    head: tuple[DType, Sequence[int | str]] = (F32, ["b", 4, "t", 16])
    mask: tuple[DType, Sequence[int | str]] = (F32, ["b", 1, 1, "t"])
    plan = plan_of(masked, [head, head, head, mask])
    ((kind, _, read, written),) = counts(plan, b=2, t=30)
    assert (kind, read, written) == ("attention", 4 * (3 * 2 * 4 * 30 * 16 + 2 * 30), 4 * 3840)


def test_operands_of_attention_may_be_parts_of_one_buffer() -> None:
    def fused(x: Any) -> Any:
        q, k, v = (
            ops.permute(ops.reshape(x[:, :, 32 * n : 32 * n + 32], [2, 12, 4, 8]), [0, 2, 1, 3])
            for n in range(3)
        )
        return ops.matmul(ops.softmax(ops.matmul(q, ops.permute(k, [0, 1, 3, 2]))), v)

    found = counts(plan_of(fused, [(F32, [2, 12, 128])]))
    ((kind, _, read, written),) = [row for row in found if row[0] == "attention"]
    assert (kind, read, written) == ("attention", 4 * 3 * 2 * 12 * 32, 4 * 2 * 12 * 32)


def test_each_kernel_of_an_unfused_chain_goes_through_memory() -> None:
    plan = plan_of(lambda x: ops.tanh(x * 2.0) + 1.0, [(F32, [N])], Options(fuse=False))
    assert counts(plan) == [("map", 1 * N, 4 * N, 4 * N), ("map", 8 * N, 4 * N, 4 * N),
                            ("map", 1 * N, 4 * N, 4 * N)]  # fmt: skip


def test_inlined_maps_are_counted_once_in_each_part_of_a_concat() -> None:
    def parts(x: Any) -> Any:
        return ops.concat([x[:, 5:] * 2.0, ops.exp(x[:, :5])], axis=1)

    assert counts(plan_of(parts, [(F32, ["m", 10])]), m=M) == [
        ("concat", 5 * M, 20 * M, 20 * M),
        ("concat", 40 * M, 20 * M, 20 * M),
    ]


def test_maps_that_went_into_one_that_went_into_another_are_counted() -> None:
    def chain(x: Any) -> Any:
        flipped = ops.relu(ops.permute(ops.exp(x), [1, 0]) + 1.0)
        return ops.sum(ops.permute(flipped, [1, 0]) * 3.0, axis=0)

    plan = plan_of(chain, [(F32, [M, N])])
    nodes = [node for step in plan.steps for node in step.nodes]
    assert sum(row[1] for row in counts(plan)) == (8 + 1 + 1 + 1 + 1) * M * N
    assert len(set(nodes)) == 5


def test_transfers_move_every_byte_once() -> None:
    from maxlab.graph import DeviceRef

    kind = TensorType(F32, ["m", N], DeviceRef.CPU())
    with Graph("there and back", input_types=[kind]) as graph:
        x = graph.inputs[0].tensor.to(DeviceRef.GPU())
        graph.output((x * 2.0).to(DeviceRef.CPU()))
    work = graph.function.clone()
    run_passes(work, PIPELINE)
    found = counts(Planner(Schedule(work)).build(), m=M)
    assert found == [
        ("transfer", 0, 4 * M * N, 4 * M * N),
        ("map", M * N, 4 * M * N, 4 * M * N),
        ("transfer", 0, 4 * M * N, 4 * M * N),
    ]


def test_a_product_of_a_gpu_reads_its_operands_as_they_are() -> None:
    from maxlab.graph import DeviceRef

    place = DeviceRef.GPU()
    shapes: list[list[int | str]] = [["m", K], [K, N], [N]]
    types = [TensorType(F32, shape, place) for shape in shapes]
    with Graph("gpu", input_types=types) as graph:
        x, w, b = (value.tensor for value in graph.inputs)
        graph.output(ops.relu(ops.matmul(x, w) + b))
    work = graph.function.clone()
    run_passes(work, PIPELINE)
    assert counts(Planner(Schedule(work)).build(), m=M) == [
        ("contract", 2 * M * N * K + 2 * M * N, 4 * (M * K + K * N + N), 4 * M * N)
    ]


# ---------------------------------------------------------------- every op, element by element
POINTS = 4000


def _points(kernel: Kernel, env: dict[str, int]) -> list[dict[str, int]] | None:
    axes = [*kernel.rows, kernel.inner]
    if kernel.reduction is not None:
        axes.append(kernel.reduction)
    sizes = [axis.extent.evaluate(env) for axis in axes]
    total = 1
    for size in sizes:
        total *= size
    if total > POINTS:
        return None
    return [
        {**env, **dict(zip((a.name for a in axes), at, strict=True))}
        for at in itertools.product(*(range(size) for size in sizes))
    ]


def _touched(step: Step, env: dict[str, int]) -> dict[int, tuple[int, int]] | None:
    """Bytes of the elements that the loops of ``step`` really read and write, by slot."""
    lowered = step.loops
    if lowered is None:
        return None
    kernel = lowered.kernel
    points = _points(kernel, env)
    nodes = list(walk(list(kernel.expressions())))
    if points is None or any(node.kind == "gather" for node in nodes):
        return None
    guarded: dict[int, list[tuple[Poly, Poly]]] = {}
    for node in nodes:
        if node.kind == "guard":
            for below in walk([node.args[0]]):
                guarded.setdefault(below.number, []).extend(node.data)
    reads: dict[int, set[int]] = {}
    writes: dict[int, set[int]] = {}

    def inside(conditions: list[tuple[Poly, Poly]], at: dict[str, int]) -> bool:
        return all(0 <= p.evaluate(at) < size.evaluate(at) for p, size in conditions)

    for at in points:
        for node in nodes:
            if node.kind == "load" and inside(guarded.get(node.number, []), at):
                slot = step.pointers[node.data[0]]
                reads.setdefault(slot, set()).add(node.data[1].evaluate(at))
        for store in kernel.stores():
            writes.setdefault(step.pointers[store.buffer], set()).add(store.index.evaluate(at))
    return {
        slot: (len(reads.get(slot, ())), len(writes.get(slot, ())))
        for slot in reads.keys() | writes.keys()
    }


@pytest.mark.parametrize("case", [c for c in CASES if _small(c)], ids=lambda c: c.id)
def test_every_op_touches_what_is_counted(case: Case) -> None:
    function, arrays = build(case)
    env: dict[str, int] = {}
    for value, array in zip(function.inputs, arrays, strict=True):
        for size, length in zip(value.tensor_type.sizes, array.shape, strict=True):
            if len(size.symbols()) == 1 and str(size) == size.symbols()[0]:
                env[str(size)] = length
    for op, check in opset.checks_of(function):
        del op
        if check.relation == "==" and str(check.right) not in env:
            env[str(check.right)] = check.left.evaluate(env)
    work = function.clone()
    run_passes(work, PIPELINE)
    plan = Planner(Schedule(work)).build()
    for step in plan.steps:
        real = _touched(step, env)
        if real is None:
            continue
        counted = step.traffic()
        for slot, exactly in real.items():
            held = plan.slots[slot].nbytes.evaluate(env)
            width = plan.slots[slot].dtype.size_in_bytes
            for found, exact in zip(counted[slot], exactly, strict=True):
                number = found.evaluate(env)
                # All that a buffer holds is said where less cannot be proved for all sizes.
                assert number == exact * width or exact * width <= number == held
            if not case.symbolic and case.name != "mo.pad":
                assert counted[slot][1].evaluate(env) == exactly[1] * width


def test_the_counts_of_a_profile_are_those_of_its_sizes() -> None:
    import numpy as np

    with Graph("f", input_types=[TensorType(F32, ["n"])]) as graph:
        graph.output(graph.inputs[0].tensor * 2)
    profile = engine.InferenceSession(num_threads=1).load(graph).profile(np.ones(100, np.float32))
    (kernel,) = profile.kernels
    assert (kernel.flops, kernel.nbytes) == (100, 800)

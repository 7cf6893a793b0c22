"""Random programs of branches, loops, stores and calls in each other, beside the same in NumPy."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from maxlab import driver, engine
from maxlab.dtype import DType
from maxlab.graph import BufferType, DeviceRef, Graph, TensorType, ops

NAMES = 3
"""Variables of a program, each an int64 vector; sums wrap, so that nothing is rounded."""
LAYOUTS = ("as it is", "reversed", "broadcast")

variables = st.integers(0, NAMES - 1)
sets = st.tuples(
    st.just("set"), variables, st.sampled_from(["add", "sub", "mul"]), variables, variables,
    st.sampled_from(LAYOUTS),
)  # fmt: skip
stores = st.tuples(st.just("store"), variables)
loads = st.tuples(st.just("load"), variables)
calls = st.tuples(st.just("call"), variables, variables)
moves = st.tuples(st.just("move"), variables, variables)
puts = st.tuples(st.just("put"), variables, variables, variables)


def blocks(inner: Any) -> Any:
    body = st.lists(inner, min_size=0, max_size=3)
    return st.one_of(
        st.tuples(st.just("if"), variables, body, body),
        st.tuples(st.just("loop"), variables, body),
    )


programs = st.lists(
    st.recursive(st.one_of(sets, stores, loads, calls, moves, puts), blocks, max_leaves=8),
    min_size=1,
    max_size=5,
)


# ---------------------------------------------------------------- in NumPy
def evaluate(program: Any, values: list[Any], cell: list[Any]) -> None:
    for statement in program:
        kind, *rest = statement
        if kind == "set":
            to, name, a, b, layout = rest
            x, y = values[a], values[b]
            if layout == "reversed":
                y = y[::-1]
            elif layout == "broadcast":
                y = np.broadcast_to(y[:1], y.shape)
            values[to] = {"add": np.add, "sub": np.subtract, "mul": np.multiply}[name](x, y)
        elif kind == "store":
            cell[0] = values[rest[0]]
        elif kind == "load":
            values[rest[0]] = cell[0]
        elif kind == "move":
            a, b = rest
            values[a], values[b] = values[b], values[a]
        elif kind == "put":
            to, a, b = rest
            made = np.array(values[a])
            made[values[b].sum() % len(made)] = values[b][0]
            values[to] = made
        elif kind == "call":
            a, b = rest
            values[a], values[b] = values[b] * 3 + 1, values[a] - values[b]
        elif kind == "if":
            chosen = rest[1] if values[rest[0]].sum() % 2 == 0 else rest[2]
            evaluate(chosen, values, cell)
        else:
            turns = int(values[rest[0]].sum() % 4)
            for _ in range(turns):
                evaluate(rest[1], values, cell)


# ---------------------------------------------------------------- as a graph
def build(program: Any, device: DeviceRef) -> Graph:
    row = TensorType(DType.int64, ["n"], device)
    inputs = [row] * NAMES + [BufferType(DType.int64, ["n"], device)]
    with Graph("random", input_types=inputs) as graph:
        first: Any = graph.inputs
        cell = first[NAMES]
        body = graph.add_subgraph("body", lambda a, b: (b * 3 + 1, a - b), [row, row])
        zero = ops.constant(0, DType.int64, device)

        def total(x: Any, modulus: int) -> Any:
            return ops.sum(x, axis=0)[0] % modulus

        def run(statements: Any, values: list[Any]) -> list[Any]:
            values = list(values)
            for kind, *rest in statements:
                if kind == "set":
                    to, name, a, b, layout = rest
                    x, y = values[a], values[b]
                    if layout == "reversed":
                        y = y[::-1]
                    elif layout == "broadcast":
                        y = ops.broadcast_to(y[:1], y.shape)
                    values[to] = getattr(ops, name)(x, y)
                elif kind == "store":
                    ops.buffer_store(cell, values[rest[0]])
                elif kind == "load":
                    values[rest[0]] = ops.buffer_load(cell)
                elif kind == "move":
                    a, b = rest
                    values[a], values[b] = values[b], values[a]
                elif kind == "put":
                    to, a, b = rest
                    x, y = values[a], values[b]
                    n = ops.shape_to_tensor(x.shape)
                    n = n if device == DeviceRef.CPU() else ops.transfer_to(n, device)
                    place = ops.sum(y, axis=0) % n
                    values[to] = ops.scatter(x, y[:1], place, axis=0)
                elif kind == "call":
                    a, b = rest
                    made = ops.call(body, values[a], values[b])
                    values[a], values[b] = made[0], made[1]
                elif kind == "if":
                    at, then, other = rest
                    pred = total(values[at], 2) == 0
                    before = list(values)
                    values = list(
                        ops.cond(
                            pred,
                            [row] * NAMES,
                            partial(run, then, before),
                            partial(run, other, before),
                        )
                    )
                else:
                    at, inner = rest
                    turns = total(values[at], 4)
                    found: list[Any] = list(
                        ops.while_loop(
                            [zero, *values],
                            lambda i, *v, turns=turns: i < turns,
                            lambda i, *v, inner=inner: [i + 1, *run(inner, list(v))],
                        )
                    )
                    values = found[1:]
            return values

        graph.output(*run(program, list(first[:NAMES])))
    return graph


def check(program: Any, arrays: list[Any], gpu: Any = None) -> None:
    device = DeviceRef.CPU() if gpu is None else DeviceRef.GPU()
    graph = build(program, device)
    session = engine.InferenceSession() if gpu is None else engine.InferenceSession(devices=[gpu])
    model = session.load(graph)
    given = [np.array(x) for x in arrays]
    if gpu is None:
        found = [y.to_numpy() for y in model(*given)]
        memory = given[NAMES]
    else:
        placed = [driver.Tensor.from_numpy(x).to(gpu) for x in given]
        found = [y.to(driver.CPU()).to_numpy() for y in model(*placed)]
        memory = placed[NAMES].to(driver.CPU()).to_numpy()
    values, cell = [np.array(x) for x in arrays[:NAMES]], [np.array(arrays[NAMES])]
    with np.errstate(all="ignore"):
        evaluate(program, values, cell)
    for got, wanted in zip(found, values, strict=True):
        np.testing.assert_array_equal(got, wanted)
    np.testing.assert_array_equal(memory, cell[0])


SEEDED = {"deadline": None, "derandomize": True, "suppress_health_check": list(HealthCheck)}


@settings(max_examples=60, **SEEDED)  # type: ignore[arg-type]
@given(programs, st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_programs_compute_what_numpy_does(program: Any, size: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    check(program, [rng.integers(-9, 9, size) for _ in range(NAMES + 1)])


@settings(max_examples=12, **SEEDED)  # type: ignore[arg-type]
@given(program=programs, seed=st.integers(0, 2**32 - 1))
def test_programs_on_a_device(gpu: driver.Accelerator, program: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    check(program, [rng.integers(-9, 9, 3) for _ in range(NAMES + 1)], gpu)

"""Rows by expert, and the products of each expert's rows, against torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

from maxlab.dtype import DType
from maxlab.engine import InferenceSession
from maxlab.errors import ExecutionError
from maxlab.graph import DeviceRef, Graph, TensorType, Weight, ops
from maxlab.nn import kernels
from tests.cpu_and_gpu import at, numpy, session

Array = np.ndarray[Any, Any]
CPU, F32, U32, I32 = DeviceRef.CPU(), DType.float32, DType.uint32, DType.int32
RNG = np.random.default_rng(3)


# ---------------------------------------------------------------- indices
@pytest.mark.parametrize("rows", [0, 1, 700])
def test_indices_are_those_of_a_stable_sort(place: DeviceRef, rows: int) -> None:
    experts = 40
    ids = RNG.choice([0, 3, 7, 38], rows).astype(np.int32)
    with Graph("order", input_types=[TensorType(I32, ["rows"], place)]) as graph:
        graph.output(*kernels.moe_create_indices(graph.inputs[0].tensor, experts))
    model = session(place).load(graph)
    order, starts, restore, chosen, usage = (numpy(x) for x in model(at(ids, place)))
    wide = torch.from_numpy(ids.astype(np.int64))
    counts = torch.bincount(wide, minlength=experts).numpy()
    active = counts[counts > 0]
    np.testing.assert_array_equal(order, torch.argsort(wide, stable=True).numpy())
    np.testing.assert_array_equal(restore[order], np.arange(rows))
    np.testing.assert_array_equal(chosen[: len(active)], np.nonzero(counts)[0])
    assert (chosen[len(active) :] == -1).all()
    np.testing.assert_array_equal(starts[: len(active) + 1], [0, *active.cumsum()])
    assert (starts[len(active) :] == rows).all()
    assert usage.tolist() == [active.max(initial=0), len(active)]


@pytest.mark.parametrize("wrong", [-1, 5])
def test_an_expert_that_is_not_there_ends_the_run(place: DeviceRef, wrong: int) -> None:
    with Graph("order", input_types=[TensorType(I32, ["rows"], place)]) as graph:
        graph.output(*kernels.moe_create_indices(graph.inputs[0].tensor, 5))
    model = session(place).load(graph)
    with pytest.raises(ExecutionError, match="ML652"):
        [numpy(x) for x in model(at(np.array([1, wrong, 4], np.int32), place))]


# ---------------------------------------------------------------- products
def _product(place: DeviceRef, x: Array, w: Array, ids: Array, given: str) -> Array:
    """The product of each row with the matrix of its expert; matrices are inputs, or weights."""
    dtype = DType.from_numpy(x.dtype)
    own = Weight("w", dtype, w.shape, CPU)
    types = [TensorType(dtype, ["rows", x.shape[1]], place), TensorType(I32, ["rows"], place)]
    more = [TensorType(dtype, w.shape, place)] if given == "input" else []
    with Graph("product", input_types=[*types, *more]) as graph:
        rows, experts, *matrices = (v.tensor for v in graph.inputs)
        weight = matrices[0] if matrices else own.to(place)
        order, starts, restore, chosen, usage = kernels.moe_create_indices(experts, len(w))
        sorted_rows = ops.gather(rows, order, 0)
        host = usage.to(CPU)
        y = kernels.grouped_matmul_ragged(sorted_rows, weight, starts, chosen, host)
        graph.output(ops.gather(y, restore, 0))
    model = session(place).load(graph, weights_registry={} if more else {"w": w})
    inputs = [x, ids, *([w] if more else [])]
    return numpy(model(*(at(a, place) for a in inputs))[0])


CASES = {
    "odd sizes": (np.float32, (5, 70, 33), [3] * 40 + [0] * 2 + [4]),
    "whole panels": (np.float32, (3, 160, 64), [1] * 130 + [2]),
    "float16": (np.float16, (4, 70, 16), [0] * 70 + [3]),
    "bfloat16": (ml_dtypes.bfloat16, (3, 32, 18), [2] * 17 + [1] * 3),
    "float64": (np.float64, (3, 5, 7), [2, 0, 2]),
    "no rows": (np.float32, (3, 5, 7), []),
}


@pytest.mark.parametrize("given", ["weight", "input"])
@pytest.mark.parametrize("case", CASES, ids=lambda name: name.replace(" ", "-"))
def test_products_are_those_of_a_loop_over_rows(place: DeviceRef, case: str, given: str) -> None:
    kind, (experts, n, k), chosen = CASES[case]
    ids = RNG.permutation(np.array(chosen, np.int32))
    x = RNG.standard_normal((len(ids), k)).astype(kind)
    w = RNG.standard_normal((experts, n, k)).astype(kind)
    found = _product(place, x, w, ids, given)
    wide = [torch.from_numpy(a.astype(np.float64)) for a in (x, w)]
    rows = [wide[1][expert] @ row for row, expert in zip(wide[0], ids.tolist(), strict=True)]
    wanted = torch.stack(rows).numpy() if rows else np.zeros((0, n))
    assert found.dtype == kind
    rounded, summed = {2: (2**-7, 2**-23), 4: (2**-22, 2**-23), 8: (2**-51, 2**-52)}[found.itemsize]
    np.testing.assert_allclose(found.astype(np.float64), wanted, rtol=rounded, atol=4 * k * summed)


def test_a_group_without_an_expert_gives_zeros(place: DeviceRef) -> None:
    found = _ran(place, _Groups())
    assert (found[2:] == 0).all()
    assert (found[:2] == 4).all()


class _Groups:
    """Two groups of five rows; the second has no expert."""

    def __init__(self) -> None:
        self.starts = np.array([0, 2, 5, 5], np.uint32)
        self.ids = np.array([1, -1, -1], np.int32)
        self.usage = np.array([3, 2], np.uint32)


def _ran(place: DeviceRef, groups: _Groups) -> Array:
    types = [
        TensorType(F32, [5, 4], place), TensorType(F32, [2, 6, 4], place),
        TensorType(U32, [4], place), TensorType(I32, [3], place), TensorType(U32, [2], CPU),
    ]  # fmt: skip
    with Graph("groups", input_types=types) as graph:
        graph.output(kernels.grouped_matmul_ragged(*(v.tensor for v in graph.inputs)))
    x, w = np.ones((5, 4), np.float32), np.ones((2, 6, 4), np.float32)
    given = [at(a, place) for a in (x, w, groups.starts, groups.ids)]
    return numpy(session(place).load(graph)(*given, groups.usage)[0])


def _late(groups: _Groups) -> None:
    groups.starts[0] = 1


def _short(groups: _Groups) -> None:
    groups.starts[2:] = 4


def _long(groups: _Groups) -> None:
    groups.starts[1] = 2**32 - 1


def _backwards(groups: _Groups) -> None:
    groups.usage[:], groups.starts[:] = [5, 3], [0, 4, 2, 5]


def _larger(groups: _Groups) -> None:
    groups.usage[0] = 2


def _many(groups: _Groups) -> None:
    groups.usage[1] = 4


def _no_expert(groups: _Groups) -> None:
    groups.ids[0] = 2


def _negative(groups: _Groups) -> None:
    groups.ids[0] = -2


BROKEN = [
    (_late, "1 is out of range for a dim of size 1"),
    (_short, "4 is out of range for a dim of size 4"),
    (_long, f"{2**32 - 2} is out of range for a dim of size 5"),
    (_backwards, "4 is out of range for a dim of size 2"),
    (_larger, "3 is out of range for a dim of size 3"),
    (_many, "4 is out of range for a dim of size 4"),
    (_no_expert, "2 is out of range for a dim of size 2"),
    (_negative, "-2 is out of range for a dim of size 2"),
]


@pytest.mark.parametrize(("broken", "text"), BROKEN, ids=[f.__name__ for f, _ in BROKEN])
def test_groups_that_are_not_the_rows_end_the_run(
    place: DeviceRef, broken: Callable[[_Groups], None], text: str
) -> None:
    groups = _Groups()
    broken(groups)
    with pytest.raises(ExecutionError, match=f"index {text}.*ML652"):
        _ran(place, groups)


# ---------------------------------------------------------------- work
def test_only_chosen_experts_are_computed_and_read() -> None:
    """Of 64 experts one is chosen: work and bytes are those of one."""
    experts, n, k = 64, 32, 16
    w = RNG.standard_normal((experts, n, k)).astype(np.float32)
    with Graph("one", input_types=[TensorType(F32, [1, k]), TensorType(I32, [1])]) as graph:
        x, ids = (v.tensor for v in graph.inputs)
        weight = Weight("w", F32, w.shape, CPU)
        _, starts, _, chosen, usage = kernels.moe_create_indices(ids, experts)
        graph.output(kernels.grouped_matmul_ragged(x, weight, starts, chosen, usage))
    model = InferenceSession().load(graph, weights_registry={"w": w})
    row = RNG.standard_normal((1, k)).astype(np.float32)
    profile = model.profile(row, np.array([9], np.int32), runs=1, warmup=0)
    (product,) = [kernel for kernel in profile.kernels if "matmul" in kernel.name]
    assert product.flops == 2 * n * k
    assert 4 * n * k <= product.nbytes < 2 * 4 * n * k
    (y,) = model(row, np.array([9], np.int32))
    np.testing.assert_allclose(numpy(y), row @ w[9].T, rtol=1e-5, atol=1e-5)


# ---------------------------------------------------------------- errors
def _type(dtype: DType, *shape: Any) -> TensorType:
    return TensorType(dtype, shape, CPU)


GOOD = [
    _type(F32, "rows", 4), _type(F32, 3, 6, 4), _type(U32, 4), _type(I32, 3), _type(U32, 2),
]  # fmt: skip
REFUSED = {
    "rank of rows": (0, _type(F32, "rows", 4, 1), "ML659", "hidden_states"),
    "size of rows": (0, _type(F32, "rows", 5), "ML659", r"\[experts, n, k\]"),
    "dtype of rows": (0, _type(DType.bfloat16, "rows", 4), "ML666", "one float dtype"),
    "whole numbers": (0, _type(I32, "rows", 4), "ML666", "one float dtype"),
    "rank of matrices": (1, _type(F32, 6, 4), "ML659", "weight must have rank 3"),
    "no experts": (1, _type(F32, 0, 6, 4), "ML659", "1 or more"),
    "starts": (2, _type(U32, 5), "ML659", "one more start"),
    "dtype of starts": (2, _type(I32, 4), "ML666", "starts must be uint32"),
    "ids": (3, _type(U32, 3), "ML666", "expert ids must be int32"),
    "usage": (4, _type(U32, 3), "ML659", r"usage must be \[2\]"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_types_are_refused(name: str) -> None:
    number, type, code, text = REFUSED[name]
    types = [*GOOD[:number], type, *GOOD[number + 1 :]]
    with Graph("wrong", input_types=types) as graph:
        values = [v.tensor for v in graph.inputs]
        with pytest.raises(ValueError, match=text) as caught:
            kernels.grouped_matmul_ragged(*values)
        assert code in str(caught.value)


def test_indices_refuse_other_types() -> None:
    types = [_type(F32, 4), _type(I32, 4, 2), _type(I32, 4)]
    with Graph("wrong", input_types=types) as graph:
        floats, table, ids = (v.tensor for v in graph.inputs)
        with pytest.raises(ValueError, match="ML666"):
            kernels.moe_create_indices(floats, 3)
        with pytest.raises(ValueError, match="ML659"):
            kernels.moe_create_indices(table, 3)
        for count in (0, -1, 2**31):
            with pytest.raises(ValueError, match="ML667"):
                kernels.moe_create_indices(ids, count)

"""Collectives: their rules in graphs, and what models with them compute."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from maxlab import driver
from maxlab.analysis.check import compare
from maxlab.analysis.stages import stages
from maxlab.driver import Accelerator, Tensor
from maxlab.dtype import DType
from maxlab.errors import MaxlabError
from maxlab.graph import BufferType, DeviceRef, Graph, TensorType, ops
from maxlab.ir import ChainType
from maxlab.opset.verify import verify
from tests.devices.places import PLACES, load, places, put, refs_of, signal_types, signals, taken

F32, F16, BF16, I8 = DType.float32, DType.float16, DType.bfloat16, DType.int8
C0, C1, C2 = (DeviceRef.CPU(n) for n in range(3))
RNG = np.random.default_rng(11)


def graph_of(
    types: Sequence[TensorType], make: Callable[[list[Any], list[Any]], Sequence[Any]]
) -> Graph:
    """A graph whose inputs are of ``types``, and signal buffers, and its outputs what ``make``
    makes of these."""
    buffers = signal_types([t.device for t in types])
    with Graph("g", input_types=[*types, *buffers]) as graph:
        tensors = [v.tensor for v in graph.inputs[: len(types)]]
        graph.output(*make(tensors, list(graph.inputs[len(types) :])))
    return graph


def run(graph: Graph, devices: Sequence[Any], arrays: Sequence[Any], **weights: Any) -> list[Any]:
    inputs = [put(x, device) for x, device in zip(arrays, devices, strict=True)]
    made = load(graph, devices, **weights)(*inputs, *signals(devices))
    assert [x.device for x in made] == [devices[n % len(devices)] for n in range(len(made))]
    return [taken(x) for x in made]


# ---------------------------------------------------------------- results
@pytest.mark.parametrize("which", PLACES)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_allgather_joins_what_all_have(which: str, axis: int) -> None:
    with places(which) as devices:
        names: list[list[Any]] = [["n", "m"] for _ in devices]
        for number, dims in enumerate(names):
            dims[axis] = f"k{number}"  # that axis may differ
        types = [TensorType(F32, d, r) for d, r in zip(names, refs_of(devices), strict=True)]
        graph = graph_of(types, lambda xs, ss: ops.allgather(xs, ss, axis))
        arrays = []
        for number in range(len(devices)):
            shape = [3, 5]
            shape[axis] = number + 1
            arrays.append(RNG.normal(size=shape).astype(np.float32))
        found = run(graph, devices, arrays)
        assert len(found) == len(devices)
        for x in found:
            np.testing.assert_array_equal(x, np.concatenate(arrays, axis))


@pytest.mark.parametrize("which", PLACES)
@pytest.mark.parametrize("dtype", [F32, F16, BF16, DType.float64, I8, DType.int64], ids=str)
def test_allreduce_adds_what_all_have(which: str, dtype: DType) -> None:
    with places(which) as devices:
        types = [TensorType(dtype, ["n", 3], r) for r in refs_of(devices)]
        graph = graph_of(types, ops.allreduce.sum)
        if dtype.is_float():
            arrays = [RNG.normal(size=(50, 3)).astype(dtype.ml_numpy) for _ in devices]
        else:
            arrays = [RNG.integers(-128, 128, (50, 3)).astype(dtype.ml_numpy) for _ in devices]
        wide = np.float32 if dtype in (F16, BF16) else dtype.ml_numpy
        wanted = arrays[0].astype(wide)
        for x in arrays[1:]:  # in their order: the same bits on every device
            wanted = wanted + x.astype(wide)
        for found in run(graph, devices, arrays):
            assert found.dtype == dtype.ml_numpy
            np.testing.assert_array_equal(found, wanted.astype(dtype.ml_numpy))


def test_narrow_floats_are_rounded_once() -> None:
    with places("4 cpus") as devices:
        graph = graph_of([TensorType(F16, [1], r) for r in refs_of(devices)], ops.allreduce.sum)
        one = [np.array([x], np.float16) for x in (2048, 1, 1, 0)]  # 2048 + 1 is 2048 in float16
        assert {x[0] for x in run(graph, devices, one)} == {2050}


@pytest.mark.parametrize("which", PLACES)
def test_collectives_among_other_ops(which: str) -> None:
    """Fused maps before and behind them, one feeding the other, through branches too."""

    def make(xs: list[Any], ss: list[Any]) -> list[Any]:
        sums = ops.allreduce.sum([ops.exp(x * (n + 1)) for n, x in enumerate(xs)], ss)
        parts = ops.allgather([ops.sum(s, axis=0) + n for n, s in enumerate(sums)], ss)
        return [ops.softmax(p @ s.T) for p, s in zip(parts, sums, strict=True)]

    with places(which) as devices:
        graph = graph_of([TensorType(F32, ["n", 4], r) for r in refs_of(devices)], make)
        arrays = [RNG.normal(size=(6, 4)).astype(np.float32) / 4 for _ in devices]
        total = np.sum([np.exp(x * (n + 1)) for n, x in enumerate(arrays)], axis=0)
        parts = np.stack([total.sum(0) + n for n in range(len(devices))])
        scores = parts @ total.T
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        wanted = scores / scores.sum(-1, keepdims=True)
        for found in run(graph, devices, arrays):
            np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=1e-6)
        inputs = [put(x, device) for x, device in zip(arrays, devices, strict=True)]
        assert compare(load(graph, devices), *inputs, *signals(devices)).ok


@pytest.mark.parametrize("which", ["2 cpus", "2 gpus"])
def test_in_a_branch_and_behind_a_store(which: str) -> None:
    with places(which) as devices:
        refs = refs_of(devices)
        types = [TensorType(F32, [4], r) for r in refs]
        buffers = [BufferType(F32, [4], r) for r in refs]
        flag_type = TensorType(DType.bool, [])
        with Graph("g", input_types=[*types, *buffers, *signal_types(refs), flag_type]) as graph:
            xs = [v.tensor for v in graph.inputs[:2]]
            kept, ss = ([v.buffer for v in graph.inputs[n : n + 2]] for n in (2, 4))
            for place, x in zip(kept, xs, strict=True):
                ops.buffer_store(place, x * 10)
            loaded = [ops.buffer_load(b) for b in kept]

            def together() -> list[Any]:
                return ops.allreduce.sum(loaded, ss)

            made = ops.cond(graph.inputs[6].tensor, types, together, lambda: list(xs))
            for place, x in zip(kept, made, strict=True):
                ops.buffer_store(place, x)
            graph.output(*made)
        verify(graph.function)
        model = load(graph, devices)
        arrays = [np.arange(4, dtype=np.float32) + n for n in range(2)]
        for flag in (True, False):
            held = [Tensor.zeros([4], F32, device) for device in devices]
            inputs = [put(x, device) for x, device in zip(arrays, devices, strict=True)]
            found = model(*inputs, *held, *signals(devices), flag)
            wanted = [10 * (arrays[0] + arrays[1])] * 2 if flag else arrays
            for y, after, right in zip(found, held, wanted, strict=True):
                np.testing.assert_array_equal(taken(y), right)
                np.testing.assert_array_equal(taken(after), right)


@pytest.mark.parametrize("place", [C0, C1, DeviceRef.GPU(1)], ids=str)
@pytest.mark.parametrize("name", ["allgather", "allreduce"])
def test_one_device_alone(place: DeviceRef, name: str) -> None:
    make = ops.allgather if name == "allgather" else ops.allreduce.sum
    graph = graph_of([TensorType(F32, [2, 2], place)], make)
    with driver.simulated(2), driver.virtual_cpus(2):
        (found,) = run(graph, [place.to_device()], [np.eye(2, dtype=np.float32)])
        np.testing.assert_array_equal(found, np.eye(2))


def test_none_give_none() -> None:
    with Graph("g", input_types=[]) as graph:
        assert ops.allgather([], []) == []
        assert ops.allreduce.sum([], []) == []
        assert not graph.function.ops


def test_gpus_that_cannot_reach_each_other_go_through_the_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    array = np.ones((5, 4), np.float32)
    for reachable in (True, False):
        monkeypatch.setattr(Accelerator, "can_access", lambda self, other, r=reachable: r)
        with places("2 gpus") as devices:
            types = [TensorType(F32, [5, 4], r) for r in refs_of(devices)]
            found = run(graph_of(types, ops.allreduce.sum), devices, [array, array * 2])
            for x in found:
                np.testing.assert_array_equal(x, array * 3)
            copies = [device.stats["copies"] for device in devices]
            assert copies == ([1, 1] if reachable else [0, 0])


def test_arithmetic_is_done_by_kernels_of_each_device() -> None:
    with places("2 gpus") as devices:
        graph = graph_of([TensorType(F32, [8], r) for r in refs_of(devices)], ops.allreduce.sum)
        steps = load(graph, devices).compiled.plan.steps
    kinds = [(step.kind, str(step.device)) for step in steps]
    assert sorted(kinds) == [
        ("map", "gpu:0"), ("map", "gpu:1"), ("transfer", "gpu:0"), ("transfer", "gpu:1"),
    ]  # fmt: skip


def test_the_passes_can_be_looked_at() -> None:
    with places("2 cpus") as devices:
        graph = graph_of([TensorType(F32, ["n"], r) for r in refs_of(devices)], ops.allreduce.sum)
        found = {stage.name: stage for stage in stages(load(graph, devices))}
    assert "allreduce.sum" in {op.name for op in found["graph"].ops}
    names = [op.name for op in found["decompose"].ops]
    assert (names.count("transfer"), names.count("add")) == (2, 2)


# ---------------------------------------------------------------- order
def test_a_collective_is_in_the_chains_of_all_devices() -> None:
    refs = [C1, C2]
    types = [*(TensorType(F32, [4], r) for r in refs), *signal_types(refs)]
    with Graph("g", input_types=types) as g:
        xs, ss = [v.tensor for v in g.inputs[:2]], [v.buffer for v in g.inputs[2:]]
        before = [g.device_chains[r]._ir() for r in refs]
        other = g.device_chains[C0]._ir()
        made = ops.allreduce.sum(xs, ss)
        after = [g.device_chains[r]._ir() for r in refs]
        g.output(*made)
    op = made[0]._ir().op
    assert op is not None
    assert [v for v in op.operands if isinstance(v.type, ChainType)] == before
    assert [v for v in op.results if isinstance(v.type, ChainType)] == after
    assert g.device_chains[C0]._ir() is other, "a device that does not take part is not waited for"


def test_chains_of_several_devices_survive_a_file(tmp_path: Path) -> None:
    """All chains behind an op were once taken for those of its first device."""
    types = [TensorType(F32, [4], r) for r in (C1, C2)]
    graph = graph_of(types, ops.allreduce.sum)
    graph.save(tmp_path / "g.mlir")
    again = Graph(path=tmp_path / "g.mlir")
    assert str(again) == str(graph)
    for place in (C1, C2):
        assert again.device_chains[place]._ir().id == graph.device_chains[place]._ir().id
    arrays = [np.ones(4, np.float32), np.ones(4, np.float32) * 2]
    with places("4 cpus") as cpus:
        assert run(again, cpus[1:3], arrays)[1].tolist() == [3] * 4


def test_in_a_subgraph(tmp_path: Path) -> None:
    refs = [C1, C2]
    types = [*(TensorType(F32, [4], r) for r in refs), *signal_types(refs)]
    with Graph("g", input_types=types) as graph:
        sub = graph.add_subgraph(
            "sum", lambda a, b, s, t: ops.allreduce.sum([a.tensor * 2, b], [s, t]), types
        )
        once = ops.call(sub, *graph.inputs)
        graph.output(*ops.call(sub, *once, *graph.inputs[2:]))
    verify(graph.function)
    with places("4 cpus") as cpus:
        found = run(graph, cpus[1:3], [np.ones(4, np.float32), np.ones(4, np.float32)])
        assert [x.tolist() for x in found] == [[9] * 4] * 2


# ---------------------------------------------------------------- errors


A, B = TensorType(F32, [2, 3], C1), TensorType(F32, [2, 3], C2)
REFUSED: list[tuple[str, type[Exception], list[TensorType], list[DeviceRef]]] = [
    ("ML435", ValueError, [A, B], [C1]),
    ("ML435", ValueError, [A, B], []),
    ("ML435", ValueError, [], [C1]),
    ("ML435", ValueError, [A, A], [C1, C1]),
    ("ML435", ValueError, [A, B], [C2, C1]),
    ("ML435", ValueError, [A, B], [C1, C0]),
    ("ML110", ValueError, [A, TensorType(F16, [2, 3], C2)], [C1, C2]),
    ("ML436", ValueError, [A, TensorType(F32, [2, 4], C2)], [C1, C2]),
    ("ML436", ValueError, [A, TensorType(F32, [2, 3, 1], C2)], [C1, C2]),
    ("ML436", ValueError, [A, TensorType(F32, [2, "n"], C2)], [C1, C2]),
]


@pytest.mark.parametrize("name", ["allgather", "allreduce"])
@pytest.mark.parametrize(("code", "kind", "types", "places"), REFUSED)
def test_what_is_refused(
    name: str, code: str, kind: type[Exception], types: Any, places: Any
) -> None:
    with Graph("g", input_types=[*types, *signal_types(places)]) as graph:
        xs = [v.tensor for v in graph.inputs[: len(types)]]
        before = str(graph)
        make: Any = ops.allgather if name == "allgather" else ops.allreduce.sum
        with pytest.raises(kind) as caught:
            make(xs, graph.inputs[len(types) :])
        assert isinstance(caught.value, MaxlabError)
        assert caught.value.code == code
        assert str(graph) == before, "what failed has changed nothing"


def test_more_that_is_refused() -> None:
    with Graph("g", input_types=[A, TensorType(DType.bool, [2], C1), *signal_types([C1])]) as graph:
        a, flags = (v.tensor for v in graph.inputs[:2])
        signal = graph.inputs[2].buffer
        refused: list[tuple[str, type[Exception], Callable[[], Any]]] = [
            ("ML303", IndexError, lambda: ops.allgather([a], [signal], 2)),
            ("ML302", TypeError, lambda: ops.allgather([a], [signal], "0")),  # type: ignore[arg-type]
            ("ML303", IndexError, lambda: ops.allgather([a[0, 0]], [signal])),
            ("ML776", TypeError, lambda: ops.allgather([a], [a])),  # type: ignore[list-item]
            ("ML106", ValueError, lambda: ops.allreduce.sum([flags], [signal])),
        ]
        for code, kind, call in refused:
            with pytest.raises(kind) as caught:
                call()
            assert isinstance(caught.value, MaxlabError)
            assert caught.value.code == code

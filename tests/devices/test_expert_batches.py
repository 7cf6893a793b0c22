"""The manager that brings tokens to the devices with their experts: its steps, what it takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from maxlab.dtype import DType
from maxlab.errors import (
    ArgumentError,
    DTypeError,
    ExecutionError,
    MaxlabError,
    ModuleError,
    ShapeError,
)
from maxlab.graph import DeviceRef, Graph, TensorType, ops
from maxlab.nn.comm.ep import EPBatchManager, EPConfig
from tests.devices.places import load, places, put, refs_of, taken

F32, I64 = DType.float32, DType.int64
REFS = [DeviceRef.CPU(0), DeviceRef.CPU(1)]
GIVEN: dict[str, Any] = {
    "dispatch_dtype": F32, "combine_dtype": F32, "hidden_size": 4, "top_k": 2, "n_experts": 5,
    "max_tokens_per_rank": None, "n_gpus_per_node": 2,
}  # fmt: skip


def manager(**more: Any) -> EPBatchManager:
    return EPBatchManager(EPConfig(**{**GIVEN, **more}))


def types(refs: list[DeviceRef], tokens: Any = None) -> list[TensorType]:
    return [
        type
        for n, ref in enumerate(refs)
        for type in (
            TensorType(F32, [tokens or f"n{n}", 4], ref),
            TensorType(I64, [tokens or f"n{n}", 2], ref),
        )
    ]


# ---------------------------------------------------------------- steps
@pytest.mark.parametrize("which", ["2 cpus", "2 gpus", "mixed"])
def test_vectors_go_to_their_experts_and_results_come_back(which: str) -> None:
    """An expert adds its number to what it gets; devices send in any order."""
    with places(which) as devices:
        refs, many = refs_of(devices), len(devices)
        own = manager(n_gpus_per_node=many)
        with Graph("experts", input_types=types(refs)) as graph:
            values = [value.tensor for value in graph.inputs]
            for n in reversed(range(many)):
                own.ep_dispatch_async(values[2 * n], values[2 * n + 1], n)
            got = [own.received(n) for n in range(many)]
            for n in reversed(range(many)):
                expert = got[n].indices.cast(F32) + own.config.experts_of(n).start
                own.ep_combine_async(got[n].rows + ops.gather(expert, got[n].order, 0), n)
            graph.output(*(own.ep_combine_wait(n) for n in range(many)))
        rng = np.random.default_rng(3)
        given, wanted = [], []
        for n, device in enumerate(devices):
            x = rng.normal(size=(n * 2 + 1, 4)).astype(np.float32)
            ids = rng.integers(0, 5, (len(x), 2))
            given += [put(x, device), put(ids, device)]
            wanted.append(x[:, None] + ids[..., None].astype(np.float32))
        for y, one in zip(load(graph, devices)(*given), wanted, strict=True):
            np.testing.assert_allclose(taken(y), one, rtol=1e-6)


def test_steps_out_of_order() -> None:
    own = manager()
    with pytest.raises(ModuleError, match=r"no graph.*ML522"):
        own.counts(0)
    with Graph("experts", input_types=types(REFS)) as graph:
        x, ids, y, more = (value.tensor for value in graph.inputs)

        def refused(call: Any, *args: Any) -> None:
            with pytest.raises(ModuleError, match="ML522"):
                call(*args)

        refused(own.ep_dispatch_wait, 0)
        refused(own.counts, 0)
        own.ep_dispatch_async(x, ids, 0)
        refused(own.ep_dispatch_async, x, ids, 0)
        refused(own.ep_dispatch_wait, 0)
        refused(own.ep_combine_wait, 0)
        own.ep_dispatch_async(y, more, 1)
        refused(own.ep_combine_async, x, 0)
        rows = own.ep_dispatch_wait(0)[0]
        refused(own.ep_dispatch_wait, 0)
        own.ep_combine_async(rows, 0)
        refused(own.ep_combine_wait, 0)
        own.ep_combine_async(own.ep_dispatch_wait(1)[0], 1)
        made = own.ep_combine_wait(1)
        refused(own.ep_combine_wait, 1)
        graph.output(made, own.ep_combine_wait(0))
        refused(own.ep_combine_wait, 0)


def test_values_that_do_not_fit() -> None:
    own = manager()
    with Graph("experts", input_types=types(REFS)) as graph:
        x, ids, y, more = (value.tensor for value in graph.inputs)
        for number in (-1, 2, True, "0"):
            with pytest.raises(ArgumentError, match="ML521"):
                own.ep_dispatch_async(x, ids, number)  # type: ignore[arg-type]
        for wrong in ((ids, x), (x, more), (x, ids[:, :1]), (x[:, :2], ids)):
            with pytest.raises(ShapeError, match="ML659"):
                own.ep_dispatch_async(*wrong, 0)
        own.ep_dispatch_async(x, ids, 0)
        own.ep_dispatch_async(y, more, 1)
        rows = [own.ep_dispatch_wait(n)[0] for n in range(2)]
        with pytest.raises(ShapeError, match="ML659"):
            own.ep_combine_async(rows[1], 0)
        for n in range(2):
            own.ep_combine_async(rows[n], n)
        with pytest.raises(ShapeError, match="ML659"):
            own.ep_combine_wait(0, ids[:, :1].cast(F32))
        graph.output(own.ep_combine_wait(0, ids.cast(F32)))


# ---------------------------------------------------------------- room
def test_more_tokens_than_a_device_may_have() -> None:
    with Graph("experts", input_types=types(REFS, 4)) as graph:
        x, ids, *_ = (value.tensor for value in graph.inputs)
        with pytest.raises(ArgumentError, match=r"max_tokens_per_rank=3.*ML525"):
            manager(max_tokens_per_rank=3).ep_dispatch_async(x, ids, 0)
        manager(max_tokens_per_rank=4).ep_dispatch_async(x, ids, 0)
    own = manager(max_tokens_per_rank=3)
    with places("2 cpus") as devices:
        with Graph("experts", input_types=types(refs_of(devices))) as graph:
            values = [value.tensor for value in graph.inputs]
            for n in range(2):
                own.ep_dispatch_async(values[2 * n], values[2 * n + 1], n)
            for n in range(2):
                own.ep_combine_async(own.ep_dispatch_wait(n)[0], n)
            graph.output(*(own.ep_combine_wait(n) for n in range(2)))
        model = load(graph, devices)

        def run(*counts: int) -> list[Any]:
            given: list[Any] = []
            for count, device in zip(counts, devices, strict=True):
                given.append(put(np.ones((count, 4), np.float32), device))
                given.append(put(np.zeros((count, 2), np.int64), device))
            return [taken(y).shape for y in model(*given)]

        assert run(3, 0) == [(3, 2, 4), (0, 2, 4)]
        with pytest.raises(ExecutionError, match=r"device 1.*max_tokens_per_rank=3.*ML727"):
            run(2, 4)
        assert run(1, 3) == [(1, 2, 4), (3, 2, 4)]


def test_an_expert_that_is_not_there_ends_the_run() -> None:
    own = manager()
    with places("2 cpus") as devices:
        with Graph("experts", input_types=types(refs_of(devices))) as graph:
            values = [value.tensor for value in graph.inputs]
            for n in range(2):
                own.ep_dispatch_async(values[2 * n], values[2 * n + 1], n)
            graph.output(*(own.ep_dispatch_wait(n)[0] for n in range(2)))
        model = load(graph, devices)
        x = np.ones((1, 4), np.float32)
        for bad in (5, -1):
            ids = [np.array([[0, 1]]), np.array([[bad, 1]])]
            with pytest.raises(MaxlabError, match="ML652|ML727"):
                model(
                    *(
                        put(a, device)
                        for device, one in zip(devices, ids, strict=True)
                        for a in (x, one)
                    )
                )


# ---------------------------------------------------------------- configurations
@pytest.mark.parametrize(
    ("more", "kind", "code"),
    [
        ({"hidden_size": 0}, ArgumentError, "ML716"),
        ({"max_tokens_per_rank": 0}, ArgumentError, "ML716"),
        ({"n_gpus_per_node": True}, ArgumentError, "ML716"),
        ({"top_k": 6}, ArgumentError, "ML675"),
        ({"dispatch_dtype": DType.float8_e4m3fn}, DTypeError, "ML666"),
        ({"combine_dtype": DType.int32}, DTypeError, "ML666"),
        ({"n_nodes": 2}, ModuleError, "ML526"),
        ({"n_gpus_per_node": 6}, ShapeError, "ML798"),
    ],
)
def test_what_cannot_be(more: dict[str, Any], kind: type[Exception], code: str) -> None:
    with pytest.raises(kind, match=code):
        manager(**more)

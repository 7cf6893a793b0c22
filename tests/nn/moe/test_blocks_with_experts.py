"""Transformers whose experts are divided among devices, with heads that are divided too, or with
texts of their own on each device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from maxlab import nn
from maxlab.dtype import DType
from maxlab.graph import DeviceRef, Graph, ShardingStrategy, TensorType, TensorValue, ops
from maxlab.nn.transformer import DistributedTransformerBlock
from maxlab.nn.transformer.layer_groups import called, subgraph_of
from tests.devices.places import load, places, put, refs_of, signal_types, signals, taken
from tests.nn.moe.test_moe import layer, looped
from tests.nn.running import Array, filled, random

F32, CPU, HIDDEN, CHOSEN = DType.float32, DeviceRef.CPU(), 16, 3


class Mixing(nn.Module):
    """In the place of attention: each device gives a part, or all, of the reversed rows."""

    def __init__(self, refs: Sequence[DeviceRef], kind: str) -> None:
        self.refs, self.kind = list(refs), kind
        self.sharding_strategy = getattr(ShardingStrategy, kind)(len(refs))

    def __call__(self, idx: Any, xs: Sequence[TensorValue], *rest: Any) -> list[TensorValue]:
        return [x[::-1] * 0.5 for x in xs]


def block(refs: Sequence[DeviceRef], kind: str) -> DistributedTransformerBlock:
    return DistributedTransformerBlock(
        attention=Mixing(refs, kind),
        mlp=layer(CPU, num_experts=7, ep_size=len(refs)),
        attention_norm=nn.RMSNorm(HIDDEN),
        mlp_norm=nn.RMSNorm(HIDDEN),
        devices=list(refs),
    )


def wanted(state: dict[str, Any], x: Array) -> Array:
    def normed(rows: Array, name: str) -> Array:
        size: Array = np.sqrt((rows**2).mean(1, keepdims=True) + 1e-6)
        made: Array = rows / size * state[f"{name}.weight"]
        return made

    own = {name.removeprefix("mlp."): one for name, one in state.items() if name[:4] == "mlp."}
    x = x + normed(x, "input_layernorm")[::-1] * 0.5
    made, _ = looped(own, normed(x, "post_attention_layernorm").astype(np.float32), CHOSEN, False)
    found: Array = x + made
    return found


@pytest.mark.parametrize(
    ("kind", "counts", "in_subgraph"),
    [
        ("replicate", (5, 0, 2), False),
        ("rowwise", (4, 4, 4), False),
        ("rowwise", (4, 4, 4), True),
    ],
)
def test_blocks_are_those_of_one_device(
    kind: str, counts: tuple[int, ...], in_subgraph: bool
) -> None:
    with places("3 cpus") as devices:
        refs = refs_of(devices)
        blocks = nn.LayerList([block(refs, kind) for _ in range(2)])

        class Model(nn.Module):
            def __init__(self) -> None:
                self.layers = blocks

            def __call__(self, xs: list[TensorValue], buffers: Any) -> list[TensorValue]:
                sub = None
                for one in blocks:
                    given: list[Any] = [ops.constant(0, DType.uint32, CPU), xs, buffers, [], [], []]
                    if in_subgraph:
                        sub = sub or subgraph_of(one, given)
                        xs = [y.tensor for y in called(sub, one, given)]
                    else:
                        xs = one(*given)
                return xs

        model = Model()
        state = {name: one * 0.5 for name, one in filled(model).items()}
        names = [f"n{n}" if kind == "replicate" else "n" for n in range(3)]
        types: list[Any] = [
            TensorType(F32, [n, HIDDEN], ref) for n, ref in zip(names, refs, strict=True)
        ]
        with Graph("blocks", input_types=[*types, *signal_types(refs)]) as graph:
            xs = [value.tensor for value in graph.inputs[:3]]
            buffers = [value.buffer for value in graph.inputs[3:]]
            graph.output(*model(xs, buffers))
        found = load(graph, devices, **state)
        x = [random(count, HIDDEN) for count in counts]
        x = x if kind == "replicate" else x[:1] * 3
        ys = found(*map(put, x, devices), *signals(devices))
        for rows, y in zip(x, ys, strict=True):
            for n in range(2):
                own = {
                    name.removeprefix(f"layers.{n}."): one
                    for name, one in state.items()
                    if name.startswith(f"layers.{n}.")
                }
                rows = wanted(own, rows) if len(rows) else rows
            np.testing.assert_allclose(taken(y), rows, rtol=1e-4, atol=1e-4)

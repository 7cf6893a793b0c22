"""Rare inputs of graphs and models: masks, second outputs, ranks, sizes and names."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from maxlab import engine
from maxlab.dtype import DType
from maxlab.errors import (
    ArgumentError,
    ArgumentTypeError,
    DeviceError,
    ExecutionError,
    MaxlabError,
    ShapeError,
)
from maxlab.graph import DeviceRef, Dim, Graph, TensorType, Weight, ops

F32, CPU = DType.float32, DeviceRef.CPU()
ROW = TensorType(F32, ["n"])


def mk(forward: Callable[..., Any], *types: TensorType, **options: Any) -> engine.Model:
    """The model of the graph that ``forward`` builds."""
    graph = Graph("g", forward, types)
    return engine.InferenceSession(num_threads=1).load(graph, **options)


def masked() -> Any:
    return np.ma.masked_array(np.ones(3, np.float32), [False, True, False])


# ---------------------------------------------------------------- masks
MASKED: dict[str, Callable[[], Any]] = {
    "input": lambda: mk(lambda x: x * 2, ROW)(masked()),
    "execute": lambda: mk(lambda x: x * 2, ROW).execute(masked()),
    "constant": lambda: mk(lambda: ops.constant(masked(), F32, CPU)),
    "constant without a dtype": lambda: mk(lambda: ops.constant(masked())),
    "operand": lambda: mk(lambda x: x + masked(), TensorType(F32, [3])),
    "output": lambda: mk(masked),
    "weight": lambda: mk(
        lambda x: x + Weight("w", F32, [3]), TensorType(F32, [3]), weights_registry={"w": masked()}
    ),
    "right operand": lambda: mk(
        lambda x: x @ Weight("w", F32, [3, 1]),
        TensorType(F32, [2, 3]),
        weights_registry={"w": masked()[:, None]},
    ),
}


@pytest.mark.parametrize("where", MASKED)
def test_a_mask_is_not_lost(where: str) -> None:
    with pytest.raises(MaxlabError, match=r"filled\(") as caught:
        MASKED[where]()
    assert "mask" in caught.value.what


# ---------------------------------------------------------------- second outputs
def test_a_second_output_says_that_it_replaces_the_first() -> None:
    with Graph("g", input_types=[ROW]) as graph:
        x = graph.inputs[0].tensor
        graph.output(x)
        with pytest.warns(UserWarning, match=r"test_rare_inputs\.py:\d+") as told:
            graph.output(x * 2)
    assert len(told) == 1
    assert str(told[0].message).count("test_rare_inputs.py:") == 2  # both lines
    assert told[0].filename.endswith("test_rare_inputs.py")


def test_one_output_is_quiet() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Graph("g", lambda x: x * 2, [ROW])


# ---------------------------------------------------------------- ranks
@pytest.mark.parametrize("rank", [32, 33, 64, 65, 1000])
def test_rank(rank: int) -> None:
    x = np.ones((1,) * min(rank, 64), np.float32)

    def runs() -> None:
        model = mk(lambda x: x * 2, TensorType(F32, [1] * rank))
        (y,) = model(x)
        assert y.to_numpy().shape == x.shape

    def makes() -> None:
        mk(lambda x: ops.reshape(x, ["n"] + [1] * (rank - 1)) * 2, ROW)(x.reshape(-1))

    for act in (runs, makes):
        if rank <= 32:
            act()
        else:
            with pytest.raises(ShapeError, match="rank") as caught:
                act()
            assert caught.value.fix


# ---------------------------------------------------------------- sizes
ONE = TensorType(F32, [1, 1])
LONG = TensorType(F32, ["n", 0])
SIZES: dict[str, Callable[[], Any]] = {
    "static": lambda: TensorType(F32, [2**62]),
    "past int64": lambda: TensorType(F32, [2**63]),
    "product": lambda: TensorType(F32, [2**40, 2**40]),
    "beside none": lambda: TensorType(F32, [2**32, 2**32, 0]),
    "reshape": lambda: mk(lambda x: ops.reshape(x, [2**32, 2**32, 0]), TensorType(F32, [0])),
    "broadcast": lambda: mk(lambda x: ops.broadcast_to(x, [2**63, 1]), ONE)(np.zeros((1, 1))),
    "concat": lambda: mk(lambda x: ops.concat([ops.broadcast_to(x, [2**60, 1])] * 8), ONE),
    "tile": lambda: mk(lambda x: ops.tile(x, [2**64, 1]), ONE),
    "pad": lambda: mk(lambda x: ops.pad(x, [2**62, 2**62, 0, 0]), ONE),
    "range": lambda: mk(lambda x: ops.range(0, 2**62, 1, dtype=DType.int64, device=CPU), ONE),
    "hann window": lambda: mk(lambda: ops.hann_window(2**62, CPU)),
    "flattened": lambda: TensorType(F32, [2**21] * 3 + [0]),
    "weight": lambda: Weight("w", F32, [2**40, 2**40]),
    "bits": lambda: TensorType(DType.float64, [2**60]),
}


@pytest.mark.parametrize("where", SIZES)
def test_static_sizes_that_no_memory_has(where: str) -> None:
    with pytest.raises((ShapeError, ArgumentError, ArgumentTypeError)) as caught:
        SIZES[where]()
    assert caught.value.fix


RUNS: dict[str, tuple[Callable[[Any], Any], int]] = {
    "n * n": (lambda x: ops.broadcast_to(ops.sum(x, 1), ["n", "n"]), 2**40),
    "n * n beside none": (
        lambda x: ops.reshape(x, ["n", 1, 0]) + ops.reshape(x, [1, "n", 0]), 2**40,
    ),
    "n * n made and reduced": (lambda x: ops.sum(ops.sum(x, 1) + ops.sum(x, 1).T, 0), 2**40),
    "n * 2**62": (lambda x: ops.broadcast_to(ops.sum(x, 1), [2**61, "n", 1]), 2**30),
    "n * 8": (lambda x: ops.broadcast_to(ops.sum(x, 1), ["n", 8]), 2**60),
    "n * n as a number": (
        lambda x: ops.shape_to_tensor([Dim("n") * Dim("n") * Dim("n")]), 2**40,
    ),
    "n values": (lambda x: ops.range(0, Dim("n"), 1, dtype=DType.int64, device=CPU), 2**60),
}  # fmt: skip


@pytest.mark.parametrize("where", RUNS)
def test_sizes_of_a_run_that_no_memory_has(where: str) -> None:
    forward, size = RUNS[where]
    with pytest.raises((ShapeError, ExecutionError, DeviceError)) as caught:
        mk(forward, LONG)(np.zeros((size, 0), np.float32))
    assert caught.value.fix


# ---------------------------------------------------------------- names
@pytest.mark.parametrize(
    "name", ["a\0b", "a\nb", 'a"b', "'", "x" * 4096, "😀", "", "../x", "a/b", "%s{}", "`"],
    ids=lambda n: ascii(n)[:12],
)  # fmt: skip
def test_names_of_graphs_and_weights(name: str, tmp_path: Any) -> None:
    graph = Graph(name, lambda x: x + Weight(name or "w", F32, [3]), [TensorType(F32, [3])])
    ones = np.ones(3, np.float32)
    session = engine.InferenceSession(num_threads=1)
    (y,) = session.load(graph, weights_registry={name or "w": ones})(ones)
    assert y.to_numpy().tolist() == [2, 2, 2]
    graph.save(tmp_path / "graph.mlir")
    again = Graph(path=tmp_path / "graph.mlir")
    assert again.name == name
    assert str(again) == str(graph)


@pytest.mark.parametrize("name", ["\ud800", 5, None, b"g", ["g"]], ids=ascii)
def test_names_that_are_none(name: Any) -> None:
    for act in (
        lambda: Graph(name),
        lambda: Graph("g").add_subgraph(name),
        lambda: Weight(name, F32, [2]),
        lambda: Dim(name) if not isinstance(name, int) else Dim(None),  # type: ignore[arg-type]
    ):
        with pytest.raises(MaxlabError) as caught:
            act()
        str(caught.value).encode("utf-8")

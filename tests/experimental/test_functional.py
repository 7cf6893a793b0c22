"""Every function of ``functional``: on tensors it gives the same bits as on values of a graph."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from maxlab import driver, engine
from maxlab.driver import CPU
from maxlab.dtype import DType
from maxlab.errors import MaxlabError
from maxlab.experimental import functional as F  # noqa: N812 - as everybody calls it
from maxlab.experimental import tracing
from maxlab.experimental.recording import every
from maxlab.experimental.tensor import Tensor
from maxlab.graph import DeviceRef, Graph, TensorType, TensorValue, Value, ops
from maxlab.ir import Dim

_numbers = np.random.default_rng(5)


def _floats(*shape: int) -> np.ndarray[Any, Any]:
    return (_numbers.random(shape) * 1.8 - 0.9).astype(np.float32)


GIVEN: dict[str, np.ndarray[Any, Any]] = {
    "x": _floats(2, 4),
    "y": _floats(2, 4),
    "positive": np.abs(_floats(2, 4)),
    "v": _floats(4),
    "w": _floats(4, 3),
    "i": np.array([1, 0], np.int64),
    "pairs": np.array([[0, 1], [1, 2]], np.int64),
    "b": _numbers.random((2, 4)) < 0.5,
    "c": _numbers.random((2, 4)) < 0.5,
    "image": _floats(1, 6, 6, 2),
    "filter": _floats(3, 3, 2, 3),
    "back": _floats(3, 3, 3, 2),
    "volume": _floats(1, 4, 4, 4, 2),
    "filter3": _floats(2, 2, 2, 2, 3),
    "columns": _floats(1, 8, 9),
    "few": np.array([3.5, 4.5], np.float32),
    "whole": np.array([2, 3], np.int64),
    "wide": np.array([0.9, 0.8]),
    "seeds": np.array([3, 9], np.uint64),
    "ids": np.array([1, 0, 1], np.int32),
    "experts": _floats(2, 3, 4),
}
F32, I64, HOST = DType.float32, DType.int64, DeviceRef.CPU()
Call = Callable[[Any], Any]

ELEMENTWISE = (
    "abs atanh cos erf exp floor gelu is_inf is_nan negate relu round sigmoid silu sin softmax "
    "logsoftmax tanh trunc sum mean argmax argmin cumsum flatten"
)
BINARY = "add sub mul div mod equal not_equal greater greater_equal max min"


def _of(name: str, *given: str) -> Call:
    """The call of the function ``name`` on what is called ``given``."""
    return lambda g: getattr(F, name)(*[getattr(g, one) for one in given])


def _grouped(g: Any) -> Any:
    """The product of each of three rows with the matrix of its expert."""
    _, starts, _, experts, usage = F.expert_indices(g.ids, 2)
    return F.grouped_matmul(F.concat([g.x, g.y[:1]], axis=0), g.experts, starts, experts, usage)


CALLS: dict[str, Call] = {
    **{name: _of(name, "x") for name in ELEMENTWISE.split()},
    **{name: _of(name, "positive") for name in ("log", "log1p", "rsqrt", "sqrt")},
    **{name: _of(name, "x", "y") for name in BINARY.split()},
    **{name: _of(name, "b", "c") for name in ("logical_and", "logical_or", "logical_xor")},
    "argsort": lambda g: F.argsort(g.v),
    "as_interleaved_complex": lambda g: F.as_interleaved_complex(g.x),
    "avg_pool2d": lambda g: F.avg_pool2d(g.image, (2, 2), stride=2),
    "band_part": lambda g: F.band_part(g.w, num_lower=1, num_upper=0),
    "bitcast": lambda g: F.bitcast(g.x, DType.uint8),
    "broadcast_to": lambda g: F.broadcast_to(g.v, (3, 4)),
    "cast": lambda g: F.cast(g.x, DType.float64),
    "chunk": lambda g: F.chunk(g.x, 2, axis=1),
    "concat": lambda g: F.concat([g.x, g.y], axis=1),
    "constant": lambda g: F.constant([1.0, 2.0], F32, HOST) + g.few,
    "conv2d": lambda g: F.conv2d(g.image, g.filter, padding=(1, 1, 1, 1)),
    "conv2d_transpose": lambda g: F.conv2d_transpose(g.image, g.back, stride=(2, 2)),
    "conv3d": lambda g: F.conv3d(g.volume, g.filter3),
    "custom": lambda g: F.custom("trice", HOST, [g.v], [TensorType(F32, [4])])[0],
    "fold": lambda g: F.fold(g.columns, (4, 4), (2, 2)),
    "expert_indices": lambda g: F.expert_indices(g.ids, 2),
    "gather": lambda g: F.gather(g.x, g.i, 0),
    "gather_nd": lambda g: F.gather_nd(g.x, g.pairs),
    "grouped_matmul": _grouped,
    "hann_window": lambda g: F.hann_window(4, HOST) * g.v,
    "irfft": lambda g: F.irfft(F.reshape(g.image, (2, 36)), n=32),
    "layer_norm": lambda g: F.layer_norm(g.x, g.v, g.v, 1e-5),
    "logical_not": lambda g: F.logical_not(g.b),
    "matmul": lambda g: F.matmul(g.x, g.w),
    "max_pool2d": lambda g: F.max_pool2d(g.image, (3, 3)),
    "outer": lambda g: F.outer(g.v, g.few),
    "pad": lambda g: F.pad(g.x, [0, 1, 1, 0], value=2.5),
    "permute": lambda g: F.permute(g.image, [3, 1, 0, 2]),
    "pow": lambda g: F.pow(F.abs(g.x), g.y),
    "range": lambda g: F.range(0, 4, dtype=F32, device=HOST) + g.v,
    "repeat_interleave": lambda g: F.repeat_interleave(g.x, 2, axis=1),
    "reshape": lambda g: F.reshape(g.x, (4, -1)),
    "sample_scores": lambda g: F.sample_scores(g.x, g.whole, g.wide, g.wide, g.wide * 0.1),
    "sample_token": lambda g: F.sample_token(
        g.x, g.whole, g.wide, g.wide, g.wide * 0.1, F.sample_uniform(g.seeds)[:, 0]
    ),
    "sample_uniform": lambda g: F.sample_uniform(g.seeds, 3),
    "scatter": lambda g: F.scatter(g.v, g.few, g.i, axis=0),
    "scatter_nd": lambda g: F.scatter_nd(g.x, g.few, g.pairs),
    "slice_tensor": lambda g: F.slice_tensor(g.x, [slice(None), slice(1, 3)]),
    "split": lambda g: F.split(g.x, [1, 3], axis=1),
    "squeeze": lambda g: F.squeeze(g.image, 0),
    "stack": lambda g: F.stack([g.x, g.y], axis=1),
    "tile": lambda g: F.tile(g.x, [2, 1]),
    "top_k": lambda g: F.top_k(g.x, 2),
    "transfer_to": lambda g: F.transfer_to(g.x, CPU()) + 0.5,
    "transpose": lambda g: F.transpose(g.x, 0, 1),
    "unsqueeze": lambda g: F.unsqueeze(g.x, 1),
    "where": lambda g: F.where(g.b, g.x, g.y),
}
SIZED: dict[str, Call] = {
    "nonzero": lambda g: F.nonzero(g.x > 0, "count"),
    "masked_scatter": lambda g: F.masked_scatter(
        g.x, g.b, F.flatten(g.y)[: GIVEN["b"].sum()], "left"
    ),
}
"""Functions whose results have a size that only a run tells; tensors are computed at once."""
OTHERS = {
    *("functional", "buffer_store", "buffer_store_slice", "constant_external"),
    *("ragged_attention", "ragged_sequences", "lora_product", "latent_attention"),
    *("latent_chunk", "latent_expand", "latent_load", "sample_count", "sample_penalise"),
}
"""Names that other tests use."""

KERNEL = """
// @op trice(x: float32[n]) -> (y: float32[n])
// @both
store(y, i, 3 * load(x, i));
"""
F.kernel_library.add_source(KERNEL)


def tensors() -> SimpleNamespace:
    """What functions are given."""
    return SimpleNamespace(**{n: Tensor.from_dlpack(a.copy()) for n, a in GIVEN.items()})


def in_a_graph(call: Call) -> list[np.ndarray[Any, Any]]:
    """What ``call`` gives in a graph."""
    types = [TensorType(DType.from_numpy(a.dtype), a.shape) for a in GIVEN.values()]
    with Graph("g", input_types=types, custom_extensions=[KERNEL]) as graph:
        made = every([call(SimpleNamespace(**dict(zip(GIVEN, graph.inputs, strict=True))))])
        assert all(isinstance(one, TensorValue) for one in made)
        graph.output(*made)
    outputs = engine.InferenceSession().load(graph).execute(*GIVEN.values())
    return [one.to_numpy() for one in outputs]


@pytest.mark.parametrize("name", [*CALLS, *SIZED])
def test_a_function_gives_what_it_gives_in_a_graph(name: str) -> None:
    call = CALLS.get(name) or SIZED[name]
    wanted = in_a_graph(call)
    for _ in range(2):  # a structure that is new, and one that was seen
        made = every([call(tensors())])
        assert all(isinstance(one, Tensor) for one in made)
        if name in CALLS:
            assert not any(one.real for one in made)
        for one, array in zip(made, wanted, strict=True):
            assert tuple(one.shape) == array.shape
            assert one.dtype.to_numpy() == array.dtype
            assert one.numpy().tobytes() == array.tobytes()


def test_every_function_has_a_call() -> None:
    """A function of ``graph.ops`` that tensors have is in one of the tables."""
    composed = {"assert_same_device", "acos", "kernel_library", "qmatmul", "dequantize", "rebind"}
    known = {
        *CALLS,
        *SIZED,
        *OTHERS,
        *composed,
        "matmul_blocks",
        "matmul_float8",
        "matmul_float8_ragged",
        "matmul_groups",
        "matmul_int8",
        "resize",
        "shape_to_tensor",
    }
    assert set(F.__all__) - known == set()


def test_ragged_batches() -> None:
    """Two sequences one behind the other are those that each is alone."""
    rng = np.random.default_rng(1)
    q, k, v = (rng.standard_normal((5, heads, 4)).astype(np.float32) for heads in (4, 2, 2))

    def attended(first: int, end: int, *offsets: int) -> np.ndarray[Any, Any]:
        given = [Tensor.from_dlpack(one[first:end].copy()) for one in (q, k, v)]
        ends = Tensor.from_dlpack(np.array(offsets, np.uint32))
        made = F.ragged_attention(*given, ends, scale=0.5)
        whose = F.ragged_sequences(ends, end - first).numpy()
        assert whose.tolist() == np.repeat(range(len(offsets) - 1), np.diff(offsets)).tolist()
        return np.asarray(made.numpy())

    alone = np.concatenate([attended(0, 2, 0, 2), attended(2, 5, 0, 3)])
    np.testing.assert_allclose(attended(0, 5, 0, 2, 5), alone, rtol=1e-5, atol=1e-6)


def test_rows_of_adapters() -> None:
    """Two rows of an adapter, and two of the base."""
    x, w = np.ones((4, 2), np.float32), np.array([[[1, 2]], [[10, 20]]], np.float32)
    ids = Tensor.from_dlpack(np.array([1, -1], np.int32))
    ranks, bounds = (Tensor.from_dlpack(np.array(each, np.uint32)) for each in ([1, 0], [0, 2, 4]))
    made = F.lora_product(Tensor.from_dlpack(x), Tensor.from_dlpack(w), ids, ranks, bounds)
    assert made.numpy()[:, 0].tolist() == [30, 30, 0, 0]


def test_what_a_function_of_the_user_gives() -> None:
    """Lists, tuples, dicts and other results stay what they are; tensors may be anywhere among the
    arguments."""

    @F.functional
    def both(pair: list[Any], *, by: dict[str, Any]) -> Any:
        total = ops.add(*pair)
        return {"sum": total, "scaled": (ops.mul(total, by["factor"]), [total - 1]), "count": 2}

    g = tensors()
    made = both([g.x, g.y], by={"factor": g.v})
    wanted = GIVEN["x"] + GIVEN["y"]
    assert made["count"] == 2
    np.testing.assert_array_equal(made["sum"], wanted)
    np.testing.assert_array_equal(made["scaled"][0], wanted * GIVEN["v"])
    np.testing.assert_array_equal(made["scaled"][1][0], wanted - 1)
    states = tracing.forest.count
    both([g.x, g.y], by={"factor": g.v})
    assert tracing.forest.count == states, "the same call was not seen before"


def test_a_function_of_the_user_may_change_its_mind() -> None:
    """What it reads besides its arguments is read at each call."""
    factor = 2.0
    kept = Tensor.constant([1.0, 2.0, 3.0, 4.0])

    @F.functional
    def scaled(x: Any) -> Any:
        return x * factor + kept

    x = Tensor.ones((4,))
    assert scaled(x).tolist() == [3, 4, 5, 6]
    factor = 5.0
    kept = kept * 2
    assert scaled(x).tolist() == [7, 9, 11, 13]


def test_a_custom_op_is_the_one_that_is_declared_now() -> None:
    """A library that gets another text makes tensors with it."""
    op = "// @op mine(x: float32[n]) -> (y: float32[n])\n// @both\nstore(y, i, {} * load(x, i));"
    x = Tensor.constant([1.0, 2.0])
    type = TensorType(F32, [2])
    with pytest.raises(MaxlabError, match="no custom op 'mine'"):
        F.custom("mine", HOST, [x], [type])
    F.kernel_library.add_source(op.format(2))
    assert F.custom("mine", HOST, [x], [type])[0].tolist() == [2, 4]


def test_values_and_tensors_together() -> None:
    """In a graph that is being built, a tensor beside a value is a constant of it."""
    kept = Tensor.ones((3,)) * 2
    with Graph("g", input_types=[TensorType(F32, ["n", 3])]) as graph:
        (x,) = graph.inputs
        assert isinstance(F.add(x, kept), Value)
        added: object = kept + x.tensor
        assert isinstance(added, Value)
        assert isinstance(F.relu(kept), Tensor)  # of tensors alone it is no part of the graph
        graph.output(x.tensor * kept, F.range(0, Dim("n"), dtype=I64, device=HOST))
    made = engine.InferenceSession().load(graph)(np.ones((2, 3), np.float32))
    assert made[0].tolist() == [[2, 2, 2], [2, 2, 2]]


def test_weights_have_no_data_outside_of_a_graph() -> None:
    """What only a registry of weights has cannot be read."""
    outside = F.constant_external("w", TensorType(F32, [2]))
    with pytest.raises(MaxlabError, match="not in the weights registry"):
        outside.numpy()


def test_functions_on_a_gpu() -> None:
    """A simulated GPU computes what tensors on it are in; a number beside them is there too."""
    with driver.simulated():
        gpu = driver.Accelerator()
        x = Tensor.from_dlpack(GIVEN["x"].copy()).to(gpu)
        for factor in (2.0, 3.0, 4.0):
            made = F.relu(x * factor + 1)
            assert made.device is gpu
            wanted = np.maximum(GIVEN["x"] * np.float32(factor) + 1, 0)
            np.testing.assert_allclose(made.to(CPU()).numpy(), wanted, rtol=1e-6)
            assert made.tolist() == made.to(CPU()).tolist()
        with pytest.raises(MaxlabError, match="device"):
            x + Tensor.ones((2, 4), dtype=F32, device=CPU())

"""Rotated queries beside products of complex numbers, on the CPU and on a simulated GPU."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from maxlab import engine
from maxlab.dtype import DType
from maxlab.errors import DTypeError, ExecutionError, ShapeError
from maxlab.graph import DeviceRef, Graph, TensorType
from maxlab.nn import rotary_embedding as rope
from maxlab.nn.rotary_embedding.rotation import at_positions, rotated
from tests import cpu_and_gpu
from tests.nn.rope import formulas

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(11)
F32, I64 = DType.float32, DType.int64


def random(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("interleaved", [True, False])
def test_rotated(place: DeviceRef, interleaved: bool) -> None:
    """Both ranks, a start from a tensor, and given positions, in one model."""
    layer = rope.RotaryEmbedding(24, 3, 100.0, 16, interleaved=interleaved)
    types = [
        TensorType(F32, ["batch", "seq", 3, 8], place),
        TensorType(I64, [], place),
        TensorType(I64, ["batch", "seq"], place),
    ]
    with Graph("turned", input_types=types) as graph:
        x, start, positions = (value.tensor for value in graph.inputs)
        graph.output(
            layer(x),
            layer(x, start),
            layer(x, 7, x.shape[1]),
            layer(x, position_ids=positions),
            layer(x[0], position_ids=positions[0]),
        )
    model = cpu_and_gpu.session(place).load(graph)
    queries = random(2, 5, 3, 8)
    at = np.array([[3, 1, 31, 0, 4], [9, 8, 7, 6, 5]], np.int64)
    given = [cpu_and_gpu.at(array, place) for array in (queries, np.array(4, np.int64), at)]
    found = [cpu_and_gpu.numpy(y) for y in model(*given)]

    def want(rows: Any) -> Array:
        frequencies = formulas.plain(8, 100.0)
        both = [formulas.table(frequencies, row) for row in rows]
        return np.stack(
            [formulas.turned(x, t, interleaved) for x, t in zip(queries, both, strict=True)]
        )

    steps = np.tile(np.arange(5), (2, 1))
    wanted = [want(steps), want(steps + 4), want(steps + 7), want(at), want(at)[0]]
    for y, expected in zip(found, wanted, strict=True):
        assert y.dtype == np.float32
        assert np.allclose(y, expected, atol=2e-5)


def test_sections_follow_positions_of_their_own(place: DeviceRef) -> None:
    layer = rope.RotaryEmbedding(16, 1, 1000.0, 32, interleaved=False)
    types = [TensorType(F32, ["tokens", 1, 16], place), TensorType(I64, [3, "tokens"], place)]
    with Graph("sections", input_types=types) as graph:
        x, positions = (value.tensor for value in graph.inputs)
        graph.output(layer(x, position_ids=positions, mrope_section=[2, 3, 3]))
    queries, at = random(4, 1, 16), RNG.integers(0, 64, (3, 4))
    model = cpu_and_gpu.session(place).load(graph)
    (found,) = model(cpu_and_gpu.at(queries, place), cpu_and_gpu.at(at, place))
    sets = [formulas.table(formulas.plain(16, 1000.0), row) for row in at]
    table = np.concatenate([sets[0][:, :2], sets[1][:, 2:5], sets[2][:, 5:]], axis=1)
    assert np.allclose(cpu_and_gpu.numpy(found), formulas.turned(queries, table, False), atol=2e-5)


def test_dynamic_frequencies_turn_what_a_run_brings(place: DeviceRef) -> None:
    layer = rope.DynamicRotaryEmbedding(8, 1, 1e4, 4, interleaved=False)
    types = [TensorType(F32, ["tokens", 1, 8], place), TensorType(I64, ["tokens"], place)]
    with Graph("dynamic", input_types=types) as graph:
        x, positions = (value.tensor for value in graph.inputs)
        layer.maybe_update_freqs(positions)
        graph.output(layer(x, position_ids=positions))
    model = cpu_and_gpu.session(place).load(graph)
    for last in (3, 4, 21):
        queries, at = random(2, 1, 8), np.array([0, last])
        (found,) = model(cpu_and_gpu.at(queries, place), cpu_and_gpu.at(at, place))
        frequencies = formulas.plain(8, 1e4 * (max(last + 1, 4) / 4) ** (8 / 6))
        want = formulas.turned(queries, formulas.table(frequencies, at), False)
        assert np.allclose(cpu_and_gpu.numpy(found), want, atol=2e-5)


def test_a_low_precision_is_turned_in_float32_and_rounded_once() -> None:
    layer = rope.RotaryEmbedding(8, 1, 100.0, 8)
    graph = Graph("bf16", layer, [TensorType(DType.bfloat16, ["tokens", 1, 8])])
    from maxlab.driver import Tensor

    x = random(5, 1, 8).astype(ml_dtypes.bfloat16)
    given = Tensor.from_numpy(x.view(np.uint16)).view(DType.bfloat16)
    (found,) = engine.InferenceSession().load(graph)(given)
    table = formulas.table(formulas.plain(8, 100.0), range(5)).astype(np.float32)
    want = formulas.turned(x.astype(np.float32), table, True).astype(ml_dtypes.bfloat16)
    same = found.to_ml_numpy().view(np.uint16) == want.view(np.uint16)
    assert found.dtype is DType.bfloat16
    assert same.mean() > 0.95  # the rest: halves that float32 and float64 round differently


def test_products_depend_on_distances_alone() -> None:
    """The reason for the rotation: q at i and k at j give what they give at i + n and j + n."""
    layer = rope.RotaryEmbedding(8, 1, 100.0, 64)
    with Graph("products", input_types=[TensorType(F32, [2, 1, 8])] * 2) as graph:
        q, k = (value.tensor for value in graph.inputs)
        for_all = [(layer(q, n), layer(k, n + 5)) for n in (0, 1, 40)]
        graph.output(*((a * b).sum(-1) for a, b in for_all))
    model = engine.InferenceSession().load(graph)
    found = [y.to_numpy() for y in model(random(2, 1, 8), random(2, 1, 8))]
    assert np.allclose(found[0], found[1], atol=1e-4)
    assert np.allclose(found[0], found[2], atol=1e-4)


def test_the_two_layouts_are_one_rotation_of_permuted_dimensions() -> None:
    neighbours = rope.RotaryEmbedding(8, 1, 100.0, 8, interleaved=True)
    halves = rope.RotaryEmbedding(8, 1, 100.0, 8, interleaved=False)
    with Graph("layouts", input_types=[TensorType(F32, [4, 1, 8])] * 2) as graph:
        graph.output(neighbours(graph.inputs[0].tensor), halves(graph.inputs[1].tensor))
    x, order = random(4, 1, 8), [0, 2, 4, 6, 1, 3, 5, 7]
    permuted = np.ascontiguousarray(x[..., order])
    a, b = (y.to_numpy() for y in engine.InferenceSession().load(graph)(x, permuted))
    assert np.allclose(a[..., order], b, atol=1e-6)
    assert not np.allclose(a, b)


def test_a_position_without_a_row_is_an_error_of_the_run() -> None:
    layer = rope.RotaryEmbedding(8, 1, 100.0, 8)
    graph = Graph("late", lambda x: layer(x, 14), [TensorType(F32, ["tokens", 1, 8])])
    model = engine.InferenceSession().load(graph)
    assert model(random(2, 1, 8))[0].shape == (2, 1, 8)
    with pytest.raises(ExecutionError):
        model(random(3, 1, 8))


@pytest.mark.parametrize(
    ("shape", "given"),
    [
        ([5, 8], {}),
        ([5, 1, 16], {}),
        ([5, 1, 4], {}),
        ([5, 1, 8], {"mrope_section": [2, 2]}),
        ([5, 1, 8], {"mrope_section": [2, 3], "position_ids": np.zeros((2, 5), np.int64)}),
        ([5, 1, 8], {"mrope_section": [4, 0], "position_ids": np.zeros((2, 5), np.int64)}),
        ([5, 1, 8], {"mrope_section": [2, 2], "position_ids": np.zeros((3, 5), np.int64)}),
    ],
)
def test_shapes_that_do_not_fit(shape: list[int], given: dict[str, Any]) -> None:
    layer = rope.RotaryEmbedding(8, 1, 100.0, 8)
    with Graph("g", input_types=[TensorType(F32, shape)]) as graph:
        with pytest.raises(ShapeError) as caught:
            layer(graph.inputs[0].tensor, **given)
        graph.output(graph.inputs[0])
    assert caught.value.code == "ML691"


def test_positions_are_integers() -> None:
    layer = rope.RotaryEmbedding(8, 1, 100.0, 8)
    with Graph("g", input_types=[TensorType(F32, [5, 1, 8]), TensorType(F32, [5])]) as graph:
        x, positions = (value.tensor for value in graph.inputs)
        with pytest.raises(DTypeError):
            layer(x, position_ids=positions)
        graph.output(x)


def test_the_parts_of_a_call_serve_kernels_too() -> None:
    layer = rope.RotaryEmbedding(8, 2, 100.0, 8)
    types = [TensorType(F32, ["tokens", 2, 4]), TensorType(I64, ["tokens"])]
    with Graph("parts", input_types=types) as graph:
        x, at = (value.tensor for value in graph.inputs)
        angles = at_positions(layer.freqs_cis_base(), at)
        graph.output(rotated(x, angles, True), layer(x, position_ids=at))
    one, other = engine.InferenceSession().load(graph)(random(3, 2, 4), np.array([5, 0, 9]))
    assert np.array_equal(one.to_numpy(), other.to_numpy())

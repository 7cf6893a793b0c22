"""Convolutions, pools, fold and resize through the public API: types, layouts, sizes, values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from maxlab import engine
from maxlab.driver import Tensor
from maxlab.dtype import DType
from maxlab.graph import ConvInputLayout, Dim, FilterLayout, Graph, TensorType, Weight, ops
from tests.graph.interpreter import run

Array = np.ndarray[Any, Any]
F32 = DType.float32
NCHW, NHWC = ConvInputLayout.NCHW, ConvInputLayout.NHWC


def numbers(*shape: int) -> Array:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


def graph_of(function: Any, *shapes: tuple[int | str, ...], dtype: DType = F32) -> Graph:
    with Graph("g", input_types=[TensorType(dtype, shape) for shape in shapes]) as graph:
        graph.output(function(*graph.inputs))
    return graph


def shape_of(graph: Graph) -> list[Dim]:
    (type,) = graph.output_types
    assert isinstance(type, TensorType)
    return list(type.shape)


def both(graph: Graph, *arrays: Array) -> Array:
    """What the compiled graph makes of ``arrays``, which is what the references say."""
    model = engine.InferenceSession().load(graph)
    (made,) = model.execute(*(Tensor.from_numpy(a) for a in arrays))
    (wanted,) = run(graph, *arrays)
    got = np.array(made.to_numpy())
    np.testing.assert_allclose(got, wanted, rtol=2e-4, atol=2e-4)
    return got


# ---------------------------------------------------------------- convolutions
def test_the_sizes_of_a_convolution() -> None:
    w = np.zeros((3, 5, 4, 8), np.float32)
    graph = graph_of(
        lambda x: ops.conv2d(x, w, stride=(2, 1), dilation=(1, 2), padding=(1, 0, 3, 4)),
        ("n", "h", 20, 4),
    )
    n, h = Dim("n"), Dim("h")
    assert shape_of(graph) == [n, (h - 2) // 2 + 1, Dim(20 + 7 - 9 + 1), Dim(8)]


def test_the_sizes_of_a_transposed_convolution() -> None:
    w = np.zeros((4, 3, 5, 2), np.float32)
    graph = graph_of(
        lambda x: ops.conv2d_transpose(x, w, stride=(2, 3), dilation=(1, 2), padding=(1, 1, 0, 2)),
        ("n", "h", 6, 2),
    )
    h = Dim("h")
    assert shape_of(graph) == [Dim("n"), (h - 1) * 2 + 4 - 2, Dim(5 * 3 + 5 - 2), Dim(5)]


@pytest.mark.parametrize("layout", [f for f in FilterLayout if len(f.name) == 4], ids=str)
@pytest.mark.parametrize("images", [NHWC, NCHW], ids=str)
def test_every_layout_computes_the_same(images: ConvInputLayout, layout: FilterLayout) -> None:
    x, w, bias = numbers(2, 7, 6, 4), numbers(3, 2, 4, 18), numbers(18)
    more: dict[str, Any] = {"stride": (2, 1), "padding": (1, 1, 0, 1)}
    plain = graph_of(lambda a: ops.conv2d(a, w, bias=bias, **more), x.shape)
    wanted = both(plain, x)
    given = x if images is NHWC else np.moveaxis(x, -1, 1).copy()
    turned = w.transpose(["RSCF".index(letter) for letter in layout.name]).copy()
    graph = graph_of(
        lambda a: ops.conv2d(
            a, turned, bias=bias, input_layout=images, filter_layout=layout, **more
        ),
        given.shape,
    )
    got = both(graph, given)
    got = got if images is NHWC else np.moveaxis(got, 1, -1)
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("layout", [f for f in FilterLayout if len(f.name) == 4], ids=str)
def test_every_layout_of_a_transposed_convolution(layout: FilterLayout) -> None:
    x, w = numbers(2, 4, 5, 3), numbers(3, 2, 6, 3)
    plain = graph_of(lambda a: ops.conv2d_transpose(a, w, stride=(2, 2)), x.shape)
    wanted = both(plain, x)
    turned = w.transpose(["RSCF".index(letter) for letter in layout.name]).copy()
    first = np.moveaxis(x, -1, 1).copy()
    graph = graph_of(
        lambda a: ops.conv2d_transpose(
            a, turned, stride=(2, 2), input_layout=NCHW, filter_layout=layout
        ),
        ("n", 3, "h", "w"),
    )
    np.testing.assert_allclose(np.moveaxis(both(graph, first), 1, -1), wanted, rtol=1e-4, atol=1e-4)


def test_the_layouts_of_a_convolution_of_volumes() -> None:
    x, w = numbers(1, 4, 5, 6, 3), numbers(2, 3, 2, 3, 16)
    wanted = both(graph_of(lambda a: ops.conv3d(a, w), x.shape), x)
    first, turned = np.moveaxis(x, -1, 1).copy(), w.transpose(4, 3, 0, 1, 2).copy()
    graph = graph_of(
        lambda a: ops.conv3d(a, turned, input_layout=NCHW, filter_layout=FilterLayout.FCQRS),
        ("n", 3, "d", "h", "w"),
    )
    np.testing.assert_allclose(np.moveaxis(both(graph, first), 1, -1), wanted, rtol=1e-4, atol=1e-4)


def test_a_transposed_convolution_is_the_gradient_of_a_convolution() -> None:
    """``<conv(a), b> == <a, transpose(b)>`` for the same filter and parameters."""
    a, b, w = numbers(1, 9, 8, 3), numbers(1, 5, 6, 4), numbers(3, 3, 3, 4)
    more: dict[str, Any] = {"stride": (2, 1), "padding": (1, 1, 0, 0)}
    forward = both(graph_of(lambda x: ops.conv2d(x, w, **more), a.shape), a)
    back = both(graph_of(lambda x: ops.conv2d_transpose(x, w, **more), b.shape), b)
    assert forward.shape == b.shape
    assert back.shape == a.shape
    np.testing.assert_allclose((forward * b).sum(), (a * back).sum(), rtol=1e-4)


def test_filters_may_be_weights_or_computed() -> None:
    x, w = numbers(1, 6, 6, 4), numbers(3, 3, 4, 32)
    weight = Weight("w", F32, [3, 3, 4, 32])
    with Graph("g", input_types=[TensorType(F32, x.shape), TensorType(F32, w.shape)]) as graph:
        a, b = (v.tensor for v in graph.inputs)
        graph.output(ops.conv2d(a, weight) - ops.conv2d(a, b * 1.0))
    model = engine.InferenceSession().load(graph, weights_registry={"w": w})
    (made,) = model.execute(Tensor.from_numpy(x), Tensor.from_numpy(w))
    np.testing.assert_array_equal(made.to_numpy(), 0)


def test_one_pixel_windows_are_products_with_what_follows() -> None:
    """A convolution that only mixes channels is one step with its bias and activation."""
    x, w, bias = numbers(2, 5, 5, 8), numbers(1, 1, 8, 24), numbers(24)
    graph = graph_of(lambda a: ops.relu(ops.conv2d(a, w, bias=bias)), ("n", "h", "w", 8))
    model = engine.InferenceSession().load(graph)
    assert [step.kind for step in model.plan.steps] == ["contract"]
    both(graph, x)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("size", [(1, 1), (3, 40), (33, 31), (64, 65)])
@pytest.mark.parametrize("first", [False, True])
def test_blocks_of_pixels_of_every_size(size: tuple[int, int], first: bool, threads: int) -> None:
    x, w = numbers(2, *size, 3), numbers(3, 3, 3, 20)
    x = np.moveaxis(x, -1, 1).copy() if first else x
    layout = FilterLayout.FCRS if first else FilterLayout.RSCF
    turned = w.transpose(3, 2, 0, 1).copy() if first else w
    for shape in (x.shape, ("n", 3, "h", "w") if first else ("n", "h", "w", 3)):
        graph = graph_of(
            lambda a: ops.conv2d(
                a,
                turned,
                padding=(1, 1, 1, 1),
                input_layout=NCHW if first else NHWC,
                filter_layout=layout,
            ),
            shape,
        )
        model = engine.InferenceSession(num_threads=threads).load(graph)
        (made,) = model.execute(Tensor.from_numpy(x))
        (wanted,) = run(graph, x)
        np.testing.assert_allclose(made.to_numpy(), wanted, rtol=1e-4, atol=1e-4)


def test_nan_stays_where_its_windows_are() -> None:
    x = numbers(1, 9, 9, 2)
    x[0, 4, 4, 0] = np.nan
    w = numbers(3, 3, 2, 16)
    for first in (False, True):
        given = np.moveaxis(x, -1, 1).copy() if first else x
        turned = w.transpose(3, 2, 0, 1).copy() if first else w
        graph = graph_of(
            lambda a, first=first, turned=turned: ops.conv2d(
                a,
                turned,
                padding=(1, 1, 1, 1),
                input_layout=NCHW if first else NHWC,
                filter_layout=FilterLayout.FCRS if first else FilterLayout.RSCF,
            ),
            given.shape,
        )
        model = engine.InferenceSession().load(graph)
        made = np.array(model.execute(Tensor.from_numpy(given))[0].to_numpy())
        made = np.moveaxis(made, 1, -1) if first else made
        wrong = np.isnan(made).all(axis=-1)[0]
        assert wrong[3:6, 3:6].all()
        assert wrong.sum() == np.isnan(made).any(axis=-1).sum() == 9


# ---------------------------------------------------------------- pools
@pytest.mark.parametrize("ceil", [False, True])
@pytest.mark.parametrize("size", range(4, 12))
def test_named_sizes_of_pools_are_those_of_plain_ones(size: int, ceil: bool) -> None:
    for window, stride, padding in ((2, 2, 1), (3, 2, 1), (3, 5, 0), (2, 3, 1), (1, 4, 0)):

        def pool(x: Any, k: int = window, s: int = stride, p: int = padding) -> Any:
            return ops.max_pool2d(x, (k, k), stride=s, padding=p, ceil_mode=ceil)

        (dim,) = set(shape_of(graph_of(pool, (1, size, size, 1)))[1:3])
        named = shape_of(graph_of(pool, (1, "h", "h", 1)))[1]
        assert named.poly.evaluate({"h": size}) == dim.poly.value
        free = size + 2 * padding - window
        count = -(-free // stride) + 1 if ceil else free // stride + 1
        if ceil and (count - 1) * stride >= size + padding:
            count -= 1
        assert dim == count


def test_a_mean_counts_what_it_is_told_to() -> None:
    x = np.ones((1, 3, 3, 1), np.float32)
    for count, corner in ((True, 4 / 9), (False, 1.0)):
        graph = graph_of(
            lambda a, c=count: ops.avg_pool2d(a, (3, 3), padding=1, count_boundary=c), x.shape
        )
        assert both(graph, x)[0, 0, 0, 0] == np.float32(corner)


def test_integers_have_a_maximum_beside_padding() -> None:
    x = np.full((1, 3, 3, 1), -5, np.int8)
    graph = graph_of(lambda a: ops.max_pool2d(a, (3, 3), padding=1), x.shape, dtype=DType.int8)
    assert (both(graph, x) == -5).all()


# ---------------------------------------------------------------- fold, resize
def test_fold_to_a_named_size() -> None:
    x = numbers(1, 4, 20)
    with Graph("g", input_types=[TensorType(F32, (1, 4, "l")), TensorType(F32, ("a",))]) as graph:
        graph.output(ops.fold(graph.inputs[0], (Dim("a") + 1, 6), (2, 2)))
    assert both(graph, x, np.zeros(4, np.float32)).shape == (1, 1, 5, 6)


def test_resize_to_a_named_size() -> None:
    x = numbers(2, 3, 4, 5)
    for mode in ops.InterpolationMode:
        graph = graph_of(
            lambda a, m=mode: ops.resize(a, ("n", 3, Dim("h") * 2, Dim("w") - 1), m),
            ("n", 3, "h", "w"),
        )
        assert both(graph, x).shape == (2, 3, 8, 4)


# ---------------------------------------------------------------- sizes known when it runs
@pytest.mark.parametrize(
    ("function", "shape", "array", "text"),
    [
        (lambda x: ops.conv2d(x, np.ones((3, 3, 1, 16), np.float32)), (1, "h", 5, 1),
         np.ones((1, 2, 5, 1)), "must be 1 or more"),
        (lambda x: ops.max_pool2d(x, (3, 3)), (1, "h", 5, 1), np.ones((1, 2, 5, 1)),
         "must be 1 or more"),
        (lambda x: ops.fold(x, (4, 4), (2, 2)), (1, 4, "l"), np.ones((1, 4, 8)), "8|places"),
        (lambda x: ops.fold(x, (4, 4), (2, 2)), (1, "c", 9), np.ones((1, 5, 9)), "whole number"),
        (lambda x: ops.resize(x, (1, 1, "h", 4)), (1, 1, "h", 4), np.ones((1, 1, 0, 4)),
         "must be 1 or more"),
        (lambda x: ops.conv2d_transpose(x, np.ones((1, 1, 1, 1)), padding=(2, 2, 0, 0)),
         (1, "h", 4, 1), np.ones((1, 4, 4, 1)), "must be 1 or more"),
    ],
)  # fmt: skip
def test_what_only_a_run_knows_is_checked(
    function: Any, shape: tuple[int | str, ...], array: Array, text: str
) -> None:
    model = engine.InferenceSession().load(graph_of(function, shape))
    with pytest.raises(ValueError, match=text):
        model.execute(Tensor.from_numpy(array.astype(np.float32)))

"""Convolutions whose windows move over copied lines, and those that only mix channels: every way
in which an image can be cut into blocks gives what the definition says, to the bit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from maxlab.driver import Tensor
from maxlab.dtype import DType
from maxlab.engine import InferenceSession
from maxlab.graph import DeviceRef, Graph, TensorType, TensorValue, ops
from maxlab.ir import ConvInputLayout, FilterLayout
from maxlab.opset import convolution_lines as lines

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Case:
    """A convolution, channels last, and the limits of blocks that it is compiled with."""

    name: str
    image: tuple[int, ...]
    window: tuple[int, ...]
    filters: int
    padding: tuple[int, ...] = ()
    stride: tuple[int, ...] = ()
    dilation: tuple[int, ...] = ()
    groups: int = 1
    bias: bool = False
    symbolic: tuple[int, ...] = ()
    """Dims of the image that are not known when it is compiled."""
    limits: dict[str, Any] = field(default_factory=dict, hash=False)

    def __str__(self) -> str:
        return self.name

    @property
    def attrs(self) -> dict[str, Any]:
        """The parameters of the op."""
        rank = len(self.window)
        return {
            "stride": self.stride or (1,) * rank,
            "dilation": self.dilation or (1,) * rank,
            "padding": self.padding or (0,) * 2 * rank,
            "groups": self.groups,
        }


SAME = (1, 1, 1, 1)
CASES = [
    Case("several images in a block", (9, 7, 7, 16), (3, 3), 40, SAME, limits={"MANY": 1}),
    Case("lines of a block", (2, 19, 15, 32), (3, 3), 33, SAME, limits={"PIXELS": (60, 30)}),
    Case("blocks of unequal lines", (1, 9, 15, 32), (3, 3), 33, SAME, limits={"PIXELS": (45, 45)}),
    Case("parts of a line", (1, 5, 300, 16), (3, 3), 17, SAME, bias=True),
    Case("narrow parts", (1, 6, 61, 24), (3, 3), 32, SAME, limits={"CACHED": 3 * 30 * 24 * 4}),
    Case("some of the channels", (3, 9, 8, 40), (3, 3), 70, SAME, limits={"DEPTH": 9 * 16}),
    Case("many parts of the filter", (1, 8, 8, 16), (2, 2), 300, limits={"PANELS": 2}),
    Case("few channels", (2, 31, 33, 3), (7, 7), 40, (3, 3, 3, 3), (2, 2), bias=True),
    Case("few channels in lines", (1, 21, 30, 5), (5, 2), 33, (0, 2, 1, 0), (1, 3)),
    Case("lines of zeros", (1, 2, 3, 16), (3, 3), 20, (5, 4, 6, 3), bias=True),
    Case("lines of zeros, dilated", (2, 4, 5, 20), (3, 2), 16, (7, 5, 0, 4), (2, 1), (3, 2)),
    Case("groups", (2, 9, 10, 48), (3, 3), 96, SAME, groups=3, bias=True),
    Case("groups, some channels", (1, 9, 17, 80), (3, 3), 64, SAME, groups=2,
         limits={"DEPTH": 9 * 16}),
    Case("across", (2, 6, 9, 33), (1, 5), 48, (0, 0, 2, 2)),
    Case("down", (2, 9, 6, 33), (4, 1), 48, (2, 1, 0, 0), (2, 2)),
    Case("any batch", (3, 14, 14, 16), (3, 3), 40, SAME, symbolic=(0,), bias=True),
    Case("any size", (2, 13, 250, 16), (3, 3), 40, SAME, symbolic=(0, 1, 2)),
    Case("any height", (2, 13, 30, 24), (3, 3), 40, SAME, (2, 2), symbolic=(1,)),
    Case("any size, stride", (1, 17, 18, 8), (5, 5), 24, (2, 1, 2, 2), (2, 3), symbolic=(1, 2)),
    Case("planes", (2, 4, 9, 8, 16), (3, 3, 3), 20, (1, 1, 1, 1, 1, 1), bias=True),
    Case("planes of zeros", (1, 2, 5, 6, 20), (2, 3, 2), 16, (3, 2, 1, 0, 4, 1), (2, 1, 1)),
    Case("only channels", (2, 28, 28, 20), (1, 1), 50, bias=True),
    Case("only channels, many", (1, 32, 40, 700), (1, 1), 33),
    Case("only channels, any batch", (3, 16, 32, 12), (1, 1), 24, symbolic=(0,)),
    Case("only channels, planes", (2, 4, 16, 8, 12), (1, 1, 1), 24),
    Case("every other pixel", (2, 15, 14, 32), (1, 1), 40, stride=(2, 2)),
]  # fmt: skip


@pytest.fixture(scope="module")
def session() -> InferenceSession:
    """Two threads, as blocks are shared."""
    return InferenceSession(num_threads=2)


def defined(x: Array, w: Array, bias: Array | None, case: Case) -> Array:
    """The convolution by its definition."""
    attrs, rank = case.attrs, len(case.window)
    pads = [(0, 0), *zip(attrs["padding"][::2], attrs["padding"][1::2], strict=True), (0, 0)]
    x = np.pad(x, pads)
    sizes = [
        (x.shape[1 + n] - (w.shape[n] - 1) * attrs["dilation"][n] - 1) // attrs["stride"][n] + 1
        for n in range(rank)
    ]
    depth, each = w.shape[-2], case.filters // case.groups
    y = np.zeros((x.shape[0], *sizes, case.filters))
    for place in np.ndindex(*w.shape[:rank]):
        cut = tuple(
            slice(p * d, p * d + (size - 1) * s + 1, s)
            for p, d, size, s in zip(place, attrs["dilation"], sizes, attrs["stride"], strict=True)
        )
        part = x[(slice(None), *cut)]
        for g in range(case.groups):
            columns = slice(g * each, (g + 1) * each)
            y[..., columns] += part[..., g * depth : (g + 1) * depth] @ w[place][:, columns]
    return y if bias is None else y + bias


@pytest.mark.parametrize("first", [False, True], ids=["last", "first"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_blocks(
    case: Case, first: bool, session: InferenceSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in case.limits.items():
        assert getattr(lines, name) != value
        monkeypatch.setattr(lines, name, value)
    rng = np.random.default_rng(3)
    # Small integers, whose sums are exact in any order.
    x = rng.integers(-3, 4, case.image).astype(np.float32)
    depth = case.image[-1] // case.groups
    w = rng.integers(-3, 4, (*case.window, depth, case.filters)).astype(np.float32)
    bias = rng.integers(-9, 9, case.filters).astype(np.float32) if case.bias else None
    wanted = defined(x.astype(np.float64), w.astype(np.float64), bias, case)
    if first:
        x, w = np.moveaxis(x, -1, 1).copy(), np.moveaxis(w, (-1, -2), (0, 1)).copy()
        wanted = np.moveaxis(wanted, -1, 1)
    made = convolved(session, x, w, bias, case, first)
    np.testing.assert_array_equal(made, wanted.astype(np.float32))


def convolved(
    session: InferenceSession, x: Array, w: Array, bias: Array | None, case: Case, first: bool
) -> Array:
    """What the compiled graph makes of these arrays, with the filter as a constant."""
    places = [n if n == 0 or not first else n + 1 for n in case.symbolic]
    shape = [f"d{n}" if n in places else size for n, size in enumerate(x.shape)]

    def constant(array: Array) -> TensorValue:
        return ops.constant(array, DType.float32, DeviceRef.CPU())

    with Graph("lines", input_types=[TensorType(DType.float32, shape)]) as graph:
        layouts: dict[str, Any] = {}
        planes = len(case.window) == 3
        if first:
            layouts["input_layout"] = ConvInputLayout.NCHW
            layouts["filter_layout"] = FilterLayout.FCQRS if planes else FilterLayout.FCRS
        function = ops.conv3d if planes else ops.conv2d
        image, given = graph.inputs[0].tensor, None if bias is None else constant(bias)
        graph.output(function(image, constant(w), bias=given, **case.attrs, **layouts))
    (y,) = session.load(graph).execute(Tensor.from_numpy(x))
    made: Array = y.to_numpy()
    return made


def test_a_result_does_not_depend_on_how_an_image_is_cut(
    session: InferenceSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sum of a pixel is the same to the bit, whatever else is computed with it."""
    case = Case("", (4, 15, 16, 32), (3, 3), 64, SAME)
    rng = np.random.default_rng(4)
    x = rng.standard_normal(case.image).astype(np.float32)
    w = rng.standard_normal((3, 3, 32, 64)).astype(np.float32)
    whole = convolved(session, x, w, None, case, first=False)
    one = convolved(session, x[2:3].copy(), w, None, case, first=False)
    np.testing.assert_array_equal(one, whole[2:3])
    monkeypatch.setattr(lines, "PIXELS", (48, 16))
    np.testing.assert_array_equal(convolved(session, x, w, None, case, first=False), whole)
    turned = convolved(
        session, np.moveaxis(x, -1, 1).copy(), w.transpose(3, 2, 0, 1).copy(), None, case, True
    )
    np.testing.assert_array_equal(np.moveaxis(turned, 1, -1), whole)

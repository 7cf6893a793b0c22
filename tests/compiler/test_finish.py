"""What follows a convolution is computed in its kernel, part by part: of every kernel that
convolutions with the channels last have, with the numbers that kernels of their own give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from maxlab.compiler import Options
from maxlab.driver import Tensor
from maxlab.dtype import DType
from maxlab.engine import InferenceSession, Model
from maxlab.graph import DeviceRef, Graph, TensorType, ops

Array = np.ndarray[Any, Any]
CPU = DeviceRef.CPU()
F32 = DType.float32
CASES: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    # image, filter, further arguments
    "lines": ((2, 9, 8, 16), (3, 3, 16, 40), {"padding": (1, 1, 1, 1)}),
    "lines of few channels": ((1, 9, 8, 3), (3, 3, 3, 33), {"stride": (2, 1)}),
    "groups": ((2, 6, 7, 32), (3, 3, 16, 48), {"groups": 2, "padding": (1, 0, 0, 1)}),
    "pieces": ((1, 7, 6, 40), (1, 1, 40, 24), {"stride": (2, 2)}),
    "few results": ((2, 6, 5, 8), (3, 3, 8, 5), {}),
    "few pieces": ((1, 5, 9, 5), (3, 2, 5, 14), {"dilation": (1, 3)}),
    "depthwise": ((2, 9, 7, 43), (5, 5, 1, 43), {"padding": (2, 2, 2, 2), "groups": 43}),
    "depthwise stride": ((1, 8, 13, 88), (3, 3, 1, 88), {"stride": (2, 2), "groups": 88}),
}


def loaded(
    case: str, *, bias: bool, raw: bool = False, options: Options | None = None
) -> tuple[Model, list[Array]]:
    """A convolution, a scale, a shift, a sum with another image and relu; ``raw``: also what the
    convolution gave. And inputs."""
    image, window, more = CASES[case]
    rng = np.random.default_rng(len(case))
    shapes = [image, window, (window[-1],), (window[-1],), (window[-1],)]
    with Graph("net", input_types=[TensorType(F32, s, CPU) for s in shapes]) as graph:
        x, w, scale, shift, c = (v.tensor for v in graph.inputs)
        made = ops.conv2d(x, w, bias=c if bias else None, **more)
        other = ops.conv2d(x, w * 0.5, **more)
        y = ops.relu(made * scale + shift + other)
        graph.output(*((y, made) if raw else (y,)))
    inputs = [rng.standard_normal(s).astype(np.float32) for s in shapes]
    return InferenceSession().load(graph, options=options), inputs


def run(model: Model, inputs: list[Array]) -> list[Array]:
    return [x.to_numpy() for x in model.execute(*map(Tensor.from_numpy, inputs))]


@pytest.mark.parametrize("bias", [False, True], ids=["", "bias"])
@pytest.mark.parametrize("case", CASES)
def test_it_is_one_kernel_with_the_same_bits(case: str, bias: bool) -> None:
    model, inputs = loaded(case, bias=bias)
    apart, _ = loaded(case, bias=bias, options=Options(fuse=False))
    last = model.compiled.plan.steps[-1]
    assert last.kind == "kernel"
    assert last.name.startswith("conv"), last.name
    assert len(apart.compiled.plan.steps) == len(model.compiled.plan.steps) + 4
    for found, wanted in zip(run(model, inputs), run(apart, inputs), strict=True):
        np.testing.assert_array_max_ulp(found, wanted, 0)


def test_what_the_convolution_gave_can_be_read_too() -> None:
    model, inputs = loaded("lines", bias=True, raw=True)
    apart, _ = loaded("lines", bias=True, raw=True, options=Options(fuse=False))
    for found, wanted in zip(run(model, inputs), run(apart, inputs), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_results_that_are_no_numbers_are_told() -> None:
    model, inputs = loaded("depthwise", bias=False, options=Options(assert_level="all"))
    inputs[2][7] = np.nan
    with pytest.raises(Exception, match="NaN"):
        run(model, inputs)

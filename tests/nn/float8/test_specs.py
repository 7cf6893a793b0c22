"""Specs of scales: their questions, shapes and refusals."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import FrozenInstanceError

import pytest

from maxlab.dtype import DType
from maxlab.errors import MaxlabError
from maxlab.nn.float8_config import (
    Float8Config,
    Float8InputScaleSpec,
    Float8ScaleGranularity,
    Float8ScaleOrigin,
    Float8WeightScaleSpec,
)

TENSOR, ROWWISE, COLWISE, BLOCK = Float8ScaleGranularity
STATIC, DYNAMIC = Float8ScaleOrigin
F32 = DType.float32
INPUT = Float8InputScaleSpec(COLWISE, DYNAMIC, F32, 1200.0)
WEIGHT = Float8WeightScaleSpec(ROWWISE, F32)


def test_values_are_those_of_the_page() -> None:
    assert [member.value for member in Float8ScaleGranularity] == [
        "tensor", "rowwise", "colwise", "block",
    ]  # fmt: skip
    assert [member.value for member in Float8ScaleOrigin] == ["static", "dynamic"]


@pytest.mark.parametrize("granularity", list(Float8ScaleGranularity))
def test_each_granularity_answers_to_its_own_name_alone(
    granularity: Float8ScaleGranularity,
) -> None:
    block = (128, 128) if granularity is BLOCK else None
    weight = Float8WeightScaleSpec(granularity, F32, block)
    given = Float8InputScaleSpec(granularity, DYNAMIC, F32, block_size=block)
    for spec in (weight, given):
        answers = [spec.is_tensor, spec.is_rowwise, spec.is_colwise, spec.is_block]
        assert answers == [granularity is one for one in Float8ScaleGranularity]


@pytest.mark.parametrize(
    ("granularity", "block", "shape"),
    [
        (TENSOR, None, ()),
        (ROWWISE, None, (300, 1)),
        (COLWISE, None, (1, 130)),
        (BLOCK, (128, 128), (3, 2)),
        (BLOCK, (1, 128), (300, 2)),
        (BLOCK, (300, 130), (1, 1)),
    ],
)
def test_scale_shape(
    granularity: Float8ScaleGranularity, block: tuple[int, int] | None, shape: tuple[int, ...]
) -> None:
    assert Float8WeightScaleSpec(granularity, F32, block).scale_shape(300, 130) == shape


def test_a_config_is_static_or_dynamic() -> None:
    config = Float8Config(INPUT, WEIGHT, {0}, set())
    assert config.is_dynamic
    assert not config.is_static
    static = Float8Config(Float8InputScaleSpec(TENSOR, STATIC, F32), WEIGHT, {0}, set())
    assert static.is_static
    assert not static.is_dynamic
    assert config == Float8Config(INPUT, WEIGHT, {0}, set(), None, None)
    with pytest.raises(FrozenInstanceError):
        config.quant_method = "fp8"  # type: ignore[misc]


REFUSED: list[Callable[[], object]] = [
    lambda: Float8WeightScaleSpec("tensor", F32),  # type: ignore[arg-type]
    lambda: Float8WeightScaleSpec(TENSOR, "float32"),  # type: ignore[arg-type]
    lambda: Float8WeightScaleSpec(TENSOR, DType.int32),
    lambda: Float8WeightScaleSpec(BLOCK, F32),
    lambda: Float8WeightScaleSpec(ROWWISE, F32, (128, 128)),
    lambda: Float8WeightScaleSpec(BLOCK, F32, (128,)),  # type: ignore[arg-type]
    lambda: Float8WeightScaleSpec(BLOCK, F32, [128, 128]),  # type: ignore[arg-type]
    lambda: Float8WeightScaleSpec(BLOCK, F32, (128, 0)),
    lambda: Float8WeightScaleSpec(BLOCK, F32, (128, True)),
    lambda: Float8InputScaleSpec(TENSOR, "static", F32),  # type: ignore[arg-type]
    lambda: Float8InputScaleSpec(TENSOR, STATIC, F32, 1200.0),
    lambda: Float8InputScaleSpec(TENSOR, DYNAMIC, F32, 0.0),
    lambda: Float8InputScaleSpec(TENSOR, DYNAMIC, F32, math.nan),
    lambda: Float8InputScaleSpec(TENSOR, DYNAMIC, F32, math.inf),
    lambda: Float8InputScaleSpec(TENSOR, DYNAMIC, F32, True),
    lambda: Float8Config(WEIGHT, WEIGHT, set(), set()),  # type: ignore[arg-type]
    lambda: Float8Config(INPUT, INPUT, set(), set()),  # type: ignore[arg-type]
    lambda: Float8Config(INPUT, WEIGHT, [0], set()),  # type: ignore[arg-type]
    lambda: Float8Config(INPUT, WEIGHT, {-1}, set()),
    lambda: Float8Config(INPUT, WEIGHT, set(), {"0"}),  # type: ignore[arg-type]
    lambda: Float8Config(INPUT, WEIGHT, set(), set(), "bfloat16"),  # type: ignore[arg-type]
    lambda: Float8Config(INPUT, WEIGHT, set(), set(), None, 8),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_refused(number: int) -> None:
    with pytest.raises(MaxlabError) as caught:
        REFUSED[number]()
    assert caught.value.code == "ML698"
    assert caught.value.fix

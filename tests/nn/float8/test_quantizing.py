"""Rounding to 8-bit floats: torch's, bit for bit, with scales of tensors, tokens and blocks."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, ArgumentTypeError, DTypeError, MaxlabError, ShapeError
from maxlab.graph import DeviceRef, Graph, TensorType, ops
from maxlab.nn import kernels
from maxlab.nn.float8_config import (
    Float8InputScaleSpec,
    Float8ScaleGranularity,
    Float8ScaleOrigin,
    Float8WeightScaleSpec,
)
from tests.cpu_and_gpu import at, numpy, session

Array = np.ndarray[Any, Any]
F32, BF16, FN, FNUZ = DType.float32, DType.bfloat16, DType.float8_e4m3fn, DType.float8_e4m3fnuz
TENSOR, ROWWISE, COLWISE, BLOCK = (
    Float8ScaleGranularity[name] for name in ("TENSOR", "ROWWISE", "COLWISE", "BLOCK")
)
CODES = np.arange(256, dtype=np.uint8)
CPU = DeviceRef.CPU()


def specs(
    granularity: Float8ScaleGranularity = COLWISE, block: int = 0
) -> tuple[Float8InputScaleSpec, Float8WeightScaleSpec]:
    """How inputs and weights are scaled."""
    of_input = Float8InputScaleSpec(
        granularity, Float8ScaleOrigin.DYNAMIC, F32, block_size=(1, block) if block else None
    )
    other = BLOCK if block else ROWWISE
    return of_input, Float8WeightScaleSpec(other, F32, (block, block) if block else None)


def run(
    build: Callable[..., Any],
    *arrays: Array,
    names: tuple[Any, ...] = (),
    place: DeviceRef = CPU,
) -> list[Array]:
    """What ``build`` makes of ``arrays``; 8-bit floats as bytes."""
    shapes = names or tuple(a.shape for a in arrays)
    types = [
        TensorType(DType.from_numpy(a.dtype), shape, place)
        for a, shape in zip(arrays, shapes, strict=True)
    ]
    model = session(place).load(Graph("g", build, types))
    found = [numpy(y) for y in model.execute(*(at(a, place) for a in arrays))]
    return [y.view(np.uint8) if DType.from_numpy(y.dtype).is_float8() else y for y in found]


def floats(dtype: DType, codes: Array = CODES) -> Array:
    """What torch reads of ``codes``."""
    made: Array = torch.from_numpy(codes.copy()).view(getattr(torch, dtype.name)).float().numpy()
    return made


def rounded(x: Array, dtype: DType) -> Array:
    """``x`` as torch rounds it, where what is too large is cut before."""
    largest = torch.finfo(getattr(torch, dtype.name)).max
    cut = torch.from_numpy(x.astype(np.float32)).clamp(-largest, largest)
    made: Array = cut.to(getattr(torch, dtype.name)).view(torch.uint8).numpy()
    return made


def sweep(dtype: DType) -> Array:
    """Numbers on, between and beside those of ``dtype``; the ends, NaN, and any bits."""
    exact = np.sort(floats(dtype)[np.isfinite(floats(dtype))])
    middle = (exact[1:] + exact[:-1]) / 2
    ends = [448, 464, 465, 480, 240, 248, 256, np.inf, -np.inf, np.nan, -0.0, 0, 1e-45, -1e-30]
    bits = np.arange(0, 2**32, 1048583, dtype=np.uint64).astype(np.uint32).view(np.float32)
    beside = [np.nextafter(middle, np.float32(end)) for end in (-1e9, 1e9)]
    return np.concatenate([exact, middle, *beside, np.array(ends, np.float32), bits]).astype(
        np.float32
    )


# ---------------------------------------------------------------- casts
@pytest.mark.parametrize("dtype", [FN, FNUZ])
def test_all_codes_are_read_as_torch_reads_them(dtype: DType, place: DeviceRef) -> None:
    def build(x: Any) -> Any:
        return ops.cast(x, F32), ops.cast(x, BF16), ops.cast(ops.cast(x, F32), dtype)

    wide, half, back = run(build, CODES.view(dtype.ml_numpy), place=place)
    np.testing.assert_array_equal(wide, floats(dtype))
    np.testing.assert_array_equal(half.astype(np.float32), floats(dtype))
    numbers = ~np.isnan(floats(dtype))
    np.testing.assert_array_equal(back[numbers], CODES[numbers])
    assert np.isnan(floats(dtype, back)[~numbers]).all()


@pytest.mark.parametrize("dtype", [FN, FNUZ])
def test_casts_round_once(dtype: DType, place: DeviceRef) -> None:
    x = sweep(dtype)
    (made,) = run(lambda x: ops.cast(x, dtype), x, place=place)
    inside = np.abs(x) <= float(dtype.largest)
    np.testing.assert_array_equal(made[inside], rounded(x, dtype)[inside])
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(
            floats(dtype, made), x.astype(dtype.ml_numpy).astype(F32.to_numpy())
        )
        wide = x.astype(np.float64) * (1 + 2**-40)
        (twice,) = run(lambda x: ops.cast(x, dtype), wide, place=place)
        once = torch.from_numpy(wide).to(torch.float64)
    exact = np.sort(floats(dtype)[np.isfinite(floats(dtype))])
    ties = np.isin(once.numpy() / (1 + 2**-40), (exact[1:] + exact[:-1]) / 2) & inside & (x > 0)
    up = np.searchsorted(exact, x[ties])  # what is just above the middle is rounded up
    np.testing.assert_array_equal(floats(dtype, twice[ties]), exact[up])


def test_codes_are_moved_and_nothing_is_computed_with_them() -> None:
    x = CODES.view(FN.ml_numpy).reshape(16, 16)
    moved = run(lambda x: (ops.concat([x[3:5].T, x[:, :1]], axis=1), ops.pad(x, [0, 0, 1, 1])), x)
    np.testing.assert_array_equal(
        moved[0], np.concatenate([CODES.reshape(16, 16)[3:5].T, CODES.reshape(16, 16)[:, :1]], 1)
    )
    np.testing.assert_array_equal(moved[1], np.pad(CODES.reshape(16, 16), [(0, 0), (1, 1)]))
    for compute in (
        lambda x: x + x,
        ops.sum,
        lambda x: x @ x,
        ops.argsort,
        ops.argmax,
    ):
        with pytest.raises(MaxlabError, match="ML107"):
            run(compute, x if compute is not ops.argsort else x.reshape(-1))


# ---------------------------------------------------------------- given scales
@pytest.mark.parametrize("dtype", [FN, FNUZ])
@pytest.mark.parametrize("inverted", [True, False])
def test_a_given_scale(dtype: DType, inverted: bool) -> None:
    scale = np.float32(0.37)
    x = sweep(dtype)
    with np.errstate(all="ignore"):
        scaled = x / scale if inverted else x * scale
    (made,) = run(
        lambda x, s: kernels.quantize_static_scaled_float8(x, s, inverted, dtype),
        x,
        scale.reshape(1),
    )
    np.testing.assert_array_equal(floats(dtype, made), floats(dtype, rounded(scaled, dtype)))


# ---------------------------------------------------------------- found scales
def reference(
    x: Array, size: int, bound: float, scales_type: DType, dtype: DType = FN
) -> tuple[Array, Array]:
    """The codes of rows in groups of ``size``, and their scales, ``[groups, rows]``."""
    rows, columns = x.shape
    groups = -(-columns // size)
    padded = torch.zeros(rows, groups * size)
    padded[:, :columns] = torch.from_numpy(x.astype(np.float32))
    parts = padded.reshape(rows, groups, size)
    largest = torch.finfo(getattr(torch, dtype.name)).max
    most = parts.abs().amax(-1).clamp(max=bound) / largest
    scale = most.to(getattr(torch, scales_type.name)).float()
    safe = torch.where(scale == 0, torch.ones(()), scale)
    codes = rounded((parts / safe[..., None]).numpy(), dtype)
    return codes.reshape(rows, -1)[:, :columns], scale.T.numpy()


@pytest.mark.parametrize("scales_type", [F32, BF16])
@pytest.mark.parametrize("kind", [F32, BF16, DType.float16])
def test_a_scale_for_each_token(kind: DType, scales_type: DType) -> None:
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((5, 70)) * np.array([[1e-3], [1], [9e3], [0], [50]])).astype(
        kind.ml_numpy
    )
    codes, scales = run(
        lambda x: kernels.quantize_dynamic_scaled_float8(x, *specs(), scales_type=scales_type),
        x,
        names=(("rows", 70),),
    )
    wanted, of_rows = reference(x, 70, 1200.0, scales_type)
    np.testing.assert_array_equal(scales.astype(np.float32), of_rows)
    np.testing.assert_array_equal(codes, wanted)
    assert (codes[2] & 0x7F).max() == 0x7E  # past the bound, so the largest number


@pytest.mark.parametrize(("columns", "dtype"), [(256, FN), (200, FN), (64, FNUZ)])
def test_a_scale_for_each_block(columns: int, dtype: DType, place: DeviceRef) -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((5, columns)).astype(np.float32) * 3
    x[1, 3] = np.nan

    def build(x: Any) -> Any:
        return kernels.quantize_dynamic_scaled_float8(
            x, *specs(BLOCK, 64), math.inf, 64, dtype, F32
        )

    wanted, of_rows = reference(x, 64, math.inf, F32, dtype)
    for names in ((x.shape,), (("rows", columns),)):
        codes, scales = run(build, x, names=names, place=place)
        assert scales.shape == (-(-columns // 64), 8)  # 16 bytes are 4 scales
        np.testing.assert_array_equal(scales[:, :5], of_rows)
        assert not scales[:, 5:].any()
        np.testing.assert_array_equal(floats(dtype, codes), floats(dtype, wanted))
    assert np.isnan(floats(dtype, codes)[1, :64]).all()


def test_a_scale_for_all() -> None:
    x = np.random.default_rng(2).standard_normal((3, 8)).astype(np.float32)
    codes, scales = run(
        lambda x: kernels.quantize_dynamic_scaled_float8(x, *specs(TENSOR), scales_type=F32), x
    )
    wanted, of_all = reference(x.reshape(1, -1), 24, 1200.0, F32)
    np.testing.assert_array_equal(scales, of_all)
    np.testing.assert_array_equal(codes.reshape(1, -1), wanted)


@pytest.mark.parametrize("block", [0, 4])
def test_batches_are_rounded_matrix_by_matrix(block: int) -> None:
    x = np.random.default_rng(3).standard_normal((2, 3, 12)).astype(np.float32)
    given = specs(BLOCK if block else COLWISE, block)

    def build(x: Any) -> Any:
        return kernels.batched_quantize_dynamic_scaled_float8(x, *given, 1200.0, block or -1)

    codes, scales = run(build, x, names=(("b", "m", 12),))
    assert scales.shape == (2, 3 if block else 1, 8 if block else 3)  # bfloat16: 8 are 16 bytes
    for n in range(2):
        wanted, of_rows = reference(x[n], block or 12, 1200.0, BF16)
        np.testing.assert_array_equal(codes[n], wanted)
        np.testing.assert_array_equal(scales[n, :, :3].astype(np.float32), of_rows)


# ---------------------------------------------------------------- e4m3fnuz
def test_the_bits_stay_and_the_scale_doubles() -> None:
    codes, scale = run(
        kernels.normalize_e4m3fn_to_e4m3fnuz, CODES.view(FN.ml_numpy), np.array([0.3], np.float32)
    )
    wanted = np.where(CODES == 0x80, 0, CODES)  # -0 would be NaN
    wanted = np.where(CODES & 0x7F == 0x7F, 0x80, wanted)  # NaN would be a number
    np.testing.assert_array_equal(codes, wanted)
    np.testing.assert_array_equal(scale, np.array([0.6], np.float32))
    numbers = np.isfinite(floats(FN))
    np.testing.assert_array_equal(floats(FNUZ, codes)[numbers] * 2, floats(FN)[numbers])


def test_where_the_conversion_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    from maxlab.nn.float8 import quantizing

    given = CODES[:4].view(FN.ml_numpy), np.array([1], np.float32)
    assert not kernels.needs_fp8_fnuz_conversion()
    same, scale = run(kernels.convert_weights_to_fp8_fnuz_if_needed, *given)
    assert same.tolist() == [0, 1, 2, 3]
    assert scale == 1
    for name, value in (("count", 1), ("api", "hip"), ("architecture_name", "gfx942")):
        monkeypatch.setattr(quantizing, f"accelerator_{name}", lambda value=value: value)
    assert kernels.needs_fp8_fnuz_conversion()
    _, scale = run(kernels.convert_weights_to_fp8_fnuz_if_needed, *given)
    assert scale == 2


# ---------------------------------------------------------------- refusals
REFUSED = [
    (lambda x: kernels.quantize_static_scaled_float8(x, x[0]), ShapeError, "ML659"),
    (lambda x: kernels.quantize_static_scaled_float8(x, x[0, 0], out_type=BF16), DTypeError, "666"),
    (lambda x: kernels.quantize_static_scaled_float8(ops.cast(x, DType.int32), x[0, 0]),
     DTypeError, "ML666"),
    (lambda x: kernels.quantize_dynamic_scaled_float8(x[0], *specs()), ShapeError, "ML659"),
    (lambda x: kernels.quantize_dynamic_scaled_float8(x, *specs(ROWWISE)), ArgumentError, "ML698"),
    (lambda x: kernels.quantize_dynamic_scaled_float8(x, *specs(BLOCK, 4)), ArgumentError, "ML698"),
    (lambda x: kernels.quantize_dynamic_scaled_float8(x, *specs(), group_size_or_per_token=4),
     ArgumentError, "ML698"),
    (lambda x: kernels.quantize_dynamic_scaled_float8(x, *specs(), scale_ub=0), ArgumentError,
     "ML698"),
    (lambda x: kernels.quantize_dynamic_scaled_float8(x, *specs(), scales_type=FN), DTypeError,
     "ML666"),
    (lambda x: kernels.quantize_dynamic_scaled_float8(x, specs()[0], specs(BLOCK, 4)[1]),
     ArgumentError, "ML698"),
    (lambda x: kernels.quantize_dynamic_scaled_float8(x, None, specs()[1]),  # type: ignore[arg-type]
     ArgumentTypeError, "ML698"),
    (lambda x: kernels.normalize_e4m3fn_to_e4m3fnuz(x, x), DTypeError, "ML666"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_what_is_refused(number: int) -> None:
    build, kind, code = REFUSED[number]
    with pytest.raises(kind, match=code) as caught:
        Graph("g", build, [TensorType(F32, [4, 8], DeviceRef.CPU())])
    assert isinstance(caught.value, (ValueError, TypeError))

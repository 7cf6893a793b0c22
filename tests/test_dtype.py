"""DType: fixed numbers, facts, conversions, and the promotion table pair by pair."""

from __future__ import annotations

import itertools
import math
import pickle
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from maxlab.dtype import DType, check_array, check_scalar, fits, promote
from maxlab.errors import ArgumentTypeError, DTypeError

NUMBERS = {
    "bool": 1, "int8": 135, "uint8": 134, "int16": 137, "uint16": 136, "int32": 139,
    "uint32": 138, "int64": 141, "uint64": 140, "float4_e2m1fn": 64, "float8_e8m0fnu": 73,
    "float8_e4m3fn": 75, "float8_e4m3fnuz": 76, "float8_e5m2": 77, "float8_e5m2fnuz": 78,
    "float16": 79, "bfloat16": 80, "float32": 81, "float64": 82,
}  # fmt: skip


def test_numbers_are_fixed() -> None:
    assert {d.name: d.value for d in DType} == NUMBERS
    assert all(DType(number) is DType[name] for name, number in NUMBERS.items())


@pytest.mark.parametrize("dtype", DType, ids=str)
def test_facts(dtype: DType) -> None:
    kinds = dtype.is_float(), dtype.is_integral(), dtype is DType.bool
    assert sum(kinds) == 1
    assert dtype.is_integral() == (dtype.is_signed_integral() or dtype.is_unsigned_integral())
    assert dtype.size_in_bytes == dtype.align == dtype.ml_numpy.itemsize
    assert dtype.size_in_bits == (4 if dtype.name.startswith("float4") else 8 * dtype.align)
    assert DType.from_numpy(dtype.ml_numpy) is dtype
    assert DType.from_numpy(dtype.ml_numpy.type) is dtype
    assert DType.from_short(dtype.short) is dtype
    assert pickle.loads(pickle.dumps(dtype)) is dtype
    assert repr(dtype) == str(dtype) == f"DType.{dtype.name}"
    if dtype.is_float():
        info = ml_dtypes.finfo(dtype.ml_numpy)  # type: ignore[no-untyped-call]
        assert dtype.largest == float(info.max)
        assert dtype.lowest == float(info.min)
        assert dtype._spec.smallest == float(info.smallest_subnormal)
        assert dtype.significand_bits == info.nmant + 1
    elif dtype.is_integral():
        limits = np.iinfo(dtype.to_numpy())
        assert (dtype.lowest, dtype.largest) == (limits.min, limits.max)


def test_kinds() -> None:
    assert [d.short for d in DType if d.is_half()] == ["f16", "bf16"]
    assert [d.value for d in DType if d.is_float8()] == [73, 75, 76, 77, 78]
    assert not DType.bool.is_integral()
    assert not DType.bool.is_float()


@pytest.mark.parametrize("dtype", DType, ids=str)
def test_to_numpy(dtype: DType) -> None:
    if dtype in (DType.bfloat16, DType.float4_e2m1fn):
        with pytest.raises(ValueError, match="ML104"):
            dtype.to_numpy()
    elif dtype.is_float8():
        assert dtype.to_numpy() == np.uint8
    else:
        assert dtype.to_numpy() == np.dtype(dtype.name)


@pytest.mark.parametrize(
    "bad", ["complex64", "U4", "S3", object, "datetime64[s]", ">f4", [("a", "f4")], "not a dtype"]
)
def test_from_numpy_refuses(bad: Any) -> None:
    with pytest.raises(ValueError, match="ML103"):
        DType.from_numpy(np.dtype(bad) if bad != "not a dtype" else bad)


class _TorchDType:
    """What from_torch reads of a torch.dtype, so that the test needs no PyTorch."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"torch.{self.name}"


@pytest.mark.parametrize("dtype", DType, ids=str)
def test_from_torch(dtype: DType) -> None:
    name: Any = _TorchDType(dtype.name)
    if dtype is DType.float4_e2m1fn:
        with pytest.raises(ValueError, match="ML103"):
            DType.from_torch(name)
    else:
        assert DType.from_torch(name) is dtype
    with pytest.raises(KeyError):
        DType.from_torch(_TorchDType("complex64"), KeyError("mine"))  # type: ignore[arg-type,unused-ignore]


def test_to_torch() -> None:
    try:
        import torch  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        with pytest.raises(ImportError):
            DType.float32.to_torch()
        with pytest.raises(KeyError):
            DType.float32.to_torch(KeyError("mine"))
        return
    for dtype in DType:
        if dtype is DType.float4_e2m1fn:
            with pytest.raises(ValueError, match="ML104"):
                dtype.to_torch()
        elif hasattr(torch, dtype.name):
            assert DType.from_torch(dtype.to_torch()) is dtype


# The whole table, written out: rows and columns in the order of the first row, "." is an error.
TABLE = """
bool si8  ui8  si16 ui16 si32 ui32 si64 ui64 f16 bf16 f32 f64
si8  si8  .    si16 .    si32 .    si64 .    f16 bf16 f32 f64
ui8  .    ui8  si16 ui16 si32 ui32 si64 ui64 f16 bf16 f32 f64
si16 si16 si16 si16 .    si32 .    si64 .    .   .    f32 f64
ui16 .    ui16 .    ui16 si32 ui32 si64 ui64 .   .    f32 f64
si32 si32 si32 si32 si32 si32 .    si64 .    .   .    .   f64
ui32 .    ui32 .    ui32 .    ui32 si64 ui64 .   .    .   f64
si64 si64 si64 si64 si64 si64 si64 si64 .    .   .    .   .
ui64 .    ui64 .    ui64 .    ui64 .    ui64 .   .    .   .
f16  f16  f16  .    .    .    .    .    .    f16 .    f32 f64
bf16 bf16 bf16 .    .    .    .    .    .    .   bf16 f32 f64
f32  f32  f32  f32  f32  .    .    .    .    f32 f32  f32 f64
f64  f64  f64  f64  f64  f64  f64  .    .    f64 f64  f64 f64
"""
ORDER = TABLE.split()[:13]
ROWS = [line.split() for line in TABLE.strip().splitlines()]
PAIRS = [(a, b, ROWS[i][j]) for i, a in enumerate(ORDER) for j, b in enumerate(ORDER)] + [
    ("si8", "f8e4m3fn", "f16"),
    ("ui8", "f8e5m2", "f16"),
    ("f8e4m3fn", "f16", "f16"),
    ("f8e5m2fnuz", "bf16", "bf16"),
    ("f8e4m3fn", "f8e4m3fn", "f8e4m3fn"),
    ("f8e4m3fn", "f8e5m2", "."),
    ("f8e5m2", "f8e5m2fnuz", "."),
    ("f8e4m3fn", "si16", "."),
    ("f8e8m0fnu", "f16", "."),
    ("f8e8m0fnu", "f32", "f32"),
    ("f8e8m0fnu", "si8", "."),
    ("f4e2m1fn", "f8e4m3fn", "f8e4m3fn"),
    ("bool", "f8e5m2", "f8e5m2"),
    ("bool", "f8e8m0fnu", "."),
]


@pytest.mark.parametrize(("a", "b", "expected"), PAIRS)
def test_promotion_table(a: str, b: str, expected: str) -> None:
    left, right = DType.from_short(a), DType.from_short(b)
    if expected == ".":
        for pair in ((left, right), (right, left)):
            with pytest.raises(DTypeError, match=r"Unsafe cast.*ML101"):
                promote(*pair)
    else:
        assert promote(left, right).short == promote(right, left).short == expected


@pytest.mark.parametrize(("a", "b"), list(itertools.product(DType, DType)))
def test_promotion_keeps_every_value(a: DType, b: DType) -> None:
    """Checked against the values themselves, for every type of 8 or 16 bits."""
    try:
        common = promote(a, b)
    except DTypeError:
        return
    for source in (a, b):
        assert fits(source, common)
        if source.size_in_bits <= 16 and source.size_in_bits != 4:
            bits = np.arange(2**source.size_in_bits, dtype=f"uint{source.size_in_bits}")
            values = bits[:2].astype(bool) if source is DType.bool else bits.view(source.ml_numpy)
            with np.errstate(invalid="ignore", over="ignore"):
                there = values.astype(common.ml_numpy)
                before, after = values.astype(np.float64), there.astype(np.float64)
            np.testing.assert_array_equal(before, after)


SCALARS = [
    (3, "int32", 3), (True, "int32", 1), (True, "float32", 1.0), (True, "bool", True),
    (1, "bool", True), (255, "uint8", 255), (-128, "int8", -128), (16777216, "float32", 16777216.0),
    (2048, "float16", 2048.0), (256, "bfloat16", 256.0), (2**53, "float64", 2.0**53),
    (1e9, "float16", 1e9), (0.1, "float32", 0.1), (np.float64(2.5), "float16", 2.5),
    (np.int16(7), "uint8", 7), (np.array(4), "int64", 4), (np.bool_(False), "bool", False),
    (ml_dtypes.bfloat16(1.5), "float32", 1.5), (16, "float8_e4m3fn", 16.0),
]  # fmt: skip


@pytest.mark.parametrize(("value", "dtype", "expected"), SCALARS)
def test_scalar_fits(value: Any, dtype: str, expected: object) -> None:
    result = check_scalar(value, DType[dtype])
    assert (type(result), result) == (type(expected), expected)


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (300, "uint8"), (-1, "uint8"), (2**63, "int64"), (2, "bool"), (1.0, "int32"),
        (0.0, "bool"), (16777217, "float32"), (-16777217, "float32"), (2049, "float16"),
        (np.float32(1), "int8"), (math.nan, "int64"), (17, "float8_e4m3fn"), (0, "float8_e8m0fnu"),
    ],
)  # fmt: skip
def test_scalar_refused(value: Any, dtype: str) -> None:
    with pytest.raises(ValueError, match="ML102"):
        check_scalar(value, DType[dtype])


@pytest.mark.parametrize("value", ["1", None, 1j, [1], np.ones(2), object()])
def test_scalar_of_another_type(value: object) -> None:
    with pytest.raises(ArgumentTypeError, match="ML105"):
        check_scalar(value, DType.float32)


def test_array() -> None:
    same = np.ones(3, np.float32)
    assert check_array(same, DType.float32) is same
    assert check_array(np.array([1, 255]), DType.uint8).dtype == np.uint8
    assert check_array(np.array([1, 2]), DType.float32).dtype == np.float32
    assert np.isinf(check_array(np.array([1e9]), DType.float16)).all()
    assert check_array(np.ones(2), DType.bfloat16).dtype == ml_dtypes.bfloat16
    assert check_array(np.zeros(0, np.int64), DType.int8).shape == (0,)
    for values, dtype in [
        (np.array([1, 256]), DType.uint8),
        (np.array([1, -1]), DType.uint8),
        (np.array([16777217]), DType.float32),
        (np.array([1.0]), DType.int32),
    ]:
        with pytest.raises(ValueError, match="ML102"):
            check_array(values, dtype)


def test_documented_example() -> None:
    tensor = np.zeros((2, 3), dtype=DType.float32.to_numpy())
    assert tensor.dtype == np.float32
    array = np.ones((4, 4), dtype=np.float16)
    assert DType.from_numpy(array.dtype) is DType.float16
    assert DType.float32.is_float() is True
    assert DType.int64.is_integral() is True
    assert DType.float64.size_in_bytes == 8

"""driver.Tensor: memory, views, copies and conversions, compared with NumPy."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maxlab.driver import (
    CPU,
    DeviceStream,
    Tensor,
    TensorIndexError,
    live_blocks,
    memory_stats,
    name_block,
)
from maxlab.driver.tensor import host_tensor
from maxlab.dtype import DType
from maxlab.errors import ArgumentTypeError, DeviceError, DTypeError, TensorError, shown


def counted(*shape: int, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    """0, 1, 2 … in ``shape``."""
    return np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)


# ------------------------------------------------------------------ making


@pytest.mark.parametrize("dtype", DType, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 4), (2, 3, 5)], ids=str)
def test_facts(dtype: DType, shape: tuple[int, ...]) -> None:
    t = Tensor(dtype, shape)
    assert t.address % 64 == 0
    assert (t.dtype, t.shape, t.rank) == (dtype, shape, len(shape))
    assert t.num_elements == np.prod(shape, dtype=int)
    assert t.element_size == dtype.size_in_bytes
    assert t.is_contiguous
    assert t.is_host
    assert not t.pinned
    assert not t.read_only
    assert t.device is CPU()
    assert t.stream is CPU().default_stream
    assert t.to_ml_numpy().shape == shape


@pytest.mark.parametrize("dtype", [d for d in DType if d is not DType.float8_e8m0fnu], ids=str)
def test_zeros_and_scalar(dtype: DType) -> None:
    zeros = Tensor.zeros([2, 3], dtype)
    assert (zeros.to_ml_numpy().astype(np.float64) == 0).all()
    assert Tensor.scalar(1, dtype).item() == 1
    assert type(Tensor.scalar(1, dtype).item()) is (
        float if dtype.is_float() else bool if dtype is DType.bool else int
    )


def test_constructor_forms() -> None:
    stream = DeviceStream(CPU())
    a = counted(2, 3)
    forms = [
        Tensor(DType.float32, [2, 3]),
        Tensor(shape=(2, 3), dtype=DType.float32),
        Tensor(DType.float32, [2, 3], CPU()),
        Tensor(DType.float32, [2, 3], stream),
        Tensor(DType.float32, [2, 3], stream=stream),
        Tensor(DType.float32, np.array([2, 3]), device=CPU()),  # type: ignore[call-overload]
        Tensor(a, CPU()),
        Tensor(shape=a, device=CPU()),
    ]
    assert [(t.dtype, t.shape) for t in forms] == [(DType.float32, (2, 3))] * len(forms)
    assert [t.stream is stream for t in forms] == [False] * 3 + [True] * 2 + [False] * 3
    copied = forms[-1]
    a[0, 0] = 99
    assert copied.to_numpy()[0, 0] == 0


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((DType.float32, [-1]), TensorError, "ML420"),
        ((DType.float32, [1 << 40, 1 << 40]), TensorError, "ML420"),
        ((DType.float32, 3), ArgumentTypeError, "ML421"),
        ((DType.float32, [1.5]), ArgumentTypeError, "ML421"),
        (("flaot32", [2]), ArgumentTypeError, "ML421"),
        ((DType.float32, [2], "tpu"), ArgumentTypeError, "ML421"),
        ((DType.float64, [1 << 45]), DeviceError, "ML403"),
    ],
)
def test_constructor_refuses(arguments: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Tensor(*arguments)


def test_stream_and_device_must_agree() -> None:
    stream = DeviceStream(CPU())
    assert Tensor(DType.int8, [1], CPU(), stream=stream).stream is stream  # type: ignore[call-overload]
    with pytest.raises(TypeError, match=r"not of the device"):
        Tensor(DType.int8, [1], "gpu", stream=stream)  # type: ignore[call-overload]


def test_scalar_values_are_checked() -> None:
    with pytest.raises(ValueError, match="ML102"):
        Tensor.zeros([1], DType.float8_e8m0fnu)
    with pytest.raises(ValueError, match="ML102"):
        Tensor.scalar(300, DType.uint8)


def test_pinned_memory_is_locked() -> None:
    t = Tensor(DType.uint8, [4096 * 3], pinned=True)
    assert t.pinned
    assert t[1:].pinned
    assert not t.copy().pinned
    status = Path("/proc/self/status").read_text()
    locked = int(status.split("VmLck:")[1].split()[0])
    assert locked >= 12


# ------------------------------------------------------------------ memory


def test_memory_is_recycled_and_counted() -> None:
    gc.collect()
    before = memory_stats()
    t = Tensor(DType.uint8, [12345])
    address = t.address
    assert memory_stats().live == before.live + 12345
    name_block(address, "weights")
    assert (address, 12345, "weights") in live_blocks()
    view = t[10:]
    del t
    assert memory_stats().blocks == before.blocks + 1, "a view keeps the block"
    del view
    assert memory_stats().live == before.live
    assert Tensor(DType.uint8, [12345]).address == address


def test_the_pool_is_bounded() -> None:
    for megabytes in range(1, 20):
        Tensor(DType.uint8, [megabytes << 20])
    assert memory_stats().pooled <= 64 << 20


def test_alloc_is_an_ordinary_tensor() -> None:
    t = host_tensor(DType.float32, (2, 3), 24)
    t[...] = counted(2, 3)
    np.testing.assert_array_equal(t.to_numpy(), counted(2, 3))


def test_arrays_keep_the_memory_alive() -> None:
    t = Tensor.from_numpy(counted(4).copy())
    owner = weakref.ref(t._owner)
    strided, whole = t[::2].to_numpy(), t.to_numpy()
    del t
    gc.collect()
    assert owner() is not None
    assert strided.tolist() == [0, 2]
    del strided, whole
    gc.collect()
    assert owner() is None


# ------------------------------------------------------------------ numpy


DTYPES = [np.dtype(n) for n in "?bBhHiIlLefd"]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_numpy_shares_memory_both_ways(dtype: np.dtype[Any]) -> None:
    a = counted(2, 3, dtype=dtype)
    t = Tensor.from_numpy(a)
    assert t.address == a.ctypes.data
    b = t.to_numpy()
    assert b.dtype == a.dtype
    assert b.ctypes.data == a.ctypes.data
    b[1, 1] = 0
    t[0, 0] = True if dtype == np.bool_ else 7
    np.testing.assert_array_equal(a, b)
    assert a[0, 0] == (1 if dtype == np.bool_ else 7)
    np.testing.assert_array_equal(np.asarray(t), a)


def test_from_numpy_copies_what_is_not_contiguous() -> None:
    a = counted(4, 6)
    t = Tensor.from_numpy(a[:, ::2])
    assert t.is_contiguous
    np.testing.assert_array_equal(t.to_numpy(), a[:, ::2])
    a[:] = 0
    assert t.to_numpy().any()
    assert not t.read_only


def test_from_numpy_of_a_read_only_array() -> None:
    a = counted(3)
    a.flags.writeable = False
    t = Tensor.from_numpy(a)
    assert t.read_only
    assert t[1:].read_only
    assert not t.to_numpy().flags.writeable
    with pytest.raises(TensorError, match="ML427"):
        t[0] = 1.0
    with pytest.raises(TensorError, match="ML427"):
        t.inplace_copy_from(t.copy())
    assert not t.copy().read_only


@pytest.mark.parametrize("bad", [[1, 2], 3.0, None])
def test_from_numpy_takes_arrays_only(bad: Any) -> None:
    with pytest.raises(TypeError, match="ML421"):
        Tensor.from_numpy(bad)


def test_from_numpy_of_unsupported_dtypes() -> None:
    for array in (np.zeros(2, np.complex64), np.array(["a"]), np.zeros(2, ">f4")):
        with pytest.raises(DTypeError, match="ML103"):
            Tensor.from_numpy(array)


def test_small_floats() -> None:
    bf = Tensor.from_numpy(np.array([1.5, -2], ml_dtypes.bfloat16))
    assert bf.dtype is DType.bfloat16
    with pytest.raises(
        ValueError, match=r"bfloat16.*ML428[\s\S]*to_ml_numpy.*view\(DType.uint16\)"
    ):
        bf.to_numpy()
    with pytest.raises(ValueError, match="ML428"):
        np.asarray(bf)
    assert bf.to_ml_numpy().tolist() == [1.5, -2]
    assert bf.view(DType.uint16).to_numpy().tolist() == [0x3FC0, 0xC000]
    assert bf[1].item() == -2.0
    bf[0] = 3.0
    assert bf.to_ml_numpy()[0] == 3
    f8 = Tensor.from_numpy(np.array([1.5], ml_dtypes.float8_e4m3fn))
    assert f8.to_numpy().dtype == np.uint8
    assert f8[0].item() == 1.5
    with pytest.raises(ValueError, match="ML428"):
        Tensor(DType.float4_e2m1fn, [2]).to_numpy()


def test_array_protocol() -> None:
    t = Tensor.from_numpy(counted(3))
    assert np.asarray(t, dtype=np.float64).dtype == np.float64
    assert np.array(t, copy=True).ctypes.data != t.address
    with pytest.raises(ValueError, match="ML422"):
        np.asarray(t, dtype=np.float64, copy=False)


# ------------------------------------------------------------------ views

INDICES: list[Any] = [
    0, -1, (0, 1), (1, -1, 2), ..., None, slice(None), slice(1, None), slice(None, None, -1),
    (slice(None), 1), (..., 0), (0, ..., slice(None, None, 2)), (slice(5, 1),), (None, 0, None),
    (slice(-2, None), slice(None, None, -2)), (np.int64(1), np.uint8(2)), (), slice(10, 20),
]  # fmt: skip


@pytest.mark.parametrize("index", INDICES, ids=repr)
def test_indexing_is_numpys_and_aliases(index: Any) -> None:
    a = counted(2, 3, 4)
    t = Tensor.from_numpy(a)[index]
    expected = a[index]
    assert t.shape == expected.shape
    np.testing.assert_array_equal(t.to_numpy(), expected)
    if t.num_elements:
        t[...] = -1.0
        assert (a[index] == -1).all()
        assert (a == -1).sum() == expected.size


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (2, "index 2 is outside of axis 0"), (-3, "outside of axis 0"), ((0, 0, 9), "axis 2"),
        ((..., 4), "axis 2"), ((0, 0, 0, 0), "4 indices"), ((..., ...), "2 indices|once|0 indices"),
        ("a", "indexed by str"), ([0, 9], "not all of these"), (True, "indexed by bool"),
        (np.array([0.5]), "not all of these"), ({}, "indexed by dict"), (1.0, "indexed by float"),
    ],
    ids=repr,
)  # fmt: skip
def test_indexing_refuses(index: Any, message: str) -> None:
    t = Tensor.from_numpy(counted(2, 3, 4))
    with pytest.raises(TensorIndexError, match=message):
        t[index]
    with pytest.raises(IndexError):
        t[index] = 0.0


def test_setting_items() -> None:
    t = Tensor.zeros([2, 3], DType.int32)
    t[0, 1] = 5
    t[1] = np.array([1, 2, 3])
    t[0, 2] = np.int64(9)
    t[:, 0] = Tensor.from_numpy(np.array([7, 8], np.int32))
    t[0, 1:2] = [4]
    assert t.to_numpy().tolist() == [[7, 4, 9], [8, 2, 3]]
    for value in (1.5, 1 << 40, np.array([1.5]), np.array([1 << 40])):
        with pytest.raises(ValueError, match="ML102"):
            t[0, 0] = value
    with pytest.raises(ValueError, match="ML422"):
        t[0] = np.array([1, 2])
    with pytest.raises(TypeError, match="ML105"):
        t[0, 0] = "1"


def test_iteration() -> None:
    t = Tensor.from_numpy(counted(3, 2))
    rows = list(t)
    assert [r.to_numpy().tolist() for r in rows] == [[0, 1], [2, 3], [4, 5]]
    rows[2][0] = 40.0
    assert t.to_numpy()[2, 0] == 40
    assert list(Tensor.zeros([0, 2], DType.int8)) == []
    with pytest.raises(TypeError, match="ML421"):
        iter(Tensor.scalar(1, DType.int8))


VIEWS: list[tuple[str, tuple[int, ...], str, tuple[int, ...] | None]] = [
    ("f4", (2, 4), "u1", None), ("u1", (2, 16), "f4", None), ("f4", (2, 4), "i4", None),
    ("f4", (2, 4), "f8", None), ("f4", (2, 4), "f4", (8,)), ("f4", (2, 4), "u1", (4, 8)),
    ("f4", (), "i4", None), ("f4", (), "u1", (4,)), ("f4", (0, 4), "u1", None),
    ("i8", (3,), "i2", (2, 6)), ("u1", (4,), "u4", ()),
]  # fmt: skip


@pytest.mark.parametrize(("old", "shape", "new", "to"), VIEWS)
def test_views_are_numpys_and_alias(
    old: str, shape: tuple[int, ...], new: str, to: tuple[int, ...] | None
) -> None:
    a = counted(*shape, dtype=old)
    t = Tensor.from_numpy(a)
    dtype = DType.from_numpy(np.dtype(new))
    seen = t.view(dtype, to)
    raw = a.reshape(-1).view(new)
    expected = raw.reshape(to) if to is not None else a.view(new)
    np.testing.assert_array_equal(seen.to_numpy(), expected)
    assert seen._owner is t._owner


@pytest.mark.parametrize(
    ("shape", "dtype", "to", "message"),
    [
        ((2, 3), DType.float64, None, "rows have 12 bytes"),
        ((), DType.uint8, None, "scalar"),
        ((2, 3), DType.float32, [7], "24 bytes"),
        ((2, 3), DType.uint8, [2, 3], "24 bytes"),
    ],
)
def test_views_refuse(shape: Any, dtype: DType, to: Any, message: str) -> None:
    with pytest.raises(ValueError, match=rf"ML422[\s\S]*{message}"):
        Tensor(DType.float32, shape).view(dtype, to)


def test_views_of_strided_tensors() -> None:
    a = counted(4, 6)
    rows = Tensor.from_numpy(a)[::2]
    np.testing.assert_array_equal(rows.view(DType.uint8).to_numpy(), a[::2].view(np.uint8))
    np.testing.assert_array_equal(rows.view(DType.int32).to_numpy(), a[::2].view(np.int32))
    np.testing.assert_array_equal(rows.view(DType.float64).to_numpy(), a[::2].view(np.float64))
    columns = Tensor.from_numpy(a)[:, ::2]
    for dtype, shape in [(DType.uint8, None), (DType.int32, [12])]:
        with pytest.raises(ValueError, match="ML422"):
            columns.view(dtype, shape)


@pytest.mark.parametrize(
    ("index", "contiguous"),
    [
        ((), True), (0, True), (slice(0, 1), True), (slice(1, 3), True), ((0, slice(1, 3)), True),
        ((slice(None), 0), False), ((slice(None), slice(0, 1)), False),
        (slice(None, None, -1), False),
        ((..., None), True), (slice(3, 3), True), ((slice(0, 1), slice(0, 2)), True),
    ],
    ids=repr,
)  # fmt: skip
def test_contiguity(index: Any, contiguous: bool) -> None:
    a = counted(3, 4)
    t = Tensor.from_numpy(a)[index]
    assert bool(t.is_contiguous) is contiguous
    made = t.contiguous()
    assert made.is_contiguous
    assert made.address != t.address
    np.testing.assert_array_equal(made.to_numpy(), a[index])


@st.composite
def _index(draw: st.DrawFn, rank: int) -> tuple[Any, ...]:
    """A random index that NumPy may or may not accept."""
    bound = st.none() | st.integers(-6, 6)
    step = st.none() | st.sampled_from([-3, -2, -1, 1, 2, 3])
    item = st.integers(-5, 5) | st.builds(slice, bound, bound, step) | st.none() | st.just(...)
    return tuple(draw(st.lists(item, max_size=rank + 1)))


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_any_chain_of_views_is_numpys(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(0, 5), max_size=4)))
    a = counted(*shape, dtype=data.draw(st.sampled_from(["u1", "i2", "f4", "f8"])))
    t, expected = Tensor.from_numpy(a), a
    for _ in range(data.draw(st.integers(1, 3))):
        index = data.draw(_index(expected.ndim))
        try:
            expected = expected[(*index, ...) if ... not in index else index]
        except IndexError:
            with pytest.raises(IndexError):
                t[index]
            return
        t = t[index]
        np.testing.assert_array_equal(t.to_numpy(), expected)
        assert np.may_share_memory(t.to_numpy(), a) or not t.num_elements
    if expected.flags.c_contiguous:
        assert t.is_contiguous or -1 in np.sign(t.strides)
    else:
        assert not t.is_contiguous
    np.testing.assert_array_equal(t.copy().to_numpy(), expected)
    np.testing.assert_array_equal(np.from_dlpack(t), expected)


# ------------------------------------------------------------------ copies


def test_copy_and_to() -> None:
    t = Tensor.from_numpy(counted(2, 3))
    stream = DeviceStream(CPU())
    for made in (
        t.copy(),
        t.copy(CPU()),
        t.copy(device=CPU()),
        t.copy(stream),
        t.copy(stream=stream),
    ):
        assert made.address != t.address
        np.testing.assert_array_equal(made.to_numpy(), t.to_numpy())
    assert t.copy(stream).stream is stream
    assert t.to(CPU()) is t
    assert t.to(device=CPU()) is t
    assert t.to(t.stream) is t
    moved = t.to(stream)
    assert (moved.stream is stream, moved.address) == (True, t.address)
    both = t.to([CPU(), CPU()])
    assert both == [t, t]
    assert [x.stream for x in t.to(streams=[stream, t.stream])] == [stream, t.stream]
    for bad in ({}, {"device": CPU(), "stream": stream}, {"device": "tpu"}, {"device": 3}):
        with pytest.raises(TypeError, match="ML421"):
            t.to(**bad)


def test_inplace_copy_from() -> None:
    a, b = Tensor.from_numpy(counted(2, 3)), Tensor.zeros([6], DType.float32)
    b.inplace_copy_from(a)
    assert b.to_numpy().tolist() == [0, 1, 2, 3, 4, 5]
    shifted = Tensor.from_numpy(counted(8))
    shifted[1:].inplace_copy_from(shifted[:-1])
    assert shifted.to_numpy().tolist() == [0, 0, 1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Tensor(DType.int32, [6]), "dtypes float32 and int32 differ"),
        (lambda: Tensor(DType.float32, [5]), "6 elements were expected, got 5"),
        (lambda: Tensor(DType.float32, [6, 2])[:, 0], "the source is not contiguous"),
    ],
)
def test_inplace_copy_from_refuses(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=rf"{message}[\s\S]*ML422"):
        Tensor(DType.float32, [6]).inplace_copy_from(make())


def test_item_needs_rank_0() -> None:
    with pytest.raises(ValueError, match="ML422"):
        Tensor.zeros([1], DType.int8).item()
    assert Tensor.scalar(True, DType.bool).item() is True
    assert Tensor.zeros([2], DType.int8)[0].item() == 0


def test_pickle_and_deepcopy_make_own_memory() -> None:
    t = Tensor.from_numpy(counted(3, 4))[:, 1::2]
    for made in (pickle.loads(pickle.dumps(t)), copy.deepcopy(t)):
        np.testing.assert_array_equal(made.to_numpy(), t.to_numpy())
        assert made.address != t.address


def test_repr_has_the_numbers_of_numpy_then_the_facts() -> None:
    assert repr(Tensor.zeros([2, 3], DType.float32)) == (
        "Tensor([[0., 0., 0.],\n        [0., 0., 0.]], dtype=float32, shape=(2, 3), device=cpu:0)"
    )
    assert repr(Tensor.zeros([0, 3], DType.int8)) == (
        "Tensor([], dtype=int8, shape=(0, 3), device=cpu:0)"
    )


def test_repr_of_many_elements_has_the_corners() -> None:
    array = np.arange(300 * 40, dtype=np.float32).reshape(300, 40)
    numbers = np.array2string(array, separator=", ", prefix="Tensor(")
    assert repr(Tensor.from_numpy(array)).startswith(f"Tensor({numbers}")
    flat = np.arange(2000)
    assert repr(Tensor.from_numpy(flat)).startswith(
        "Tensor([   0,    1,    2, ..., 1997, 1998, 1999]"
    )


# ------------------------------------------------------------------ mapped files


def test_mmap(tmp_path: Path) -> None:
    file = tmp_path / "weights.bin"
    counted(4, 4).tofile(file)
    t = Tensor.mmap(file, DType.float32, (2, 4), offset=32)
    assert t.to_numpy().tolist() == counted(4, 4)[2:].tolist()
    t[0, 0] = -1.0
    assert np.fromfile(file, np.float32)[8] == 8, "copy on write leaves the file alone"
    shared = Tensor.mmap(str(file), DType.float32, 16, "readwrite")
    shared[8] = -2.0
    assert np.fromfile(file, np.float32)[8] == -2
    fixed = Tensor.mmap(file, DType.bfloat16, [32], mode="readonly")
    assert fixed.read_only
    assert fixed.to_ml_numpy().dtype == ml_dtypes.bfloat16
    made = Tensor.mmap(tmp_path / "new.bin", DType.uint8, [8], mode="w+")
    assert made.to_numpy().tolist() == [0] * 8
    assert Tensor.mmap(file, DType.float32, [0]).shape == (0,)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((DType.float32, [17]), "64 bytes, expected 68"),
        ((DType.float32, [16], "copyonwrite", 4), "expected 68"),
        ((DType.float32, [1], "rw"), "mode 'rw'"),
        ((DType.float32, [1], "r", -4), "offset -4"),
    ],
)
def test_mmap_refuses(tmp_path: Path, arguments: Any, message: str) -> None:
    file = tmp_path / "weights.bin"
    counted(16).tofile(file)
    with pytest.raises(ValueError, match=rf"{message}[\s\S]*ML425"):
        Tensor.mmap(file, *arguments)
    with pytest.raises(OSError, match="no-such"):
        Tensor.mmap(tmp_path / "no-such", DType.uint8, [1])


def test_messages_read_no_element() -> None:
    tensor = Tensor.from_numpy(np.array([41.5, 2.25], np.float32))
    assert "41.5" in repr(tensor)
    for text in (shown(tensor), shown([tensor]), shown({"x": tensor})):
        assert "Tensor(dtype=float32, shape=(2,), device=cpu:0)" in text
        assert "41.5" not in text

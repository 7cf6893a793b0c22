"""DLPack both ways: versioned and older capsules, ownership, read-only memory."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

from maxlab.driver import DLPackArray, ExportError, Tensor
from maxlab.driver.dlpack import Imported, _exported
from maxlab.dtype import DType
from maxlab.errors import DeviceError, DTypeError, TensorError


class Wrapped:
    """An array of another library: it speaks DLPack and nothing else."""

    def __init__(self, array: Any, versions: bool = True, device: tuple[int, int] = (1, 0)) -> None:
        self.array = array
        self.versions = versions
        self.device = device

    def __dlpack__(self, **kwargs: Any) -> Any:
        if not self.versions and kwargs:
            raise TypeError("unexpected keyword argument 'max_version'")
        return self.array.__dlpack__(**kwargs)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device


def floats(*shape: int) -> np.ndarray[Any, Any]:
    return np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)


@pytest.mark.parametrize("dtype", [d for d in DType if d is not DType.float4_e2m1fn], ids=str)
@pytest.mark.parametrize("version", [None, (1, 0), (0, 8), (1, 3)], ids=str)
def test_round_trip_of_every_dtype(dtype: DType, version: tuple[int, int] | None) -> None:
    t = Tensor(dtype, [2, 3])
    t.view(DType.uint8)[...] = 1
    again = Imported(t.__dlpack__(max_version=version))
    assert (again.dtype, again.shape, again.address) == (dtype, (2, 3), t.address)
    assert again.strides == (3, 1)


@pytest.mark.parametrize("versions", [True, False])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 4)], ids=str)
def test_import_shares_memory_and_gives_it_back(versions: bool, shape: tuple[int, ...]) -> None:
    a = floats(*shape)
    alive = weakref.ref(a)
    t = Tensor.from_dlpack(Wrapped(a, versions))
    assert t.shape == shape
    np.testing.assert_array_equal(t.to_numpy(), a)
    if a.size:
        t[...] = 5.0
        assert (a == 5).all()
    view = t[...]
    del a, t
    gc.collect()
    assert alive() is not None
    del view
    gc.collect()
    assert alive() is None


def test_import_keeps_strides() -> None:
    a = floats(4, 6)
    for part in (a[::2, 1::2], a.T, a[::-1], a[:, :1]):
        for source in (part, Wrapped(part)):
            t = Tensor.from_dlpack(source)
            np.testing.assert_array_equal(t.to_numpy(), part)
            assert np.shares_memory(t.to_numpy(), a)


def test_import_of_own_tensors() -> None:
    t = Tensor.from_numpy(floats(3))
    assert Tensor.from_dlpack(t).address == t.address
    assert Tensor.from_dlpack(t, copy=True).address != t.address


def test_copy_argument() -> None:
    a = floats(3)
    assert Tensor.from_dlpack(a, copy=True).address != a.ctypes.data
    assert Tensor.from_dlpack(a, copy=False).address == a.ctypes.data
    odd = np.zeros(4, np.dtype([("a", "u1"), ("b", "<f4")]))["b"]
    assert Tensor.from_dlpack(odd).to_numpy().tolist() == [0] * 4
    with pytest.raises(ValueError, match="ML422"):
        Tensor.from_dlpack(odd, copy=False)


def test_read_only_memory_stays_read_only() -> None:
    a = floats(3)
    a.flags.writeable = False
    for source in (a, Wrapped(a)):
        t = Tensor.from_dlpack(source)
        assert t.read_only
        assert not np.from_dlpack(t).flags.writeable
        with pytest.raises(BufferError, match="ML424"):
            t.__dlpack__(copy=False)
        assert Tensor.from_dlpack(t, copy=True).read_only is False


def test_export_outlives_the_tensor() -> None:
    t = Tensor.from_numpy(floats(4))
    a = np.from_dlpack(t)
    expected = floats(4)
    t[0] = expected[0] = 9.0
    del t
    gc.collect()
    np.testing.assert_array_equal(a, expected)


def test_capsules_release_memory_used_or_not() -> None:
    gc.collect()
    before = len(_exported)
    a = floats(4)
    alive = weakref.ref(a)
    t = Tensor.from_numpy(a)
    unused = t.__dlpack__()
    used = np.from_dlpack(t)
    assert len(_exported) == before + 2
    del t, a, unused
    gc.collect()
    assert len(_exported) == before + 1
    assert alive() is not None
    del used
    gc.collect()
    assert len(_exported) == before
    assert alive() is None


def test_a_capsule_is_taken_once() -> None:
    capsule = floats(2).__dlpack__()
    Imported(capsule)
    with pytest.raises(TensorError, match=r"used_dltensor.*ML423"):
        Imported(capsule)


def test_copies_are_marked() -> None:
    t = Tensor.from_numpy(floats(2))
    assert Imported(t.__dlpack__(copy=True, max_version=(1, 0))).address != t.address


@pytest.mark.parametrize("request_", [{"stream": 3}, {"dl_device": (2, 0)}])
def test_export_refuses(request_: dict[str, Any]) -> None:
    with pytest.raises(ExportError, match="ML424"):
        Tensor.from_numpy(floats(2)).__dlpack__(**request_)


def test_export_of_4_bit_floats() -> None:
    with pytest.raises(BufferError, match="float4_e2m1fn"):
        Tensor(DType.float4_e2m1fn, [2]).__dlpack__()


def test_import_refuses() -> None:
    with pytest.raises(DeviceError, match="ML410"):
        Tensor.from_dlpack(Wrapped(floats(2), device=(2, 0)))
    with pytest.raises(TypeError, match="ML421"):
        Tensor.from_dlpack([1, 2])
    with pytest.raises(DTypeError, match="ML103"):
        Tensor.from_dlpack(Wrapped(np.zeros(2, np.complex64)))


def test_protocol() -> None:
    assert isinstance(Tensor(DType.int8, [1]), DLPackArray)
    assert isinstance(np.zeros(1), DLPackArray)
    assert not isinstance([1], DLPackArray)
    assert Tensor(DType.int8, [1]).__dlpack_device__() == (1, 0)


@pytest.mark.oracle
def test_torch_both_ways() -> None:
    import torch

    for name in ("float32", "bfloat16", "int64", "bool"):
        source = torch.zeros((2, 3), dtype=getattr(torch, name))
        t = Tensor.from_dlpack(source)
        assert (t.dtype, t.shape, t.address) == (DType[name], (2, 3), source.data_ptr())
        back = torch.from_dlpack(t)
        assert (back.dtype, back.data_ptr()) == (source.dtype, source.data_ptr())

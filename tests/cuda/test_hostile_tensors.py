"""Tensors on devices against NumPy: pairs of places, strides, streams, and what they refuse."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from maxlab.driver import CPU, Accelerator, Device, DeviceStream, Tensor, accelerator_count
from maxlab.driver.sim.device import SimContext
from maxlab.dtype import DType
from maxlab.errors import (
    ArgumentTypeError,
    DeviceError,
    DTypeError,
    MaxlabError,
    TensorError,
)
from tests.cuda.conftest import ON_A_GPU

Array = np.ndarray[Any, Any]
F32 = DType.float32
INDICES = {
    "every other row": np.s_[::2],
    "backwards": np.s_[::-1],
    "both ways": np.s_[:, ::-2, 1::3],
    "a row": np.s_[2],
    "a column": np.s_[:, 3],
    "the first of each": np.s_[..., None, 0],
    "nothing": np.s_[1:1],
    "one element": np.s_[5, 4, 6],
    "everything": np.s_[...],
}


@pytest.fixture(scope="module")
def places(_device: None) -> list[Device]:
    """The host and two accelerators, or one where there are no two."""
    return [CPU(), *(Accelerator(n) for n in range(min(accelerator_count(), 2)))]


def down(tensor: Tensor) -> Array:
    """The elements of ``tensor``."""
    return tensor.to(CPU()).to_numpy()


@pytest.mark.parametrize("index", INDICES.values(), ids=list(INDICES))
@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float32, np.float64])
def test_parts_move_anywhere(dtype: Any, index: Any, places: list[Device]) -> None:
    data = np.random.default_rng(0).integers(0, 100, (6, 5, 7)).astype(dtype)
    for source in places:
        base = Tensor.from_numpy(data.copy()).to(source)
        part = base[index]
        for target in places:
            np.testing.assert_array_equal(down(part.to(target)), data[index])
            copy = part.copy(target)
            assert copy.device is target
            assert copy.is_contiguous
            copy[...] = 0  # it has memory of its own
            np.testing.assert_array_equal(down(base), data)
            into = Tensor.zeros(data.shape, base.dtype, target)
            into[index] = part
            want = np.zeros_like(data)
            want[index] = data[index]
            np.testing.assert_array_equal(down(into), want)
        again = pickle.loads(pickle.dumps(part))
        assert again.device is source
        np.testing.assert_array_equal(down(again), data[index])


@pytest.mark.parametrize("pinned", [(False, False), (False, True), (True, False), (True, True)])
def test_copies_in_place_between_all_devices(
    pinned: tuple[bool, bool], places: list[Device]
) -> None:
    numbers = np.arange(12, dtype=np.float32)
    for source in places:
        for target in places:
            start = Tensor(F32, [12], source, pinned=pinned[0])
            start.inplace_copy_from(Tensor.from_numpy(numbers))
            goal = Tensor(F32, [3, 4], target, pinned=pinned[1])
            goal.inplace_copy_from(start)
            np.testing.assert_array_equal(down(goal).ravel(), numbers)
            for bad in (start[::-1], start[:11], start.view(DType.int32)):
                with pytest.raises(TensorError, match="ML422"):
                    goal.inplace_copy_from(bad)


def test_views_are_the_same_memory(gpu: Accelerator) -> None:
    x = Tensor.from_numpy(np.arange(12, dtype=np.float32).reshape(3, 4)).to(gpu)
    x[:, ::2][0] = 9.0
    x[1, 1] = -1
    x[::-1][0, 3] = 5
    want = np.arange(12, dtype=np.float32).reshape(3, 4)
    want[0, ::2], want[1, 1], want[2, 3] = 9, -1, 5
    np.testing.assert_array_equal(down(x), want)
    x.view(DType.uint8, [48])[:4] = 0
    assert down(x)[0, 0] == 0
    rows = x.view(DType.int16)[:, 2:4].view(DType.float32)
    np.testing.assert_array_equal(down(rows), want[:, 1:2])
    for row, expected in zip(x, down(x), strict=True):
        np.testing.assert_array_equal(down(row), expected)


@pytest.mark.parametrize("offset", range(1, 8))
def test_strided_copies_of_views_that_begin_anywhere(
    offset: int, gpu: Accelerator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A device faults when a word is read where no word begins: it is read in parts."""
    usual, widths = SimContext.launch, []

    def launch(self: SimContext, queue: Any, function: Any, *rest: Any) -> None:
        width = int(function.name.removeprefix("mx_copy_strided_u")) // 8
        assert all(address % width == 0 for address in rest[-1][:2])
        widths.append(width)
        usual(self, queue, function, *rest)

    monkeypatch.setattr(SimContext, "launch", launch)
    data = np.random.default_rng(offset).integers(0, 256, 8 * 24 + offset, np.uint8)
    there = Tensor.from_numpy(data).to(gpu)[offset:]
    for dtype in (DType.int16, DType.float32, DType.uint64):
        part = there.view(dtype).view(dtype, [6, there.num_elements // (6 * dtype.size_in_bytes)])
        want = data[offset:].view(dtype.to_numpy()).reshape(part.shape)[::-2, 1:]
        got = down(part[::-2, 1:]).view(np.uint8)
        np.testing.assert_array_equal(got, np.ascontiguousarray(want).view(np.uint8))
    even = offset & -offset  # the largest power of two that the first byte is at
    assert ON_A_GPU or widths == [min(2, even), min(4, even), min(8, even)]


def test_a_part_keeps_the_whole_alive(gpu: Accelerator) -> None:
    part = Tensor.from_numpy(np.arange(1000, dtype=np.float32)).to(gpu)[990:]
    others = [Tensor.zeros([1000], F32, gpu) for _ in range(4)]
    np.testing.assert_array_equal(down(part), np.arange(990, 1000))
    assert len({t.address for t in others}) == 4


def test_streams_share_memory_and_order(places: list[Device]) -> None:
    gpu, last = places[1], places[-1]
    side, far = DeviceStream(gpu), DeviceStream(last)
    x = Tensor.from_numpy(np.arange(5, dtype=np.float32)).to(gpu)
    there = x.to(side)
    assert there.stream is side
    there[0] = 7
    assert down(x)[0] == 7
    copy = there.copy(far)
    assert copy.device is last
    np.testing.assert_array_equal(down(copy), down(x))
    with pytest.raises(ArgumentTypeError, match="ML421"):
        Tensor(F32, [3], CPU(), stream=side)  # type: ignore[call-overload]
    with pytest.raises(ArgumentTypeError, match="ML404"):
        side.wait_for(3)  # type: ignore[call-overload]
    CPU().default_stream.wait_for(side)


def test_nothing_and_numbers(gpu: Accelerator) -> None:
    for shape in ([0], [0, 3], [3, 0, 2]):
        empty = Tensor.zeros(shape, F32, gpu)
        assert down(empty).shape == tuple(shape)
        empty.inplace_copy_from(Tensor.zeros([0], F32))
        empty[...] = 3
    number = Tensor.scalar(2.5, F32, gpu)
    number[()] = 3
    assert number.item() == 3
    assert bool(np.isnan(Tensor.scalar(float("nan"), F32, gpu).item()))


def test_what_devices_refuse(gpu: Accelerator) -> None:
    x = Tensor.from_numpy(np.zeros(3, np.float32)).to(gpu)
    refused: list[tuple[type[MaxlabError], str, Any]] = [
        (TensorError, "ML446", x.to_numpy),
        (TensorError, "ML446", lambda: np.asarray(x)),
        (TensorError, "ML422", x.item),
        (TensorError, "ML420", lambda: Tensor(F32, [-1], gpu)),
        (TensorError, "ML420", lambda: Tensor(F32, [1 << 70], gpu)),
        (TensorError, "ML420", lambda: Tensor(F32, [1 << 40, 1 << 40], gpu)),
        (DeviceError, "ML403", lambda: Tensor(F32, [1 << 45], gpu)),
        (TensorError, "ML422", lambda: x.__setitem__(slice(None), np.zeros(2, np.float32))),
        (DTypeError, "ML102", lambda: x.view(DType.uint8).__setitem__(0, 300)),
        (TensorError, "ML422", lambda: x.view(DType.float64)),
    ]
    for kind, code, work in refused:
        with pytest.raises(kind, match=code):
            work()
    with pytest.raises(IndexError, match="ML426"):
        x[5]
    nine = Tensor.from_numpy(np.zeros((3,) * 9, np.uint8)).to(gpu)
    assert nine[(slice(None, None, 2),) * 9].contiguous().shape == (2,) * 9  # in parts
    np.testing.assert_array_equal(down(x), np.zeros(3))


@pytest.mark.skipif(ON_A_GPU, reason="a real device does export")
def test_simulated_memory_is_exported_to_nobody(gpu: Accelerator) -> None:
    x = Tensor.zeros([3], F32, gpu)
    for tensor in (x, Tensor(F32, [3], gpu, pinned=True)):
        with pytest.raises(BufferError, match="ML424"):
            np.from_dlpack(tensor)
        assert not hasattr(tensor, "__cuda_array_interface__")
    np.testing.assert_array_equal(np.from_dlpack(x.to(CPU())), np.zeros(3))
    assert Tensor.from_dlpack(x).address == x.address

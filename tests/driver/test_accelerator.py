"""Accelerators, their streams, memory and tensors; on the simulator, which all machines have."""

from __future__ import annotations

import gc
import pickle
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from maxlab import driver
from maxlab.driver import CPU, Accelerator, DeviceSpec, DeviceStream, Tensor, gpu_memory, lanes
from maxlab.driver.gpu_memory import DeviceBlock
from maxlab.driver.gpu_stream import AcceleratorStream
from maxlab.driver.lanes import Lane
from maxlab.dtype import DType
from maxlab.errors import ArgumentError, DeviceError, TensorError

F32 = DType.float32


@pytest.fixture(autouse=True)
def _simulated() -> Iterator[None]:
    with driver.simulated(2):
        yield


def up(array: Any, id: int = 0) -> Tensor:
    """``array`` on an accelerator."""
    return Tensor.from_numpy(np.ascontiguousarray(array)).to(Accelerator(id))


def down(tensor: Tensor) -> Any:
    """The elements of ``tensor``."""
    return tensor.to(CPU()).to_numpy()


def floats(*shape: int) -> Any:
    """Numbers from 0 on."""
    return np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)


# ---------------------------------------------------------------- devices
def test_one_object_stands_for_each_device() -> None:
    one = Accelerator()
    assert one is Accelerator(0) is Accelerator(-1)
    assert one is not Accelerator(1)
    assert (one.id, one.label, one.api, one.is_host, one.is_compatible) == (
        0, "gpu", "cuda", False, True,
    )  # fmt: skip
    assert one.simulated
    assert one.architecture_name.startswith("sm_")
    assert repr(one) == "Device(type=gpu,id=0,simulated)"
    assert pickle.loads(pickle.dumps(one)) is one
    assert one.can_access(Accelerator(1))
    assert not one.can_access(CPU())
    assert not CPU().can_access(one)
    with pytest.raises(DeviceError, match=r"accelerator 2 was asked for, and there are 2"):
        Accelerator(2)


def test_what_there_is() -> None:
    assert driver.accelerator_count() == 2
    assert driver.accelerator_api() == "cuda"
    assert driver.accelerator_architecture_name() == Accelerator().architecture_name
    specs = driver.scan_available_devices()
    assert specs == [DeviceSpec.accelerator(0), DeviceSpec.accelerator(1)]
    assert driver.devices_exist(specs)
    assert not driver.devices_exist([DeviceSpec.accelerator(2)])
    assert driver.load_devices([*specs, DeviceSpec.cpu()]) == [
        Accelerator(0), Accelerator(1), CPU(),
    ]  # fmt: skip


def test_the_simulator_is_only_there_when_asked_for() -> None:
    inside = Accelerator()
    with driver.simulated(1):
        assert driver.accelerator_count() == 1
        assert Accelerator() is not inside
    assert Accelerator() is inside
    driver.use_simulator(3)
    assert driver.accelerator_count() == 3
    with pytest.raises(ArgumentError, match="ML447"):
        driver.use_simulator(-1)


# ---------------------------------------------------------------- memory
def test_a_memory_limit_holds_and_the_first_one_counts() -> None:
    with driver.simulated():
        gpu = Accelerator(0, 10_000)
        assert Accelerator(0, 99).stats["memory_limit"] == 10_000
        held = Tensor(DType.uint8, [6000], gpu)
        with pytest.raises(DeviceError, match=r"cannot allocate 6000 bytes[\s\S]*limit is 10000"):
            Tensor(DType.uint8, [6000], gpu)
        del held
        Tensor(DType.uint8, [9000], gpu)  # what is kept for reuse makes room


def test_blocks_are_counted_and_reused() -> None:
    gpu = Accelerator()
    before = gpu.stats
    t = Tensor(F32, [250], gpu)
    assert gpu.stats["used_memory"] == before["used_memory"] + 1000
    address = t.address
    part = t[10:20]
    del t
    assert gpu.stats["used_memory"] == before["used_memory"] + 1000  # a part keeps the block
    del part
    assert gpu.stats["used_memory"] == before["used_memory"]
    assert Tensor(F32, [250], gpu).address == address
    gpu.pool.trim()
    assert gpu.stats["pooled_memory"] == 0
    assert gpu.stats["allocations"] == before["allocations"]


def test_a_block_used_on_two_streams_waits_for_both(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = Accelerator()
    side = DeviceStream(gpu)
    t = Tensor(F32, [64], gpu)
    alias = t.to(side)
    assert alias.stream is side
    block = t._owner
    assert isinstance(block, DeviceBlock)
    assert [*map(id, block.streams)] == [id(side)]
    waited: list[tuple[Lane, Lane]] = []
    home = gpu.default_stream

    def follow(lane: Lane, other: Lane) -> None:
        waited.append((lane, other))
        lanes.follow(lane, other)

    monkeypatch.setattr(gpu_memory, "follow", follow)
    del t, alias, block
    Tensor(F32, [64], gpu)
    assert [(id(lane), id(other)) for lane, other in waited] == [(id(home), id(side))]
    assert home is not side


def test_threads_allocate_and_drop_at_once() -> None:
    gpu = Accelerator()
    before = gpu.stats["used_memory"]
    wrong: list[str] = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for n in rng.integers(1, 400, 60):
            data = np.full(n, seed, np.int32)
            if not np.array_equal(down(up(data)), data):
                wrong.append(f"{seed}: {n}")

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gc.collect()
    assert not wrong
    assert gpu.stats["used_memory"] == before


# ---------------------------------------------------------------- tensors
@pytest.mark.parametrize("dtype", [DType.bool, DType.bfloat16, F32, DType.int64, DType.float64])
def test_values_survive_the_way_there_and_back(dtype: DType) -> None:
    data = (np.arange(24).reshape(2, 3, 4) % 2).astype(dtype.ml_numpy)
    t = Tensor(data.copy(), Accelerator()) if dtype is F32 else up(data)
    assert (t.dtype, t.shape, t.is_host) == (dtype, (2, 3, 4), False)
    assert t.to(Accelerator()) is t
    back = t.to(CPU())
    np.testing.assert_array_equal(back.to_ml_numpy(), data)
    np.testing.assert_array_equal(t.to(Accelerator(1)).to(CPU()).to_ml_numpy(), data)
    there, here = t.to([Accelerator(1), CPU()])
    assert (there.device, here.device) == (Accelerator(1), CPU())


PARTS: list[Any] = [
    np.s_[1], np.s_[:, 1:3], np.s_[::-1], np.s_[..., ::2], np.s_[1, 2, 3], np.s_[:, None, 2],
    np.s_[0:0], np.s_[:, ::-2, 1:],
]  # fmt: skip


@pytest.mark.parametrize("index", PARTS, ids=str)
def test_parts_are_views_and_are_copied_on_the_device(index: Any) -> None:
    data = floats(2, 5, 6)
    t = up(data)
    gpu = Accelerator()
    part = t[index]
    assert part.shape == data[index].shape
    before = gpu.stats["downloads"]
    whole = part.contiguous()
    assert whole.is_contiguous
    assert gpu.stats["downloads"] == before
    np.testing.assert_array_equal(down(whole), data[index])
    np.testing.assert_array_equal(down(part), data[index])
    np.testing.assert_array_equal(down(part.to(Accelerator(1))), data[index])
    part[...] = -1.0
    data[index] = -1.0
    np.testing.assert_array_equal(down(t), data)


def test_elements_are_set_from_values_that_broadcast() -> None:
    data = floats(3, 4)
    t = up(data)
    t[1] = np.array([9, 8, 7, 6], np.float32)
    t[:, 1] = up(np.array([1, 2, 3], np.float32))
    t[2, 3] = 5
    data[1] = [9, 8, 7, 6]
    data[:, 1] = [1, 2, 3]
    data[2, 3] = 5
    np.testing.assert_array_equal(down(t), data)
    with pytest.raises(TensorError, match="ML422"):
        t[0] = np.zeros(3, np.float32)
    assert t[2, 3].item() == 5.0


def test_the_host_cannot_read_it() -> None:
    t = up(floats(2))
    for read in (Tensor.to_numpy, Tensor.to_ml_numpy, np.asarray):
        with pytest.raises(TensorError, match=r"ML446[\s\S]*to\(driver.CPU\(\)\)"):
            read(t)
    with pytest.raises(BufferError, match="ML424"):
        np.from_dlpack(t)
    with pytest.raises(AttributeError, match="__cuda_array_interface__"):
        _ = t.__cuda_array_interface__


def test_making_tensors_there() -> None:
    gpu = Accelerator()
    np.testing.assert_array_equal(down(Tensor.zeros([3, 2], DType.int32, gpu)), np.zeros((3, 2)))
    assert Tensor.scalar(2.5, F32, gpu).item() == 2.5
    assert Tensor.zeros([0, 3], F32, gpu).to(CPU()).shape == (0, 3)
    copy = up(floats(4)).copy(device=Accelerator(1))
    assert copy.device is Accelerator(1)
    t = Tensor(F32, [4], gpu)
    t.inplace_copy_from(copy)
    np.testing.assert_array_equal(down(t), floats(4))
    h = Tensor(F32, [2, 2])
    h.inplace_copy_from(t)
    np.testing.assert_array_equal(h.to_numpy(), floats(2, 2))
    again = pickle.loads(pickle.dumps(t))
    assert again.device is gpu
    np.testing.assert_array_equal(down(again), floats(4))
    np.testing.assert_array_equal(down(t.view(DType.int32)), floats(4).view(np.int32))


def test_pinned_memory_is_for_both() -> None:
    gpu = Accelerator()
    t = Tensor(F32, [3], gpu, pinned=True)
    assert t.pinned
    t.to_numpy()[...] = [1, 2, 3]
    np.testing.assert_array_equal(down(t), [1, 2, 3])
    np.testing.assert_array_equal(down(t.copy()), [1, 2, 3])
    assert not t.copy().pinned


def test_any_number_of_axes_is_copied() -> None:
    data = floats(*[2] * 10)
    t = up(data)
    index = tuple(slice(None, None, -1 if n % 2 else 1) for n in range(10))
    np.testing.assert_array_equal(down(t[index].contiguous()), data[index])
    np.testing.assert_array_equal(down(t[index]), data[index])
    t[index] = np.ascontiguousarray(data)
    np.testing.assert_array_equal(down(t)[index], data)


def test_from_dlpack_of_a_real_gpu_is_refused_while_they_are_simulated() -> None:
    class OnGpu:
        def __dlpack_device__(self) -> tuple[int, int]:
            return 2, 0

        def __dlpack__(self, **_: Any) -> Any:
            raise AssertionError("not asked")

    with pytest.raises(DeviceError, match=r"ML410[\s\S]*use_simulator\(0\)"):
        Tensor.from_dlpack(OnGpu())


# ---------------------------------------------------------------- streams
def test_streams_of_a_device() -> None:
    gpu = Accelerator()
    side = DeviceStream(gpu)
    assert isinstance(side, AcceleratorStream)
    assert side.device is gpu
    assert side is not gpu.default_stream
    assert isinstance(DeviceStream(CPU()), DeviceStream)
    assert not isinstance(DeviceStream(CPU()), AcceleratorStream)
    for other in (gpu.default_stream, CPU().default_stream, gpu, Accelerator(1), CPU()):
        side.wait_for(other)
        CPU().default_stream.wait_for(side)
    side.synchronize()
    gpu.synchronize()
    with pytest.raises(TypeError, match="ML404"):
        side.wait_for(3)  # type: ignore[call-overload]
    t = Tensor(F32, [3], stream=side)
    assert t.stream is side
    assert t.device is gpu


def test_what_a_check_finds_is_raised_once_by_whoever_waits() -> None:
    stream = Accelerator().default_stream

    def bad() -> None:
        raise DeviceError("ML445", "something")

    stream.add_check(bad)
    later: list[int] = []
    stream.add_check(lambda: later.append(1))
    with pytest.raises(DeviceError, match="ML445"):
        stream.synchronize()
    assert not later
    stream.synchronize()
    assert later == [1]

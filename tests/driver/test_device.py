"""Devices, streams and device specifications."""

from __future__ import annotations

import pickle
import threading
from typing import Any

import pytest

from maxlab import driver
from maxlab.driver import CPU, Accelerator, Device, DeviceSpec, DeviceStream, Tensor
from maxlab.dtype import DType
from maxlab.errors import ArgumentTypeError, DeviceError


def test_there_is_one_cpu() -> None:
    assert CPU() is CPU(0) is CPU(3) is Device.cpu()
    cpu = CPU(3)
    assert (cpu.id, cpu.label, cpu.api) == (0, "cpu", "cpu")
    assert cpu.is_host
    assert cpu.is_compatible
    assert isinstance(cpu, Device)
    assert repr(cpu) == "Device(type=cpu,id=0)"
    assert pickle.loads(pickle.dumps(cpu)) is cpu
    assert cpu.can_access(CPU())
    assert cpu.default_stream.device is cpu
    cpu.synchronize()


def test_architecture_name_of_the_cpu() -> None:
    with pytest.raises(ValueError, match="ML402"):
        _ = CPU().architecture_name


def test_bad_cpu_id() -> None:
    with pytest.raises(ValueError, match="ML401"):
        CPU(-2)


def test_stats() -> None:
    before = CPU().stats["used_memory"]
    t = Tensor(DType.uint8, [1000])
    stats = CPU().stats
    assert stats["used_memory"] == before + t.num_elements
    assert stats["total_memory"] > stats["free_memory"] > 0


def test_no_accelerator_is_said_with_its_reason() -> None:
    assert driver.accelerator_count() == 0
    with pytest.raises(DeviceError, match=r"there are 0.*ML410[\s\S]*(PyCUDA|NVIDIA)[\s\S]*fix"):
        Accelerator()
    for arguments in ((-2,), (0, 0), (0, -5)):
        with pytest.raises(ValueError, match="ML410"):
            Accelerator(*arguments)
    assert driver.accelerator_api() == "cpu"
    with pytest.raises(ValueError, match="ML402"):
        driver.accelerator_architecture_name()


def test_specs() -> None:
    assert DeviceSpec.cpu() == DeviceSpec(-1) == DeviceSpec(id=-1, device_type="cpu")
    assert DeviceSpec.accelerator() == DeviceSpec(0, "gpu")
    assert DeviceSpec.accelerator(id=2).id == 2
    assert len({DeviceSpec.cpu(), DeviceSpec.cpu()}) == 1


@pytest.mark.parametrize("arguments", [(-1, "gpu"), (-2, "cpu"), (0, "tpu")])
def test_bad_specs(arguments: Any) -> None:
    with pytest.raises(ValueError, match="ML411"):
        DeviceSpec(*arguments)


def test_scan_exist_load() -> None:
    assert driver.scan_available_devices() == [DeviceSpec.cpu()]
    assert driver.devices_exist([DeviceSpec.cpu(), DeviceSpec(0)])
    assert not driver.devices_exist([DeviceSpec.cpu(), DeviceSpec.accelerator()])
    assert driver.devices_exist([])
    assert driver.load_devices([DeviceSpec.cpu(), DeviceSpec(0)]) == [CPU(), CPU()]
    with pytest.raises(ValueError, match="ML410"):
        driver.load_devices([DeviceSpec.accelerator()])


# ------------------------------------------------------------------ streams


class Slow:
    """An operation that another thread is in the middle of, until it is let go."""

    def __init__(self, stream: DeviceStream) -> None:
        self.log: list[str] = []
        self._begun = threading.Event()
        self._let_go = threading.Event()
        self.thread = threading.Thread(target=stream.run, args=(self._work,))
        self.thread.start()
        assert self._begun.wait(10)

    def _work(self) -> None:
        self._begun.set()
        assert self._let_go.wait(10)
        self.log.append("slow")

    def release(self) -> None:
        """Let the operation end."""
        self._let_go.set()
        self.thread.join(10)


def in_thread(work: Any, slow: Slow, name: str) -> threading.Thread:
    def run() -> None:
        work()
        slow.log.append(name)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_synchronize_waits_for_work_of_other_threads() -> None:
    stream = DeviceStream(CPU())
    slow = Slow(stream)
    waiting = in_thread(stream.synchronize, slow, "synchronized")
    waiting.join(0.05)
    assert waiting.is_alive()
    slow.release()
    waiting.join(10)
    assert slow.log == ["slow", "synchronized"]


def test_a_stream_is_in_order_and_others_are_not_held_up() -> None:
    first, second = DeviceStream(CPU()), DeviceStream(CPU())
    slow = Slow(first)
    second.run(lambda: slow.log.append("other stream"))
    same = in_thread(lambda: first.run(lambda: None), slow, "same stream")
    same.join(0.05)
    assert slow.log == ["other stream"]
    slow.release()
    same.join(10)
    assert slow.log == ["other stream", "slow", "same stream"]


@pytest.mark.parametrize("by", ["stream", "device", "keyword"])
def test_wait_for_orders_two_streams(by: str) -> None:
    cpu = CPU()
    first = cpu.default_stream if by == "device" else DeviceStream(cpu)
    second = DeviceStream(cpu)
    slow = Slow(first)
    if by == "device":
        second.wait_for(cpu)
    elif by == "stream":
        second.wait_for(first)
    else:
        second.wait_for(stream=first)
    copy = in_thread(lambda: Tensor(DType.int8, [4]).copy(second), slow, "copy")
    copy.join(0.05)
    assert copy.is_alive(), "the copy on the second stream must wait for the first"
    slow.release()
    copy.join(10)
    assert slow.log == ["slow", "copy"]


def test_wait_for_only_looks_back() -> None:
    first, second = DeviceStream(CPU()), DeviceStream(CPU())
    second.wait_for(first)
    slow = Slow(first)
    second.run(lambda: slow.log.append("second"))
    slow.release()
    assert slow.log == ["second", "slow"]
    first.wait_for(first)
    first.run(lambda: None)


def test_failed_operations_are_reported_by_synchronize() -> None:
    stream = DeviceStream(CPU())
    with pytest.raises(ZeroDivisionError):
        stream.run(lambda: 1 // 0)
    with pytest.raises(ValueError, match=r"division.*ML405"):
        stream.synchronize()
    stream.synchronize()


def test_bad_streams() -> None:
    with pytest.raises(ArgumentTypeError, match="ML404"):
        DeviceStream("cpu")  # type: ignore[arg-type]
    with pytest.raises(ArgumentTypeError, match="ML404"):
        DeviceStream(CPU()).wait_for(3)  # type: ignore[call-overload]
    with pytest.raises(ArgumentTypeError, match="got both"):
        DeviceStream(CPU()).wait_for(DeviceStream(CPU()), CPU())  # type: ignore[call-overload]


# ------------------------------------------------- the examples of the reference pages


def test_documented_examples(capsys: pytest.CaptureFixture[str]) -> None:
    device = driver.CPU() if driver.accelerator_count() == 0 else driver.Accelerator()
    print(f"Using {device} device")
    assert capsys.readouterr().out == "Using Device(type=cpu,id=0) device\n"

    device = driver.CPU()
    assert (device.api, device.id, device.is_host, device.label) == ("cpu", 0, True, "cpu")
    assert isinstance(device.stats, dict)

    stream = device.default_stream
    new_stream = driver.DeviceStream(device)
    assert new_stream is not stream

    cpu_tensor = driver.Tensor(shape=[2, 3], dtype=DType.float32)
    assert cpu_tensor.shape == (2, 3)
    cpu_tensor = driver.Tensor(shape=[2, 3], dtype=DType.bfloat16, device=driver.CPU())
    assert cpu_tensor.is_host
    cpu_copy = cpu_tensor.copy()
    assert cpu_copy.dtype is DType.bfloat16


def test_documented_gpu_examples_say_what_is_missing() -> None:
    examples: list[dict[str, int]] = [{}, {"id": 0}, {"id": 0, "device_memory_limit": 256 << 20}]
    for arguments in examples:
        with pytest.raises(RuntimeError, match="(PyCUDA|NVIDIA)"):
            driver.Accelerator(**arguments)

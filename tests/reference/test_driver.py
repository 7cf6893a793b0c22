"""The examples of ``driver``; those that need GPUs use simulated ones."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from maxlab import driver
from maxlab.dtype import DType
from tests.reference.examples import example

MB = 2**20
Printed = pytest.CaptureFixture[str]


@pytest.fixture
def gpus() -> Iterator[None]:
    """Two simulated GPUs."""
    with driver.simulated(2):
        yield


@example("driver", 1)
def test_a_gpu_or_the_cpu(capsys: Printed) -> None:
    for count in (0, 1):
        driver.use_simulator(count)
        try:
            device = driver.CPU() if driver.accelerator_count() == 0 else driver.Accelerator()
            print(f"Using {device} device")
            assert device.is_host == (driver.accelerator_count() == 0)
        finally:
            driver.use_simulator(0)
    assert capsys.readouterr().out.splitlines()[1] == "Using Device(type=gpu,id=0,simulated) device"


@example("driver", 2)
def test_accelerator(gpus: None) -> None:
    # the limit is that of the first instance, so this comes first here; the page has no MB
    device = driver.Accelerator(id=0, device_memory_limit=256 * MB)
    device2 = driver.Accelerator(id=0, device_memory_limit=512 * MB)
    assert device2 is device
    assert device2.stats["memory_limit"] == 256 * MB

    device = driver.Accelerator()
    assert device is device2
    device = driver.Accelerator(id=0)
    assert device is device2
    device = driver.Accelerator(id=1)
    device_id = device.id
    assert device_id == 1


@example("driver", 3)
def test_cpu() -> None:
    device = driver.CPU()
    device_id = device.id
    assert device_id == 0
    assert driver.CPU(2).id == 0


@example("driver", 4)
def test_api() -> None:
    device = driver.CPU()
    assert device.api == "cpu"


@example("driver", 5)
def test_architecture_name(gpus: None) -> None:
    device = driver.Accelerator()
    assert device.architecture_name.startswith("sm_")
    with pytest.raises(ValueError, match="has no architecture name"):
        _ = driver.CPU().architecture_name


@example("driver", 6)
def test_can_access(gpus: None, capsys: Printed) -> None:
    gpu0 = driver.Accelerator(id=0)
    gpu1 = driver.Accelerator(id=1)
    if gpu0.can_access(gpu1):
        print("GPU0 can directly access GPU1 memory.")
    assert capsys.readouterr().out == "GPU0 can directly access GPU1 memory.\n"
    assert not gpu0.can_access(driver.CPU())


@example("driver", 7)
def test_id(gpus: None) -> None:
    device = driver.Accelerator()
    device_id = device.id
    assert (device.label, device_id) == ("gpu", 0)


@example("driver", 8)
def test_is_host() -> None:
    device = driver.CPU()
    assert device.is_host is True


@example("driver", 9)
def test_label() -> None:
    device = driver.CPU()
    assert device.label == "cpu"


@example("driver", 10)
def test_stats() -> None:
    device = driver.CPU()
    stats = device.stats
    assert isinstance(stats, dict)
    assert 0 < stats["free_memory"] <= stats["total_memory"]


@example("driver", 11)
def test_streams(gpus: None) -> None:
    device = driver.Accelerator()
    stream = device.default_stream
    new_stream = driver.DeviceStream(device)
    assert stream is device.default_stream
    assert new_stream is not stream
    assert new_stream.device is device


@example("driver", 12)
def test_tensor(gpus: None) -> None:
    cpu_tensor = driver.Tensor(shape=[2, 3], dtype=DType.float32)
    gpu = driver.Accelerator()
    gpu_tensor = driver.Tensor(shape=[2, 3], dtype=DType.float32, device=gpu)
    assert (cpu_tensor.shape, cpu_tensor.dtype) == ((2, 3), DType.float32)
    assert cpu_tensor.device is driver.CPU()
    assert gpu_tensor.device is gpu


@example("driver", 13)
def test_copy(gpus: None) -> None:
    cpu_tensor = driver.Tensor(shape=[2, 3], dtype=DType.bfloat16, device=driver.CPU())
    for place in np.ndindex(2, 3):
        cpu_tensor[place] = 1.5
    cpu_copy = cpu_tensor.copy()
    gpu = driver.Accelerator()
    gpu_copy = cpu_tensor.copy(device=gpu)
    cpu_tensor[0, 0] = 0
    assert cpu_copy[0, 0].item() == 1.5
    assert gpu_copy.device is gpu
    assert gpu_copy.to(driver.CPU())[0, 0].item() == 1.5


@example("driver", 14)
def test_tensor_is_host(capsys: Printed) -> None:
    cpu_tensor = driver.Tensor(shape=[2, 3], dtype=DType.bfloat16, device=driver.CPU())
    print(cpu_tensor.is_host)
    assert capsys.readouterr().out == "True\n"

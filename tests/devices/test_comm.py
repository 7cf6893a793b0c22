"""``nn.comm``: signal buffers, and the layer that adds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from maxlab import driver, nn
from maxlab.dtype import DType
from maxlab.errors import MaxlabError
from maxlab.graph import BufferType, DeviceRef, Graph, TensorType
from tests.devices.places import load, places, put, refs_of, taken
from tests.processes import unfilled

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("which", ["4 cpus", "2 gpus"])
def test_the_layer_adds_what_all_devices_have(which: str) -> None:
    with places(which) as devices:
        refs = refs_of(devices)
        signals = nn.comm.Signals(refs)
        layer = nn.comm.Allreduce(num_accelerators=len(devices))
        assert layer.devices == devices
        count = len(devices)
        types = [TensorType(DType.float32, [3], ref) for ref in refs]
        with Graph("g", input_types=[*types, *signals.input_types()]) as graph:
            xs = [v.tensor for v in graph.inputs[:count]]
            graph.output(*layer(xs, [v.buffer for v in graph.inputs[count:]]))
        arrays = [np.full(3, n + 1, np.float32) for n in range(count)]
        inputs = [put(x, device) for x, device in zip(arrays, devices, strict=True)]
        buffers = signals.buffers()
        assert [b.device for b in buffers] == devices
        for y in load(graph, devices)(*inputs, *buffers):
            np.testing.assert_array_equal(taken(y), sum(arrays))


def test_buffers_are_of_the_size_that_graphs_take() -> None:
    signals = nn.comm.Signals([DeviceRef.CPU(1), DeviceRef.GPU(0)])
    assert nn.comm.Signals.NUM_BYTES == 537_919_488
    assert signals.devices == [DeviceRef.CPU(1), DeviceRef.GPU(0)]
    assert signals.input_types() == [
        BufferType(DType.uint8, [537_919_488], ref) for ref in signals.devices
    ]


MEMORY_OF_BUFFERS = """
from maxlab import nn
from tests.devices.places import places, refs_of

def resident():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096

with places("4 cpus") as devices:
    before = resident()
    buffers = nn.comm.Signals(refs_of(devices)).buffers()
    assert {b.shape for b in buffers} == {(nn.comm.Signals.NUM_BYTES,)}
    print(resident() - before)
"""


def test_buffers_take_no_memory_before_they_are_written() -> None:
    """In a process whose C library does not fill new memory, as that of the tests may."""
    done = subprocess.run(
        [sys.executable, "-c", MEMORY_OF_BUFFERS], cwd=ROOT, env=unfilled(),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 64 << 20


def test_devices_of_the_layer() -> None:
    with driver.simulated(2), driver.virtual_cpus(2):  # accelerators come first
        assert [d.label for d in nn.comm.Allreduce(2).devices] == ["gpu", "gpu"]
    with driver.virtual_cpus(3):
        assert [str(d) for d in nn.comm.Allreduce(2).devices] == [
            "Device(type=cpu,id=0)", "Device(type=cpu,id=1,virtual)",
        ]  # fmt: skip


REFUSED: list[tuple[str, Any]] = [
    ("ML437", lambda: nn.comm.Allreduce(0)),
    ("ML437", lambda: nn.comm.Allreduce("2")),  # type: ignore[arg-type]
    ("ML410", lambda: nn.comm.Allreduce(3)),
    ("ML437", lambda: nn.comm.Allreduce(2)([], [])),
    ("ML435", lambda: nn.comm.Signals([DeviceRef.CPU(1), DeviceRef.CPU(1)])),
    ("ML433", lambda: nn.comm.Signals([DeviceRef.CPU(4)]).buffers()),
]


@pytest.mark.parametrize(("code", "make"), REFUSED)
def test_what_is_refused(code: str, make: Any) -> None:
    with (
        driver.simulated(2),
        driver.virtual_cpus(2),
        pytest.raises(ValueError, match=".") as caught,
    ):
        make()
    assert isinstance(caught.value, MaxlabError)
    assert caught.value.code == code

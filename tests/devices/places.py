"""Several devices for tests: virtual CPUs, simulated GPUs, or both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from maxlab import driver, engine
from maxlab.driver import Device, Tensor
from maxlab.dtype import DType
from maxlab.graph import BufferType, DeviceRef, Graph
from maxlab.opset import is_transfer, is_weight

Array = np.ndarray[Any, Any]
PLACES = ("2 cpus", "4 cpus", "2 gpus", "mixed", "late cpus")


@contextmanager
def places(which: str) -> Iterator[list[Device]]:
    """The devices that ``which`` of ``PLACES`` names."""
    if which == "2 gpus":
        with driver.simulated(2):
            yield [driver.Accelerator(0), driver.Accelerator(1)]
    elif which == "mixed":
        with driver.simulated(1), driver.virtual_cpus(3) as cpus:
            yield [cpus[2], driver.Accelerator(0), cpus[0]]
    elif which == "late cpus":  # without the host
        with driver.virtual_cpus(4) as cpus:
            yield [cpus[3], cpus[1]]
    else:
        with driver.virtual_cpus(int(which[0])) as cpus:
            yield list(cpus)


def refs_of(devices: Sequence[Device]) -> list[DeviceRef]:
    """The names of ``devices`` in graphs."""
    return [DeviceRef.from_device(device) for device in devices]


def signal_types(refs: Sequence[DeviceRef]) -> list[BufferType]:
    """Types of small signal buffers."""
    return [BufferType(DType.uint8, [64], ref) for ref in refs]


def signals(devices: Sequence[Device]) -> list[Tensor]:
    """Small signal buffers."""
    return [Tensor.zeros([64], DType.uint8, device) for device in devices]


def put(array: Array, device: Device) -> Tensor:
    """A copy of ``array`` on ``device``."""
    return Tensor.from_numpy(array).to(device)


def taken(tensor: Tensor) -> Array:
    """What ``tensor`` holds, wherever it is."""
    return tensor.to(driver.CPU()).to_ml_numpy()


def load(graph: Graph, devices: Sequence[Device], **weights: Array) -> engine.Model:
    """``graph`` in a session of ``devices``."""
    session = engine.InferenceSession(devices=devices)
    return session.load(graph, weights_registry=weights)


def weights_on(model: engine.Model) -> dict[int, dict[str, int]]:
    """The bytes of the weights that each device gets, by name: those that the model reads, and
    those that are read once, to compute others of them where they are."""
    found: dict[int, dict[str, int]] = {}
    ahead = model.compiled.ahead
    names = () if ahead is None else model.compiled.plan.facts.ahead.names  # type: ignore[union-attr]
    rows = [
        (slot.device.id, slot.name, int(slot.nbytes.evaluate({})))
        for slot in model.plan.slots
        if slot.kind == "weight" and slot.name not in names
    ]
    for op in () if ahead is None else ahead.function.ops:
        assert not is_transfer(op), "what is computed stays where it is"
        if is_weight(op):
            typed = op.result.tensor_type
            size = typed.num_elements() * typed.dtype.size_in_bytes
            rows.append((typed.device.id, op.attrs["name"], size))
    for device, name, size in rows:
        here = found.setdefault(device, {})
        here[name] = here.get(name, 0) + size
    return found

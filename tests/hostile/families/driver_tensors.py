"""Tensors, devices and streams: each method called with one or two values that nobody should pass.

Devices are simulated GPUs and the CPU. Each argument of a good call is a bad value in some case.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from maxlab import driver
from maxlab.driver import Accelerator, Device, DeviceSpec, DeviceStream, Tensor
from maxlab.dtype import DType
from maxlab.errors import MaxlabError
from tests.graph.bad_values import BAD
from tests.hostile.harness import WEIRD, Case, Family, WrongResultError, deep

F32 = DType.float32
CPU = driver.CPU


class Setting:
    """Tensors and devices for one case."""

    def __init__(self) -> None:
        self.array = np.arange(12, dtype=np.float32).reshape(3, 4)
        self.x = Tensor.from_numpy(self.array.copy())
        self.y = Tensor.zeros([3, 4], F32)
        self.scalar = Tensor.scalar(1.5, F32)
        self.gpu = Accelerator()
        self.there = self.x.to(self.gpu)
        self.side = DeviceStream(self.gpu)
        self.host = DeviceStream(CPU())


class Entry:
    """A call, and the good arguments that bad values stand for one by one.

    Args:
        act: Called with the setting and the arguments.
        *good: Functions of the setting.
    """

    def __init__(self, act: Callable[..., Any], *good: Callable[[Setting], Any]) -> None:
        self.act, self.good = act, good


def _is(value: Any) -> Callable[[Setting], Any]:
    return lambda s: value


def _fresh(make: Callable[[], Any]) -> Callable[[Setting], Any]:
    return lambda s: make()


def _gpu(s: Setting) -> Any:
    return s.gpu


ENTRIES: dict[str, Entry] = {
    "Tensor": Entry(
        lambda s, *given: Tensor(*given), _is(F32), _is([2, 3]), _is(None), _is(False), _is(None)
    ),
    "Tensor on a GPU": Entry(lambda s, *given: Tensor(*given), _is(F32), _is([2, 3]), _gpu),
    "Tensor of an array": Entry(lambda s, *given: Tensor(*given), lambda s: s.array, _gpu),
    "zeros": Entry(
        lambda s, *given: Tensor.zeros(*given), _is([2, 3]), _is(F32), _is(None), _is(False)
    ),
    "zeros on a GPU": Entry(lambda s, *given: Tensor.zeros(*given), _is([2, 3]), _is(F32), _gpu),
    "scalar": Entry(lambda s, *given: Tensor.scalar(*given), _is(1), _is(F32), _is(None)),
    "from_numpy": Entry(lambda s, value: Tensor.from_numpy(value), lambda s: s.array),
    "from_dlpack": Entry(
        lambda s, value, copy: Tensor.from_dlpack(value, copy=copy), lambda s: s.array, _is(None)
    ),
    "mmap": Entry(
        lambda s, *given: Tensor.mmap(*given), _is("nowhere"), _is(F32), _is([2]), _is("r"), _is(0)
    ),
    "view": Entry(lambda s, *given: s.x.view(*given), _is(DType.int32), _is([4, 3])),
    "view on a GPU": Entry(lambda s, *given: s.there.view(*given), _is(DType.uint8), _is([48])),
    "x[_]": Entry(lambda s, index: s.x[index], _is(1)),
    "x[_, _]": Entry(lambda s, a, b: s.x[a, b], _is(1), _is(slice(None))),
    "x[_:_:_]": Entry(lambda s, a, b, c: s.x[a:b:c], _is(0), _is(2), _is(1)),
    "there[_]": Entry(lambda s, index: s.there[index], _is(1)),
    "x[_] = _": Entry(lambda s, index, v: s.x.__setitem__(index, v), _is(1), _is(2.0)),
    "x[:, ::2] = _": Entry(lambda s, v: s.x[:, ::2].__setitem__(slice(None), v), _is(2.0)),
    "there[_] = _": Entry(lambda s, index, v: s.there.__setitem__(index, v), _is(1), _is(2.0)),
    "copy": Entry(lambda s, target: s.x.copy(target), _is(None)),
    "copy from a GPU": Entry(lambda s, target: s.there.copy(target), _is(None)),
    "to": Entry(lambda s, target: s.x.to(target), _gpu),
    "to several": Entry(lambda s, a, b: s.x.to([a, b]), _gpu, lambda s: s.side),
    "to from a GPU": Entry(lambda s, target: s.there.to(target), _is(CPU())),
    "inplace_copy_from": Entry(lambda s, source: s.y.inplace_copy_from(source), lambda s: s.x),
    "inplace_copy_from to a GPU": Entry(
        lambda s, source: s.there.inplace_copy_from(source), lambda s: s.x
    ),
    "__array__": Entry(lambda s, copy: s.x.__array__(copy=copy), _is(None)),
    "__dlpack__": Entry(
        lambda s, a, b, c, d: s.x.__dlpack__(stream=a, max_version=b, dl_device=c, copy=d),
        _is(None), _is((1, 0)), _is((1, 0)), _is(None),
    ),
    "__dlpack__ of a GPU": Entry(
        lambda s, a, b: s.there.__dlpack__(stream=a, max_version=b), _is(None), _is((1, 0))
    ),
    "CPU": Entry(lambda s, n: CPU(n), _is(0)),
    "Device.cpu": Entry(lambda s, n: Device.cpu(n), _is(0)),
    "Accelerator": Entry(lambda s, *given: Accelerator(*given), _is(0), _is(1 << 20)),
    "can_access": Entry(lambda s, other: CPU().can_access(other), _gpu),
    "can_access of a GPU": Entry(lambda s, other: s.gpu.can_access(other), _gpu),
    "DeviceStream": Entry(lambda s, device: DeviceStream(device), _gpu),
    "wait_for": Entry(lambda s, *given: s.host.wait_for(*given), lambda s: s.side, _is(None)),
    "wait_for of a GPU": Entry(lambda s, other: s.side.wait_for(other), lambda s: s.host),
    "wait_for a device": Entry(lambda s, other: s.side.wait_for(device=other), _gpu),
    "DeviceSpec": Entry(lambda s, *given: DeviceSpec(*given), _is(0), _is("gpu")),
    "DeviceSpec.cpu": Entry(lambda s, n: DeviceSpec.cpu(n), _is(0)),
    "DeviceSpec.accelerator": Entry(lambda s, n: DeviceSpec.accelerator(n), _is(0)),
    "devices_exist": Entry(lambda s, one: driver.devices_exist([one]), _is(DeviceSpec.cpu())),
    "devices_exist of": Entry(lambda s, few: driver.devices_exist(few), _is([DeviceSpec.cpu()])),
    "load_devices": Entry(lambda s, one: driver.load_devices([one]), _is(DeviceSpec.cpu())),
    "load_devices of": Entry(lambda s, few: driver.load_devices(few), _is([DeviceSpec.cpu()])),
    "use_simulator": Entry(
        lambda s, count, check: driver.use_simulator(count, check=check), _is(1), _is(False)
    ),
    "use_virtual_cpus": Entry(
        lambda s, count, limit: driver.use_virtual_cpus(count, memory_limit=limit), _is(2), _is(-1)
    ),
    "name_block": Entry(
        lambda s, *given: driver.name_block(*given), lambda s: s.x.address, _is("a")
    ),
    "DType.from_numpy": Entry(lambda s, kind: DType.from_numpy(kind), _is(np.dtype("f4"))),
}  # fmt: skip
"""What is called, by what it looks like."""

MORE: dict[str, Callable[[Setting], Any]] = {
    "a tensor": lambda s: s.x,
    "a tensor of a GPU": lambda s: s.there,
    "a scalar": lambda s: s.scalar,
    "a backwards view": lambda s: s.x[::-1, ::-2],
    "no elements": lambda s: s.x[:0],
    "a GPU": lambda s: s.gpu,
    "a stream": lambda s: s.host,
    "a stream of a GPU": lambda s: s.side,
    "a class of devices": lambda s: Accelerator,
    "a deep list": lambda s: deep(),
    "an array": lambda s: s.array,
    "a dtype": lambda s: DType.float8_e8m0fnu,
    "4 bits": lambda s: DType.float4_e2m1fn,
    "bfloat16": lambda s: DType.bfloat16,
    "bool": lambda s: DType.bool,
    "a spec": lambda s: DeviceSpec(7, "gpu"),
}
"""Bad values, most of them good somewhere else."""

VALUES: dict[str, Callable[[Setting], Any]] = {
    **{f"{value!r:.40} #{n}": _is(value) for n, value in enumerate(WEIRD)
       if type(value) is not object},
    **{name: _fresh(make) for name, make in BAD.items()},
    **MORE,
}  # fmt: skip


def _case(name: str, bad: dict[int, str]) -> Case:
    def run(folder: Path) -> None:
        driver.use_simulator(2)
        setting = Setting()
        entry = ENTRIES[name]
        given = [make(setting) for make in entry.good]
        for place, label in bad.items():
            given[place] = VALUES[label](setting)
        try:
            made = entry.act(setting, *given)
        except MaxlabError as error:
            if not error.fix:
                raise WrongResultError(f"no fix: {error}") from error
            str(error).encode()
            raise
        finally:
            _check(setting, name)
        _look(made)

    words = ", ".join(f"{place}: {label}" for place, label in bad.items())
    return Case(f"{name} with {words}", run)


def _check(setting: Setting, name: str) -> None:
    """What nobody wrote to is as it was."""
    if "=" not in name and not np.array_equal(setting.x.to_numpy(), setting.array):
        raise WrongResultError(f"the tensor is {setting.x.to_numpy()} now")
    if setting.scalar.item() != 1.5:
        raise WrongResultError("the scalar is another one now")


def _look(made: Any) -> None:
    """Use what a call gave."""
    for one in made if isinstance(made, list) else [made]:
        repr(one)
        if isinstance(one, Tensor):
            if one.num_elements < 1000:
                one.to(CPU()).to_ml_numpy().tolist()
        elif isinstance(one, Accelerator):
            one.stats  # noqa: B018
        elif isinstance(one, DeviceStream):
            one.synchronize()


def _draw(random: Random) -> Case:
    name = random.choice(sorted(ENTRIES))
    places = range(len(ENTRIES[name].good))
    count = min(len(places), random.choice((1, 1, 1, 2)))
    labels = sorted(VALUES)
    return _case(name, {place: random.choice(labels) for place in random.sample(places, count)})


SEEDS = [
    _case(name, {place: label})
    for name, place, label in (
        ("Tensor", 1, "deep"),
        ("Tensor", 1, "itself"),
        ("Tensor", 1, "long"),
        ("zeros", 0, "huges"),
        ("scalar", 0, "past-all"),
        ("x[_]", 0, "past-all"),
        ("x[_]", 0, "raises"),
        ("from_numpy", 0, "masked"),
        ("from_numpy", 0, "objects"),
        ("view", 1, "raises"),
        ("to", 0, "itself"),
        ("CPU", 0, "past-all"),
        ("Accelerator", 1, "past-all"),
        ("DeviceSpec", 1, "raises"),
        ("DeviceSpec.cpu", 0, "no-elements"),
        ("DeviceSpec.accelerator", 0, "past-all"),
        ("use_virtual_cpus", 0, "huge"),
        ("from_dlpack", 1, "no-elements"),
        ("__array__", 0, "no-elements"),
        ("devices_exist of", 0, "iter-raises"),
        ("load_devices", 0, "a GPU"),
        ("mmap", 1, "nul-text"),
        ("mmap", 3, "an array"),
        ("zeros", 3, "float-array"),
        ("name_block", 0, "slice"),
    )
]

FAMILIES = (Family("driver_tensors", SEEDS, _draw, 3000, block=150),)

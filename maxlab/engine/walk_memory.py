"""The memory of a run that is looked at between its steps: `WalkMemory`."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxlab.driver import Tensor
from maxlab.engine.executable import HOST
from maxlab.engine.frame import Frame
from maxlab.engine.program import Program
from maxlab.ir import Value

Array = np.ndarray[Any, Any]


class WalkMemory:
    """The slots of one run, as arrays of the host.

    Args:
        program: The last stage of the run.
        frame: Its memory.
    """

    def __init__(self, program: Program, frame: Frame) -> None:
        self._executable = program.executable
        self._compiled = program.executable.compiled
        self._addresses = frame.addresses
        self._env = program.env
        self._data: dict[int, Array] = {}
        self._again: dict[str, Tensor] = {}

    def nbytes(self, slot: int) -> int:
        """The bytes of the slot for these sizes."""
        return self._compiled.plan.slots[slot].nbytes.evaluate(self._env)

    def bytes_of(self, slot: int) -> Array:
        """The bytes of a slot as they are now: the host's own memory, or a copy of a device's."""
        known = self._data.get(slot)
        if known is not None:
            return known
        place = self._compiled.plan.slots[slot]
        if place.kind == "weight" and slot not in self._executable.prepared.addresses:
            found = self._computed_again(place.name, self.nbytes(slot))
        else:
            stream = self._executable.device_of(place.device).default_stream
            found = stream.bytes_at(self._addresses[slot], self.nbytes(slot))
        if place.kind in ("weight", "constant", "packed"):
            self._data[slot] = found  # nobody writes it
        return found

    def _computed_again(self, name: str, nbytes: int) -> Array:
        """The bytes of what was computed of weights and only packed."""
        again = self._executable.prepared.again
        assert again is not None
        if not self._again:
            self._again = {key: x.on_host() for key, x in again().items()}
        found: Array = HOST.default_stream.bytes_at(self._again[name].address, nbytes)
        return found

    def array(self, slot: int) -> Array:
        """The content of a slot, in the shape of its value, in the order of its memory."""
        place = self._compiled.plan.slots[slot]
        shape = [size.evaluate(self._env) for size in place.shape]
        flat: Array = self.bytes_of(slot).view(place.dtype.ml_numpy)
        return flat.reshape(shape)

    def value(self, slot: int, value: Value) -> Array:
        """``value``, which the slot holds, with its dims in their order."""
        shape = tuple(d.evaluate(self._env) for d in value.tensor_type.shape)
        flat: Array = self.bytes_of(slot).view(value.tensor_type.dtype.ml_numpy)
        order = self._compiled.schedule.layouts.get(value)
        if order is None or self._compiled.plan.slots[slot].kind == "output":
            return flat.reshape(shape)
        return flat.reshape([shape[n] for n in order]).transpose(np.argsort(order))

    def weights(self) -> dict[str, Array]:
        """The data of the weights that kernels read, flat, by name; before them, of those that were
        read when the model was loaded, as they are now."""
        found: dict[str, Array] = {}
        ahead = self._compiled.plan.facts.ahead
        for name in ahead.sources if ahead is not None else ():
            tensor = self._executable.prepared.tensors[name].on_host()
            found[name] = tensor.to_ml_numpy().reshape(-1)  # which keeps its memory
        for slot in self._compiled.plan.slots:
            if slot.kind == "weight" and slot.name not in found:
                found[slot.name] = self.bytes_of(slot.number).view(slot.dtype.ml_numpy)
        return found

    def known(self, slot: int) -> bool:
        """Whether what the slot held is still there: weights that only kernels of the library read
        are packed, and what was packed while the model runs may be written over.
        """
        place = self._compiled.plan.slots[slot]
        return place.kind != "packed" and bool(place.value)


__all__ = ["WalkMemory"]

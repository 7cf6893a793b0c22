"""Advances the lengths of a paged cache from one step of a run to the next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from maxlab.driver import Device, Tensor
from maxlab.dtype import DType
from maxlab.errors import InputError
from maxlab.graph import DeviceRef, Graph, TensorType, ops
from maxlab.nn.kv_cache.manager import RaggedKVCacheInputs

if TYPE_CHECKING:
    from maxlab.engine import InferenceSession, Model


class Advance:
    """Adds the tokens of a step to the cached ones, on the devices where the lengths lie.

    Args:
        devices: The devices, those of the first replica first.
        replicas: The number of replicas.
        session: The session that runs the addition on accelerators; made when it is needed first,
            where it is None.
    """

    def __init__(
        self, devices: Sequence[Device], replicas: int, session: InferenceSession | None
    ) -> None:
        self._devices = list(devices)
        self._replicas = replicas
        self._session = session
        self._models: dict[DeviceRef, Model] = {}

    def after(
        self, kv_cache_inputs: Sequence[RaggedKVCacheInputs], prev_model_inputs: Any
    ) -> list[RaggedKVCacheInputs]:
        """The inputs of the next step; see `PagedKVCacheManager.increment_cache_lengths`.

        Raises:
            InputError: ML649 (a ValueError), no step is left, or the offsets are not those of the
                batch.
        """
        offsets = prev_model_inputs.input_row_offsets
        if isinstance(offsets, (list, tuple)):
            offsets = offsets[0]
        batch = sum(self._firsts(kv_cache_inputs))
        if offsets.shape[0] != batch + 1:
            raise InputError(
                "ML649",
                f"input_row_offsets of {batch} sequences, [{batch + 1}], expected ≠ "
                f"[{offsets.shape[0]}] given",
            )
        if any(one.max_lengths.shape[0] < 2 for one in kv_cache_inputs):
            raise InputError(
                "ML649",
                "no step is left: the inputs were made for the steps that have been run",
                fix="get_runtime_inputs(batch, num_steps) with the number of all steps",
            )
        splits = [0, batch]
        if self._replicas > 1:
            splits = prev_model_inputs.data_parallel_splits.to_numpy().tolist()
        found = []
        for number, (one, device) in enumerate(zip(kv_cache_inputs, self._devices, strict=True)):
            replica = number * self._replicas // len(self._devices)
            own = offsets[splits[replica] : splits[replica + 1] + 1]
            found.append(
                RaggedKVCacheInputs(
                    blocks=one.blocks,
                    cache_lengths=self._sum(one.cache_lengths, own, device),
                    lookup_table=one.lookup_table,
                    max_lengths=one.max_lengths[1:, :],
                )
            )
        return found

    def _firsts(self, inputs: Sequence[RaggedKVCacheInputs]) -> list[int]:
        """The sequences of each replica, as its first device has them."""
        per_replica = len(self._devices) // self._replicas
        return [int(one.cache_lengths.shape[0]) for one in inputs[::per_replica]]

    def _sum(self, lengths: Tensor, offsets: Tensor, device: Device) -> Tensor:
        """The lengths with those of the parts between offsets added, where the lengths are."""
        if device.is_host:
            return Tensor.from_numpy(
                lengths.to_numpy() + np.diff(offsets.on_host().to_numpy()).astype(np.uint32)
            ).to(device)
        where = DeviceRef.from_device(device)
        if where not in self._models:
            self._models[where] = self._load(where)
        result = self._models[where](lengths, offsets.contiguous().to(device))
        added: Tensor = result[0]
        return added

    def _load(self, where: DeviceRef) -> Model:
        from maxlab.engine import InferenceSession

        types = [
            TensorType(DType.uint32, ["batch"], where),
            TensorType(DType.uint32, ["offsets"], where),
        ]
        with Graph("advance_cache_lengths", input_types=types) as graph:
            lengths, offsets = (one.tensor for one in graph.inputs)
            new = ops.rebind(offsets[1:], ["batch"]) - ops.rebind(offsets[:-1], ["batch"])
            graph.output(lengths + new)
        session = self._session
        if session is None:
            session = self._session = InferenceSession(devices=self._devices)
        return session.load(graph)


__all__ = ["Advance"]

"""The adapters (LoRA) that a model serves: loaded by name, and in the model's slots when used."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from maxlab.driver import Tensor
from maxlab.dtype import DType
from maxlab.errors import InputError, MaxlabError, shown
from maxlab.interfaces import LoRAOperation, LoRARequest, LoRAResponse, LoRAStatus, RequestID
from maxlab.nn.lora import LinearLoRA
from maxlab.pipelines.lib.lora_adapter import Adapter, read_adapter
from maxlab.pipelines.lib.lora_names import (
    AdapterNameError,
    NoAdapterError,
    base_names,
    name_and_path,
    name_of,
    status_of,
)

if TYPE_CHECKING:
    from maxlab.driver import Device
    from maxlab.pipelines.lib.lora_config import LoRAConfig

ContextType = TypeVar("ContextType")
BASE = -1
"""The id of the base."""


class LoRAManager:
    """The adapters of a model, and which of them are in its slots.

    The model has ``max_num_loras`` slots, tensors that its graph reads. An adapter is copied into
    one when a batch uses it, in the place of the one that was used longest ago. So any number of
    adapters may be loaded, and nothing is compiled anew. The base's weights are never written to.

    A request names its adapter by ``model_name``; the names of the base, and no name, mean the
    base. All methods may be called from several threads. An adapter that is unloaded inside of a
    block of `kept` goes on to be computed with until the end of the block.

    Args:
        config: The number of slots, the largest rank, and the adapters to load now.
        layers: The layers of the model that take adapters, by their paths.
        dtype: The dtype of the matrices.
        device: Where the slots are.
        base_names: The names by which requests mean the base.

    Raises:
        InputError: ML537, ML538, an adapter that cannot be used; ML539, two of one name (each a
            ValueError).
    """

    def __init__(
        self,
        config: LoRAConfig,
        layers: Mapping[str, LinearLoRA],
        dtype: DType,
        device: Device,
        base_names: Collection[str] = (),
    ) -> None:
        self.max_num_loras = config.max_num_loras
        self.max_lora_rank = config.max_lora_rank
        self.base_names = frozenset(base_names) | {""}
        self._layers = dict(layers)
        self._dtype = dtype
        self._device = device
        self._lock = threading.RLock()
        self._adapters: dict[str, Adapter] = {}
        self._used: OrderedDict[str, int] = OrderedDict()
        """The slots of adapters, the one that was used longest ago first."""
        self._free = list(reversed(range(self.max_num_loras)))
        self._copies = 0
        self._keeping = 0
        """The number of blocks of `kept` that are open."""
        self._leaving: dict[str, Adapter] = {}
        """Adapters that were unloaded inside of these blocks."""
        self._digests: dict[RequestID, str] = {}
        """For requests that are computed, what their adapter is."""
        self._slots: dict[str, tuple[Tensor, Tensor]] = {}
        for path, layer in self._layers.items():
            a, b = (
                Tensor.zeros([int(dim) for dim in weight.shape], dtype, device)
                for weight in (layer.lora_A, layer.lora_B)
            )
            self._slots[path] = a, b
        for told in config.lora_paths:
            self.load_adapter(told)

    # ------------------------------------------------------------ the slots
    @property
    def weights(self) -> dict[str, Tensor]:
        """The slots by the names of weights: what the weights registry of the graph takes. They are
        written to when an adapter comes in."""
        found: dict[str, Tensor] = {}
        for path, (a, b) in self._slots.items():
            found[f"{path}.lora_A.weight"] = a
            found[f"{path}.lora_B.weight"] = b
        return found

    @property
    def nbytes(self) -> int:
        """The bytes of all slots."""
        return sum(t.num_elements * t.element_size for t in self.weights.values())

    @property
    def num_copies(self) -> int:
        """How often an adapter was copied into a slot."""
        return self._copies

    @property
    def active(self) -> list[str]:
        """The adapters in slots, the one that was used longest ago first."""
        with self._lock:
            return list(self._used)

    @property
    def loras(self) -> list[str]:
        """The adapters that are loaded, in the order in which they were."""
        with self._lock:
            return list(self._adapters)

    def __len__(self) -> int:
        return len(self._adapters)

    def __repr__(self) -> str:
        return (
            f"LoRAManager({len(self)} adapters, {len(self._used)} of {self.max_num_loras} slots in "
            f"use, ranks up to {self.max_lora_rank})"
        )

    def __contains__(self, name: object) -> bool:
        return name in self._adapters

    # ------------------------------------------------------------ loading
    def load_adapter(self, path: str, name: str | None = None) -> Adapter:
        """The adapter of a folder, or of a repository in the cache, which is loaded now.

        Args:
            path: The folder or the id of the repository, or ``NAME=PATH``.
            name: What requests call it; when left out, what ``path`` says, or the whole path.

        Raises:
            InputError: ML537, files that cannot be used; ML538, an adapter that does not fit the
                model; ML539, the name is taken (each a ValueError). Nothing changes then.
        """
        if name is None:
            name, path = name_and_path(path)
        self._require_new(name)
        made = read_adapter(name, path, self._layers, self._dtype, self.max_lora_rank)
        with self._lock:
            self._require_new(name)  # another thread may have been faster
            self._adapters[name] = made
        return made

    def unload_adapter(self, name: str) -> None:
        """Forgets an adapter; its slot is free. Requests that name it are refused from now on, and
        those that are computed end with an error at their next step.

        Args:
            name: What requests call it.

        Raises:
            InputError: ML539 (a ValueError), there is none of this name.
        """
        with self._lock:
            self._of(name)
            gone = self._adapters.pop(name)
            if self._keeping:
                self._leaving.setdefault(name, gone)
            else:
                self._free_slot(name)

    def _free_slot(self, name: str) -> None:
        slot = self._used.pop(name, None)
        if slot is not None:
            self._free.append(slot)

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Lets a batch be formed and run with the same adapters: what is unloaded inside of the
        block is computed with until its end, by what the name meant at its beginning."""
        with self._lock:
            self._keeping += 1
        try:
            yield
        finally:
            with self._lock:
                self._keeping -= 1
                if not self._keeping:
                    for name in self._leaving:
                        self._free_slot(name)
                    self._leaving.clear()

    def answer(self, request: LoRARequest) -> LoRAResponse:
        """Does what is asked for, and says how it ended. It raises nothing.

        Args:
            request: To load an adapter, to unload one, or to list them. One that is loaded without
                a name is called by its path.
        """
        operation, name, path = request.operation, request.lora_name, request.lora_path
        if operation is LoRAOperation.LIST:
            return LoRAResponse(LoRAStatus.SUCCESS, self.loras)
        loads = operation is LoRAOperation.LOAD
        try:
            if loads and path is None:
                told = "a request to load an adapter has a lora_path"
                return LoRAResponse(LoRAStatus.LOAD_INVALID_PATH, told)
            if loads and path is not None:
                made = self.load_adapter(path, name or path)
                return LoRAResponse(
                    LoRAStatus.SUCCESS, f"loaded {made.name} of the rank {made.rank} from {path}"
                )
            if name is None:
                told = "a request to unload an adapter has a lora_name"
                return LoRAResponse(LoRAStatus.UNLOAD_NAME_NONEXISTENT, told)
            self.unload_adapter(name)
        except (MaxlabError, OSError, MemoryError) as error:
            return LoRAResponse(status_of(error, loads), str(error))
        return LoRAResponse(LoRAStatus.SUCCESS, f"unloaded {name}")

    def _require_new(self, name: str) -> None:
        if name in self._adapters or name in self.base_names:
            owner = "the base" if name in self.base_names else self._adapters[name].path
            raise AdapterNameError(
                "ML539",
                f"the name {shown(name)} is taken by {owner}",
                fix="load it by another name, or unload the other first",
            )

    def _to_compute(self, name: str) -> Adapter:
        """The adapter of a name for the batch that is computed now."""
        return self._leaving.get(name) or self._of(name)

    def _of(self, name: str) -> Adapter:
        found = self._adapters.get(name)
        if found is None:
            from difflib import get_close_matches

            known = [*self._adapters, *sorted(self.base_names - {""})]
            near = get_close_matches(name, known, 1)
            raise NoAdapterError(
                "ML539",
                f"there is no adapter {shown(name)}",
                why=[f"there are {', '.join(known)}" if known else "none is loaded"],
                fix=f"did you mean {near[0]}?" if near else "load it first, or name the base",
            )
        return found

    # ------------------------------------------------------------ batches
    def require_adapter(self, context: Any) -> None:
        """Raises unless a request names an adapter that is loaded, or the base.

        Args:
            context: The state of the request.

        Raises:
            InputError: ML539 (a ValueError), there is no such adapter.
        """
        name = name_of(context)
        if name not in self.base_names:
            with self._lock:
                self._of(name)

    def bind(self, context: Any) -> None:
        """Lets a request be computed with its adapter, from now on until `forget`.

        Args:
            context: The state of the request.

        Raises:
            InputError: ML539 (a ValueError), there is no such adapter any more; or its name means
                another one than at the first call, so that keys and values would not fit.
        """
        with self._lock:
            digest = self.prefix_key(context)
            if digest and self._digests.setdefault(context.request_id, digest) != digest:
                raise NoAdapterError(
                    "ML539",
                    f"the adapter {shown(name_of(context))} was replaced by another one of its "
                    f"name while the request {context.request_id} was answered",
                    fix="ask again",
                )

    def forget(self, request_id: RequestID) -> None:
        """Forgets a request, which is over.

        Args:
            request_id: The request.
        """
        with self._lock:
            self._digests.pop(request_id, None)

    def fits_together(self, context_batch: Sequence[Any]) -> bool:
        """Whether there are slots for the adapters of a batch.

        Args:
            context_batch: The states of the requests.
        """
        names = {name_of(context) for context in context_batch}
        return len(names - self.base_names) <= self.max_num_loras

    def sort_lora_batch(self, context_batch: Sequence[ContextType]) -> list[ContextType]:
        """The requests of a batch with those of one adapter side by side, in the order of their
        first ones, and those of the base behind. Kernels compute neighbours of an adapter together.

        Args:
            context_batch: The states of the requests.
        """
        places: dict[str, int] = {}
        for context in context_batch:
            places.setdefault(name_of(context), len(places))
        last = len(places)

        def place(context: ContextType) -> int:
            name = name_of(context)
            return last if name in self.base_names else places[name]

        return sorted(context_batch, key=place)

    def prefix_key(self, context: Any) -> str:
        """The key of what a request depends on besides its tokens: nothing for the base, and
        the matrices of its adapter. Prefixes are shared by requests of one key alone.

        Args:
            context: The state of the request.

        Raises:
            InputError: ML539 (a ValueError), there is no such adapter.
        """
        name = name_of(context)
        if name in self.base_names:
            return ""
        with self._lock:
            return self._to_compute(name).digest

    def get_lora_graph_inputs(self, context_batch: Sequence[Any]) -> tuple[Tensor, Tensor]:
        """The slot and the rank of the adapter of each request, int32 and uint32 [requests] on the
        device. Adapters that are in no slot are copied into one.

        Args:
            context_batch: The states of the requests.

        Raises:
            InputError: ML539, there is no such adapter; ML540, there are more adapters than slots
                (each a ValueError). Nothing changes then.
        """
        with self._lock:
            names = [name_of(context) for context in context_batch]
            wanted = dict.fromkeys(name for name in names if name not in self.base_names)
            adapters = {name: self._to_compute(name) for name in wanted}
            if len(adapters) > self.max_num_loras:
                raise InputError(
                    "ML540",
                    f"a batch has requests of {len(adapters)} adapters, and there are "
                    f"{self.max_num_loras} slots",
                    why=[f"they are {', '.join(adapters)}"],
                    fix=f"configure max_num_loras={len(adapters)} or more, or make smaller batches",
                )
            for name in adapters:
                if name in self._used:
                    self._used.move_to_end(name)
            for name, adapter in adapters.items():
                if name not in self._used:
                    self._bring_in(adapter)
            ids = [self._used.get(name, BASE) for name in names]
            ranks = [adapters[name].rank if name in adapters else 0 for name in names]
        return (
            Tensor.from_numpy(np.array(ids, np.int32)).to(self._device),
            Tensor.from_numpy(np.array(ranks, np.uint32)).to(self._device),
        )

    def _bring_in(self, adapter: Adapter) -> None:
        """Copies an adapter into a free slot, or into that which was used longest ago."""
        slot = self._free.pop() if self._free else self._used.popitem(last=False)[1]
        self._free.append(slot)  # it is free, should a copy fail
        for path, tensors in self._slots.items():
            pair = adapter.layers.get(path)
            for tensor, part in zip(
                tensors, (pair.a, pair.b) if pair else (None, None), strict=True
            ):
                whole = np.zeros(tensor.shape[1:], self._dtype.ml_numpy)
                if part is not None:
                    whole[: part.shape[0], : part.shape[1]] = part
                tensor[slot].inplace_copy_from(Tensor.from_numpy(whole))
        self._free.pop()
        self._used[adapter.name] = slot
        self._copies += 1


__all__ = [
    "BASE",
    "AdapterNameError",
    "LoRAManager",
    "NoAdapterError",
    "base_names",
    "name_and_path",
]

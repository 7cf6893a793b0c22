"""Models of one graph by the parameters and buffers that they were loaded with.

A model packs the right operands of products when it is loaded, and computes then what depends on
weights alone. So every call asks whether the weights are what they were, and a model whose weights
are not is loaded anew. Layers of one class share a graph of ``torch.compile``, each with its own
weights: there is a model for each.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch

from maxlab.engine import Model

SAMPLES = 64
"""Numbers of each weight that every call compares."""


class Snapshot:
    """Tensors as they were.

    A tensor counts its changes in place, and so do ``load_state_dict`` and optimisers. What is
    written through ``tensor.data`` or NumPy is counted by nobody: it is seen by ``SAMPLES`` numbers
    of each tensor, spread evenly. A change of a few single numbers may stay unseen.
    """

    def __init__(self, tensors: Sequence[torch.Tensor], died: Callable[[Any], None]) -> None:
        self._rows: list[tuple[Any, int, int]] = [
            (weakref.ref(t, died), version_of(t), t.data_ptr()) for t in tensors
        ]
        self._samples = [_sample(t) for t in tensors if t.numel()]
        self._known = self._taken()

    def _taken(self) -> torch.Tensor | None:
        return torch.cat(self._samples) if self._samples else None

    def is_of(self, tensors: Sequence[torch.Tensor]) -> bool:
        """Whether it is one of ``tensors``, changed or not."""
        return all(known() is x for x, (known, _, _) in zip(tensors, self._rows, strict=True))

    def has(self, reference: Any) -> bool:
        """Whether ``reference`` is the weak one of one of the tensors."""
        return any(known is reference for known, _, _ in self._rows)

    def fits(self, tensors: Sequence[torch.Tensor]) -> bool:
        """Whether ``tensors`` are what they were."""
        for x, (known, version, address) in zip(tensors, self._rows, strict=True):
            if known() is not x or x.data_ptr() != address:
                return False
            if version >= 0 and x._version != version:
                return False
        taken = self._taken()
        return taken is None or torch.equal(taken, self._known)


class LoadedModels:
    """The models of one graph.

    Args:
        load: From the parameters and buffers to a model.
    """

    def __init__(self, load: Callable[[Sequence[torch.Tensor]], Model]) -> None:
        self._load = load
        self._lock = threading.Lock()
        self._models: list[tuple[Snapshot, Model]] = []

    @property
    def newest(self) -> Model | None:
        """The model that was loaded last."""
        models = self._models
        return models[0][1] if models else None

    def of(self, tensors: Sequence[torch.Tensor]) -> Model:
        """The model that has ``tensors``, as they are now."""
        for snapshot, model in self._models:
            if snapshot.fits(tensors):
                return model
        with self._lock:
            for snapshot, model in self._models:  # another thread may have loaded it meanwhile
                if snapshot.fits(tensors):
                    return model
            self._models = [known for known in self._models if not known[0].is_of(tensors)]
            snapshot = Snapshot(tensors, self._forget)  # before: what changes meanwhile is noticed
            model = self._load(tensors)
            self._models = [(snapshot, model), *self._models]
            return model

    def _forget(self, gone: Any) -> None:
        """Gives up the models of a weight that nobody has any more."""
        self._models = [known for known in self._models if not known[0].has(gone)]


def version_of(tensor: torch.Tensor) -> int:
    """How often ``tensor`` was changed in place; -1 where nobody counts, in inference mode."""
    return -1 if tensor.is_inference() else int(tensor._version)


_BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def _sample(tensor: torch.Tensor) -> torch.Tensor:
    """Up to ``SAMPLES`` numbers of ``tensor`` as integers: a view, which follows its changes."""
    flat = tensor.detach()
    flat = torch.as_strided(flat, [_extent(flat)], [1])
    step = max(1, flat.numel() // SAMPLES)
    return flat[::step][:SAMPLES].view(_BITS[tensor.element_size()])


def _extent(tensor: torch.Tensor) -> int:
    """How many elements there are from the first to the last of ``tensor`` in memory."""
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    return 1 + sum((int(size) - 1) * int(step) for size, step in pairs)


__all__ = ["LoadedModels", "Snapshot", "version_of"]

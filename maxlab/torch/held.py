"""The parameters and buffers that a compiled model has taken over: unchanged, or an error.

The right operands of products are packed when a model is loaded, and what is not contiguous is
copied. A later change of the module would be followed by some of its weights and not by others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from operator import is_
from typing import Any

import torch

from maxlab.errors import WeightError

_Row = tuple[str, Mapping[str, Any], str, torch.Tensor, int, int]


class Held:
    """The tensors of a module as they were when it was imported.

    A tensor counts its changes in place, as do ``load_state_dict`` and optimisers. What is written
    through ``tensor.data`` or through NumPy is counted by nobody.

    Args:
        module: The module.
        names: The tensors that its graph reads, by the names of ``state_dict``.
    """

    def __init__(self, module: torch.nn.Module, names: Collection[str]) -> None:
        self._module = type(module).__name__
        places = list(_places(module))
        used = {id(tensor) for name, _, _, tensor in places if name in names}
        self._rows: list[_Row] = [
            (name, owner, key, tensor, _version(tensor), _address(tensor))
            for name, owner, key, tensor in places
            if id(tensor) in used  # also under the other names of a tensor with several
        ]
        owners = {id(row[1]): row[1] for row in self._rows}
        self._members = [(owner, list(owner.values())) for owner in owners.values()]
        self._counted = [row[3] for row in self._rows if row[4] >= 0]
        self._versions = [row[4] for row in self._rows if row[4] >= 0]
        self._placed = [row[3] for row in self._rows if row[5]]
        self._addresses = [row[5] for row in self._rows if row[5]]

    def require_unchanged(self) -> None:
        """Raises unless all tensors are what they were.

        Raises:
            WeightError: ML729, one of them has changed or is another one now.
        """
        if not self._is_unchanged():
            self._require_row_by_row()

    def _is_unchanged(self) -> bool:
        """Whether all are what they were, without which one is not: each call of a model asks, and
        what it touches has left the caches while the model ran."""
        for owner, members in self._members:
            if len(owner) != len(members) or not all(map(is_, owner.values(), members)):
                return False
        return [tensor._version for tensor in self._counted] == self._versions and [
            tensor.data_ptr() for tensor in self._placed
        ] == self._addresses

    def _require_row_by_row(self) -> None:
        for name, owner, key, tensor, version, address in self._rows:
            same = owner.get(key) is tensor
            if not same:
                raise self._changed(name, "it is another tensor now")
            if version >= 0 and tensor._version != version:
                raise self._changed(name, "it was changed in place")
            if address and tensor.data_ptr() != address:
                raise self._changed(name, "its data is other memory now")

    def _changed(self, name: str, why: str) -> WeightError:
        return WeightError(
            "ML729",
            f"{name!r} of {self._module} has changed since the module was imported",
            why=[
                why,
                "weights are packed when a model is loaded, so it has the old numbers",
            ],
            fix="import the module again: model = maxlab.torch.load(module, *inputs)",
        )


def _places(
    module: torch.nn.Module,
) -> Iterator[tuple[str, Mapping[str, Any], str, torch.Tensor]]:
    """The parameters and buffers of ``module`` and of the modules in it: the name, the dict that
    has it, the key there, and the tensor."""
    for path, inner in module.named_modules(remove_duplicate=False):
        owners: tuple[Mapping[str, Any], ...] = (inner._parameters, inner._buffers)
        for owner in owners:
            for key, tensor in owner.items():
                if tensor is not None:
                    yield f"{path}.{key}" if path else key, owner, key, tensor


def _version(tensor: torch.Tensor) -> int:
    """How often ``tensor`` was changed in place; -1 where nobody counts, in inference mode."""
    return -1 if tensor.is_inference() else int(tensor._version)


def _address(tensor: torch.Tensor) -> int:
    """Where the elements of ``tensor`` are; 0 where they are not in one place."""
    return tensor.data_ptr() if tensor.layout is torch.strided else 0


__all__ = ["Held"]

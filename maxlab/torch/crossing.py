"""Tensors between torch and maxlab, over the same memory: through NumPy, which takes a tenth of the
time of DLPack, but for what NumPy has no dtype for."""

from __future__ import annotations

from typing import Any

import torch

from maxlab.driver import Tensor
from maxlab.dtype import DType


def given(x: torch.Tensor) -> Any:
    """``x`` as a model takes it: without history, its numbers one after the other in memory. It is
    copied only where they are not."""
    plain = x.detach().resolve_conj().resolve_neg().contiguous()
    return plain if plain.dtype is torch.bfloat16 else plain.numpy()


def tensor_of(x: torch.Tensor) -> Tensor:
    """The memory of ``x``, which is contiguous, as a tensor of maxlab."""
    if x.dtype is torch.bfloat16:
        return Tensor.from_dlpack(x.detach())
    return Tensor.from_numpy(x.detach().numpy())


def taken(made: Tensor) -> torch.Tensor:
    """``made`` by a model as a tensor of torch over the same memory."""
    if made.dtype is not DType.bfloat16:
        array = made.to_numpy()
        if array.flags.writeable:  # torch has no word for memory that is only read
            return torch.from_numpy(array)
    found: torch.Tensor = torch.from_dlpack(made)
    return found


__all__ = ["given", "taken", "tensor_of"]

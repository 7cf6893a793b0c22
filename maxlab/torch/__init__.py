"""Modules of torch as maxlab graphs: imported through ``torch.export``, compiled, run, profiled.

``load`` makes a ``TorchModel``; ``maxlab.profile`` does that and profiles it. Operations that
maxlab does not have are run by torch, between the kernels. Importing this package imports no torch.
"""

from __future__ import annotations

from typing import Any

from maxlab.errors import missing
from maxlab.torch.front import load, profile

__all__ = ["Agreement", "Eager", "Ran", "TorchModel", "TorchProfile", "load", "profile"]

_LAZY = {
    "Agreement": "model",
    "Eager": "model",
    "Ran": "importer",
    "TorchModel": "model",
    "TorchProfile": "model",
}


_INSTEAD = {
    **dict.fromkeys(
        ("compile", "export", "convert", "trace", "jit"), "maxlab.torch.load(module, x)"
    ),
    **dict.fromkeys(("nn", "Tensor", "tensor"), "those of PyTorch: import torch; torch.nn"),
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise missing("maxlab.torch", name, __all__, _INSTEAD)
    from importlib import import_module

    return getattr(import_module(f"maxlab.torch.{_LAZY[name]}"), name)

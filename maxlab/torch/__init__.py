"""Modules of torch as maxlab graphs: imported through ``torch.export``, compiled, run, profiled.

``load`` makes a ``TorchModel``; ``maxlab.profile`` does that and profiles it. Operations that
maxlab does not have are run by torch, between the kernels. Importing this package imports no torch.
"""

from __future__ import annotations

from typing import Any

from maxlab.torch.front import load, profile

__all__ = ["Agreement", "Eager", "Ran", "TorchModel", "TorchProfile", "load", "profile"]

_LAZY = {
    "Agreement": "model",
    "Eager": "model",
    "Ran": "importer",
    "TorchModel": "model",
    "TorchProfile": "model",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'maxlab.torch' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"maxlab.torch.{_LAZY[name]}"), name)

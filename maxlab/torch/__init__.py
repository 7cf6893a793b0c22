"""Modules of torch as maxlab graphs: imported through ``torch.export``, compiled, run, profiled.

``load`` makes a ``TorchModel``; ``maxlab.profile`` does that and profiles it. Operations that
maxlab does not have are run by torch, between the kernels. Importing this package imports no torch.

``torch.compile(model, backend="maxlab")`` does the same as the model is called.
"""

from __future__ import annotations

import sys
from typing import Any

from maxlab.errors import missing
from maxlab.torch.front import load, profile

__all__ = [
    "Agreement",
    "CompiledGraph",
    "CustomOpLibrary",
    "Cut",
    "Eager",
    "Explanation",
    "Fallback",
    "Ran",
    "TorchModel",
    "TorchProfile",
    "backend",
    "explain",
    "graph_op",
    "last",
    "load",
    "profile",
]

_LAZY = {
    "Agreement": "model",
    "CompiledGraph": "compiled",
    "Eager": "model",
    "Ran": "importer",
    "TorchModel": "model",
    "TorchProfile": "model",
    "CustomOpLibrary": "operators",
    "Cut": "explaining",
    "Explanation": "explaining",
    "Fallback": "importer",
    "backend": "compiling",
    "explain": "explaining",
    "graph_op": "operators",
    "last": "compiled",
}


_INSTEAD = {
    "compile": 'torch.compile(module, backend="maxlab")',
    **dict.fromkeys(("export", "convert", "trace", "jit"), "maxlab.torch.load(module, x)"),
    **dict.fromkeys(("nn", "Tensor", "tensor"), "those of PyTorch: import torch; torch.nn"),
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise missing("maxlab.torch", name, __all__, _INSTEAD)
    from importlib import import_module

    return getattr(import_module(f"maxlab.torch.{_LAZY[name]}"), name)


if "torch" in sys.modules:
    from maxlab.torch.compiling import register

    register()

"""Llama, in a process that cannot import torch; it is loaded by ``custom_architectures``."""

from __future__ import annotations

import sys

from maxlab.pipelines.architectures.llama import ARCHITECTURES

__all__ = ["ARCHITECTURES"]

if sys.argv[0].endswith("worker_main.py"):  # the tests' own process compares with torch
    assert "torch" not in sys.modules
    sys.modules["torch"] = None  # type: ignore[assignment]

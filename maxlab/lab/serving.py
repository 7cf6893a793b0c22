"""Comms that pages open, and who answers them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from maxlab.ir.cells import shell


def serve(target: str, opened: Callable[[Any, dict[str, Any]], None]) -> str:
    """Answer comms named ``target`` by ``opened`` from now on; empty text, for the page that asks.

    Nothing happens outside a kernel.
    """
    kernel = getattr(shell(), "kernel", None)
    if kernel is not None:
        kernel.comm_manager.register_target(target, opened)
    return ""


__all__ = ["serve"]

"""Jupyter kernels of tests talk through files and not through TCP ports.

Whoever starts a kernel over TCP looks for free ports and gives their numbers to the kernel, which
opens them a second later. Another process may have got one of them meanwhile; then the kernel ends
before it has answered. Files in a folder of the kernel's own are nobody else's.
"""

from __future__ import annotations

import atexit
import importlib.util
import shutil
import tempfile
from pathlib import Path
from typing import Any


def use_files() -> None:
    """Let every kernel that this process starts, by whichever package, talk through files.

    Machines that only test a GPU have no Jupyter, and start no kernel.
    """
    if importlib.util.find_spec("jupyter_client") is None:
        return
    from jupyter_client.manager import KernelManager

    as_jupyter_does = KernelManager.__init__

    def with_files(self: KernelManager, *args: Any, **traits: Any) -> None:
        if not {"transport", "ip"} & traits.keys():
            folder = tempfile.mkdtemp(prefix="kernel-", dir="/tmp")  # a socket's name has 107 bytes
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
            traits |= {"transport": "ipc", "ip": str(Path(folder) / "socket")}
        as_jupyter_does(self, *args, **traits)

    KernelManager.__init__ = with_files  # type: ignore[method-assign]


__all__ = ["use_files"]

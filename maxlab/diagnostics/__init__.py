"""Memory and utilisation of a machine's devices, sampled while programs run.

Stands on the ground floor of the package only. Nothing here touches a device, loads a vendor's
library or starts a process before it is asked to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from maxlab.diagnostics import gpu

if TYPE_CHECKING:
    from maxlab.diagnostics.monitor import Monitor, Recording

__all__ = ["Monitor", "Recording", "gpu"]


def __getattr__(name: str) -> Any:
    if name in ("Monitor", "Recording"):
        from maxlab.diagnostics import monitor

        return getattr(monitor, name)
    raise AttributeError(f"module 'maxlab.diagnostics' has no attribute {name!r}")

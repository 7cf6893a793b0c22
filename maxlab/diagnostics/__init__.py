"""What a machine's devices are doing while programs run: memory and utilisation, sampled.

Stands on the ground floor of the package only. Nothing here touches a device, loads a vendor's
library or starts a process before it is asked to.
"""

from __future__ import annotations

from maxlab.diagnostics import gpu

__all__ = ["gpu"]

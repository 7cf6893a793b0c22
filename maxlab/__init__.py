"""maxlab: build tensor graphs, see them, compile them to C and read on the graph what each operation cost.

``import maxlab`` does no work: it compiles nothing, starts no process and touches no device.
"""

from __future__ import annotations

from typing import Any

from maxlab import trace as _trace

__version__ = "0.1.0"
__all__ = ["__version__"]


def _load_lab() -> Any:
    from maxlab.lab import display

    return display.mimebundle


_trace.set_display_hook(_load_lab)

"""maxlab: build tensor graphs, see them, compile them to C, and read on the graph what each
operation cost.

``import maxlab`` does no work: it compiles nothing, starts no process and touches no device.
"""

from __future__ import annotations

from typing import Any

from maxlab import trace as _trace

__version__ = "0.1.0"
__all__ = ["__version__", "doctor"]


def _load_lab() -> Any:
    from maxlab.lab import display

    return display.mimebundle


def _load_export() -> Any:
    from maxlab.lab import export

    return export.to_html


def __getattr__(name: str) -> Any:
    if name == "doctor":
        from maxlab.lab.doctor import doctor

        return doctor
    raise AttributeError(f"module 'maxlab' has no attribute {name!r}")


_trace.set_display_hook(_load_lab)
_trace.set_export_hook(_load_export)

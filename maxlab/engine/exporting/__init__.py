"""Models as C programs: `export_c`.

A folder with the kernels of a model, the executor that runs them, its weights, and a program that
reads arrays from files; nothing of it needs Python. ``tables`` writes the plan as C, ``data`` the
weights, ``sizes`` formulas of sizes; what these tables are run by stands in ``kernels/c/export``.
"""

from __future__ import annotations

from maxlab.engine.exporting.folder import Exported, export_c

__all__ = ["Exported", "export_c"]

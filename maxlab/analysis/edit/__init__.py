"""Kernels that somebody has edited: compiled, tried in a process of their own, checked against the
references, measured beside the original, and kept in the model or thrown away.
"""

from __future__ import annotations

from maxlab.analysis.edit.first_run import Diagnostic
from maxlab.analysis.edit.trial import Check, Edit, edit_kernel, restore_kernel

__all__ = ["Check", "Diagnostic", "Edit", "edit_kernel", "restore_kernel"]

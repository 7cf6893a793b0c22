"""The cells of a notebook, by the ids that they keep when they are run again or moved."""

from __future__ import annotations

import os
import sys
from typing import Any

_IDS: dict[int, str] = {}
"""The id of the cell that each execution of the kernel was of, by its number."""


def shell() -> Any:
    """The running IPython shell; None outside of one."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None else None


def kernel() -> Any:
    """The kernel of a notebook that this process is; None when it is none."""
    return getattr(shell(), "kernel", None)


def running_cell() -> tuple[str, str]:
    """The id of the cell that is running and that of its run; empty texts where there is none."""
    own = kernel()
    parent: Any = own.get_parent("shell") if own is not None else {}
    cell = (parent.get("metadata") or {}).get("cellId")
    run = (parent.get("header") or {}).get("msg_id")
    return (cell, run) if isinstance(cell, str) and isinstance(run, str) else ("", "")


def execution_of(filename: str) -> int | None:
    """The number of the execution that compiled a source file; None when it is no cell's.

    Example:
        >>> execution_of("model.py") is None
        True
    """
    base = os.path.basename(os.path.dirname(filename))
    compiler = getattr(shell(), "compile", None)
    is_cell = base.startswith("ipykernel_") or filename.startswith("<ipython-input")
    if compiler is None or not is_cell:
        return None
    formatted = compiler.format_code_name(filename)
    number = str(formatted[1]).removeprefix("In[").rstrip("]") if formatted else ""
    return int(number) if number.isdigit() else None


def cell_of(filename: str) -> str:
    """The id of the cell that a source file is; empty when it is none, or ran before maxlab was
    imported."""
    number = execution_of(filename)
    return "" if number is None else _IDS.get(number, "")


def latest_run() -> tuple[str, int]:
    """The id of the cell that began to run last, and the number of its execution; an empty text
    and 0 where none is known."""
    number = max(_IDS, default=0)
    return _IDS.get(number, ""), number


def cell_of_run(number: int) -> str:
    """The id of the cell that the execution ``number`` was of; empty where that is not known."""
    return _IDS.get(number, "")


def runs() -> list[tuple[int, str]]:
    """The number of each execution and the id of its cell, the oldest first."""
    return sorted(_IDS.items())


def watch() -> None:
    """Remembers from now on which cell each execution is of."""
    found = shell()
    events = getattr(found, "events", None)
    if events is None or getattr(found, "history_manager", None) is None:
        return

    inputs = found.history_manager

    def begins(info: Any) -> None:
        cell = getattr(info, "cell_id", None)
        if isinstance(cell, str) and getattr(info, "store_history", True):
            _IDS[len(inputs.input_hist_parsed)] = cell  # its own input is stored after this

    events.register("pre_run_cell", begins)
    cell, _ = running_cell()
    if cell:
        _IDS[len(inputs.input_hist_parsed) - 1] = cell

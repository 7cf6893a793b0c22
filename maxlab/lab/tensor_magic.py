"""The magic ``%tensors``: what tensors have recorded, run and compiled, and why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

USAGE = """What tensors of maxlab.experimental have cost.

::

    %tensors
    %tensors CODE

Alone it says what was recorded, run and compiled in this kernel. In front of code it runs the code
and says what that has cost.
"""


def register(shell: Any) -> None:
    """Add ``%tensors`` to an IPython shell; ``%load_ext maxlab`` calls it."""
    shell.register_magic_function(_magic_of(shell), "line", "tensors")


def _magic_of(shell: Any) -> Callable[[str], Any]:
    def tensors(line: str) -> Any:
        from maxlab.experimental.tensor import stats

        if not line.strip():
            return stats()
        before = stats()
        made = shell.run_cell(line)
        made.raise_error()
        return stats() - before

    tensors.__doc__ = USAGE
    # The line is code: IPython is not to put values in the place of {names}.
    tensors._ipython_magic_no_var_expand = True  # type: ignore[attr-defined]
    return tensors


__all__ = ["register"]

"""Processes that tests start: `unfilled`."""

from __future__ import annotations

import os


def unfilled() -> dict[str, str]:
    """The environment for a process whose C library leaves new memory alone.

    The tests run on memory that it fills, so that nobody reads what was never written. A process
    that measures how much memory it has would measure that too.
    """
    return {name: text for name, text in os.environ.items() if name != "MALLOC_PERTURB_"}

"""An IPython shell with maxlab's magics, in the test's own process."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

from IPython.core.interactiveshell import InteractiveShell


@contextlib.contextmanager
def shell_with_maxlab() -> Iterator[Any]:
    """A shell in which ``%load_ext maxlab`` was said; there is one of a process at a time."""
    main = sys.modules["__main__"]  # a shell puts its own in the place of it
    shell = InteractiveShell.instance()
    shell.run_line_magic("load_ext", "maxlab")
    try:
        yield shell
    finally:
        InteractiveShell.clear_instance()
        sys.modules["__main__"] = main

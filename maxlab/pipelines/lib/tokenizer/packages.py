"""The packages that tokenizers need, imported when they are needed first."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module, metadata
from typing import Any

from maxlab.errors import MissingPackageError
from maxlab.interfaces.needing import needed_by

SAFE_JINJA = (3, 1, 6)
"""The first version of jinja2 from whose sandbox no way out is known."""
_ADVICE = "TRANSFORMERS_NO_ADVISORY_WARNINGS"


@cache
def jinja2() -> Any:
    """The package jinja2, with the modules of it that templates need.

    Raises:
        MissingPackageError: ML979, it is not installed, or older than `SAFE_JINJA` (an
            ImportError).
    """
    with needed_by("a chat template", "jinja2"):
        import_module("jinja2.ext")
        import_module("jinja2.meta")
        import_module("jinja2.nodes")
        import_module("jinja2.sandbox")
        import_module("jinja2.utils")
        import_module("jinja2.visitor")
        found = import_module("jinja2")
    version = tuple(int(part) for part in re.findall(r"\d+", metadata.version("jinja2"))[:3])
    if version < SAFE_JINJA:
        wanted = ".".join(map(str, SAFE_JINJA))
        raise MissingPackageError(
            "ML979",
            f"a chat template needs jinja2 {wanted} or later ≠ {metadata.version('jinja2')} found",
            why=["templates can leave the sandbox of older versions"],
            fix='pip install --upgrade "maxlab[llm]"',
        )
    return found


def transformers(purpose: str = "a tokenizer") -> Any:
    """The package transformers.

    Where PyTorch is not installed it says at its import that it has no models; maxlab has its own,
    so that is left out.

    Args:
        purpose: What needs it, for the error.

    Raises:
        MissingPackageError: ML979, it is not installed (an ImportError).
    """
    with needed_by(purpose, "transformers"), _without_advice():
        return import_module("transformers")


@contextmanager
def _without_advice() -> Iterator[None]:
    """Lets transformers give no advice in the block; the environment is as before after it."""
    if "transformers" in sys.modules or _ADVICE in os.environ:
        yield
        return
    os.environ[_ADVICE] = "1"
    try:
        yield
    finally:
        os.environ.pop(_ADVICE, None)


def pillow() -> tuple[Any, Any]:
    """The modules ``Image`` and ``ImageOps`` of Pillow.

    Raises:
        MissingPackageError: ML979, it is not installed (an ImportError).
    """
    with needed_by("an image of a request", "pillow"):
        return import_module("PIL.Image"), import_module("PIL.ImageOps")


__all__ = ["SAFE_JINJA", "jinja2", "pillow", "transformers"]

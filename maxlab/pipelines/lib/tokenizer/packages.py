"""The packages that tokenizers need, imported when they are needed first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from maxlab.errors import MissingPackageError


@contextmanager
def _needed_by(what: str, package: str) -> Iterator[None]:
    """Names the package where an import inside fails.

    Raises:
        MissingPackageError: ML979, it is not installed (an ImportError).
    """
    try:
        yield
    except ImportError as error:
        raise MissingPackageError(
            "ML979",
            f"{what} needs the package {package}, which is not installed",
            why=[str(error)],
            fix='pip install "maxlab[llm]"',
        ) from error


def jinja2() -> Any:
    """The package jinja2, with the modules of it that templates need.

    Raises:
        MissingPackageError: ML979, it is not installed (an ImportError).
    """
    with _needed_by("a chat template", "jinja2"):
        import_module("jinja2.ext")
        import_module("jinja2.meta")
        import_module("jinja2.nodes")
        import_module("jinja2.sandbox")
        import_module("jinja2.utils")
        import_module("jinja2.visitor")
        return import_module("jinja2")


def transformers() -> Any:
    """The package transformers.

    Raises:
        MissingPackageError: ML979, it is not installed (an ImportError).
    """
    with _needed_by("a tokenizer", "transformers"):
        return import_module("transformers")


def pillow() -> tuple[Any, Any]:
    """The modules ``Image`` and ``ImageOps`` of Pillow.

    Raises:
        MissingPackageError: ML979, it is not installed (an ImportError).
    """
    with _needed_by("an image of a request", "pillow"):
        return import_module("PIL.Image"), import_module("PIL.ImageOps")


__all__ = ["jinja2", "pillow", "transformers"]

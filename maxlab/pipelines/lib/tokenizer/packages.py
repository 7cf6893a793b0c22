"""The packages that tokenizers need, imported when they are needed first."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from maxlab.errors import MissingPackageError


def needed(package: str, what: str) -> Any:
    """The module ``package``.

    Args:
        package: Its name, as it is imported.
        what: The part of maxlab that needs it, for the error.

    Raises:
        MissingPackageError: ML979, it is not installed (an ImportError).

    Example:
        >>> needed("json", "this example").dumps([1])
        '[1]'
    """
    try:
        return import_module(package)
    except ImportError as error:
        raise MissingPackageError(
            "ML979",
            f"{what} needs the package {package.partition('.')[0]}, which is not installed",
            why=[str(error)],
            fix='pip install "maxlab[llm]"',
        ) from error


__all__ = ["needed"]

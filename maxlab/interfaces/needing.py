"""The error for a package of an extra that is not installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from maxlab.errors import MissingPackageError


@contextmanager
def needed_by(what: str, package: str, extra: str = "llm") -> Iterator[None]:
    """Names the package where an import inside fails.

    Args:
        what: Who needs it, such as ``"a tokenizer"``.
        package: Its name on PyPI.
        extra: The extra of maxlab that has it.

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
            fix=f'pip install "maxlab[{extra}]"',
        ) from error


__all__ = ["needed_by"]

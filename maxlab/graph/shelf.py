"""Questions of a graph to the module that it becomes part of."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class Shelf(Protocol):
    """A place for graphs of different names, such as ``Module``."""

    def require_free(self, name: str) -> None:
        """Raises if a graph here is called ``name``.

        Raises:
            ArgumentError: ML365.
        """
        ...

    def add(self, graph: Any) -> None:
        """Put ``graph`` here.

        Raises:
            ArgumentError: ML365, a graph here has its name.
        """
        ...


__all__ = ["Shelf"]

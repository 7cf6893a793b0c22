"""What can be looked at with no model behind it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from maxlab import trace


class Recorded:
    """Something that is drawn from a document alone: a saved run, a comparison, a sweep.

    Attributes:
        name: The name of the graph.
        document: The graph document that views draw, plain JSON.
    """

    name: str
    document: Mapping[str, Any]

    def table(self, rows: int | None = 20) -> str:
        """It as text.

        Args:
            rows: How many kernels to list; None lists all.
        """
        raise NotImplementedError

    def to_html(self, path: Path | str | None = None) -> Any:
        """It as one HTML page that needs no network: its text, or, when ``path`` is given, the path
        it was written to.

        Raises:
            DocumentError: ML810, maxlab was installed without its front end.
        """
        return trace.export_html(self, path)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        return trace.mimebundle(self, include, exclude)

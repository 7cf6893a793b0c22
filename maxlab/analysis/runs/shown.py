"""Results that can be shown with no model behind them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from maxlab import trace
from maxlab.tabular import Tabular


class Recorded(Tabular, trace.Displayed):
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

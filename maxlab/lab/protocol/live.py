"""Questions of JupyterLab's side panel to a kernel about its graphs and models, see
``maxlab.lab.live``.
"""

from __future__ import annotations

from typing import Literal, TypedDict


class LiveGraph(TypedDict):
    """A graph or a compiled model that something in the kernel still refers to."""

    id: str
    """Of this object for its whole life, and of no other."""
    kind: Literal["Graph", "Model"]
    title: str
    """The name that it was built with; may be empty."""
    names: list[str]
    """The variables that hold it, sorted; there may be none."""
    stamp: str
    """Changes whenever a view of it would."""
    ops: int
    """Number of operations."""


LiveListing = list[LiveGraph]
"""All of them, the oldest first."""

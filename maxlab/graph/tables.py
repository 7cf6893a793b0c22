"""The names of the tables of notes of a function: what people laid beside it.

``graph.notes`` and ``graph.conflicts`` read and write them. Who asks only whether there are some
needs no more than the name.
"""

from __future__ import annotations

from typing import Final

PLACES: Final = "places"
FOLDS: Final = "folds"
COMMENTS: Final = "comments"
DRAFTS: Final = "drafts"
CONFLICTS: Final = "conflicts"

__all__ = ["COMMENTS", "CONFLICTS", "DRAFTS", "FOLDS", "PLACES"]

"""Three versions of a document become one: what each side changed since the one that both come
from."""

from __future__ import annotations

from maxlab.analysis.merging.front import Merged, merge

__all__ = ["Merged", "merge"]

"""Every family of hostile input, in the order in which they run."""

from __future__ import annotations

from tests.hostile.families import graph_text
from tests.hostile.harness import Family

FAMILIES: tuple[Family, ...] = (*graph_text.FAMILIES,)

"""One thing that would make a model faster: `Action`, and how to try it: `Recipe`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from maxlab.compiler.options import Options

Kind = Literal[
    "hoist",
    "freeze",
    "fuse",
    "apart",
    "fast_math",
    "dtype",
    "batch",
    "threads",
    "layout",
    "cast",
    "balance",
    "padding",
]
Rewrite = Literal["", "hoist", "freeze", "float32", "bfloat16"]


@dataclass(frozen=True, slots=True)
class Recipe:
    """How an action is tried: the same graph with one thing changed.

    Attributes:
        options: What to compile with; None for the model's own.
        threads: Threads; None for the model's own.
        rewrite: How the graph is rewritten, see ``maxlab.analysis.rewrites``.
        inputs: The inputs that ``rewrite`` is about.
        repeat: (dim, factor): inputs in which a symbolic dim is so many times as large. Times are
            then those of one of the parts.
    """

    options: Options | None = None
    threads: int | None = None
    rewrite: Rewrite = ""
    inputs: tuple[int, ...] = ()
    repeat: tuple[str, int] | None = None


@dataclass(frozen=True, slots=True)
class Action:
    """One thing to change, and what it is expected to save.

    Attributes:
        id: Names the action among those of a profile: ``"hoist"``, ``"freeze:1"``.
        kind: The kind of change.
        title: The change in a few words.
        why: What was found, and the model behind ``predicted_ns``.
        kernels: Ids of the kernels that it is about.
        nodes: Ids of the ops that it is about.
        predicted_ns: Nanoseconds that it saves in each run; negative where it costs.
        predicted_share: The same as a fraction of the time of all kernels.
        how: Code, or what to change in the graph.
        recipe: How maxlab tries it; None where the change is the user's to make.
        changes: What may happen to results: ``"nothing"``, ``"rounding"``, ``"precision"``.
    """

    id: str
    kind: Kind
    title: str
    why: str
    kernels: tuple[str, ...]
    nodes: tuple[str, ...]
    predicted_ns: float
    predicted_share: float
    how: str
    recipe: Recipe | None = field(default=None, repr=False)
    changes: Literal["nothing", "rounding", "precision"] = "nothing"

    @property
    def can_try(self) -> bool:
        """Whether maxlab can make the change and measure it."""
        return self.recipe is not None

"""One thing that would make a model faster: `Action`, and how to try it: `Recipe`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from maxlab.compiler.options import Options
from maxlab.engine.times import time_text

Kind = Literal[
    "hoist",
    "freeze",
    "fuse",
    "apart",
    "accuracy",
    "dtype",
    "batch",
    "threads",
    "layout",
    "cast",
    "balance",
    "padding",
    "unlike",
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
        why: What was found.
        kernels: Ids of the kernels that it is about.
        nodes: Ids of the ops that it is about.
        predicted_ns: Nanoseconds that it saves in each run; negative where it costs. None where
            nothing can be predicted, see ``withheld``.
        predicted_share: The same as a fraction of the time of all kernels.
        low_ns: The least that it is expected to save; see ``maxlab.analysis.advice.pricing``.
        high_ns: The most.
        how: Code, or what to change in the graph.
        recipe: How maxlab tries it; None where the change is the user's to make.
        changes: What may happen to results: ``"nothing"``, ``"rounding"``, ``"precision"``.
        withheld: Why nothing can be predicted, as a clause; empty where something is.
    """

    id: str
    kind: Kind
    title: str
    why: str
    kernels: tuple[str, ...]
    nodes: tuple[str, ...]
    predicted_ns: float | None
    predicted_share: float | None
    low_ns: float | None
    high_ns: float | None
    how: str
    recipe: Recipe | None = field(default=None, repr=False)
    changes: Literal["nothing", "rounding", "precision"] = "nothing"
    withheld: str = ""

    @property
    def can_try(self) -> bool:
        """Whether maxlab can make the change and measure it."""
        return self.recipe is not None

    @property
    def prediction(self) -> str:
        """The prediction in words.

        Example:
            >>> from maxlab.analysis.advice.action import Action
            >>> why = ("hoist", "hoist", "Compute it once", "", ("k0",), ("n1",))
            >>> Action(*why, 520e3, 0.65, 430e3, 650e3, "").prediction
            'saves 520 µs (65%), between 430 µs and 650 µs'
            >>> Action(*why, -2e3, -0.01, -9e3, 5e3, "").prediction
            'may change nothing: between 9.00 µs slower and 5.00 µs faster'
        """
        ns, share, low, high = self.predicted_ns, self.predicted_share, self.low_ns, self.high_ns
        if ns is None or share is None or low is None or high is None:
            return f"no prediction: {self.withheld}"
        if low == high == 0:
            return "changes nothing"
        if low <= 0 <= high:
            return (
                f"may change nothing: between {time_text(-low)} slower and {time_text(high)} faster"
            )
        least, most = sorted((abs(low), abs(high)))
        return (
            f"{'saves' if ns > 0 else 'costs'} {time_text(abs(ns))} ({abs(share):.0%}), "
            f"between {time_text(least)} and {time_text(most)}"
        )

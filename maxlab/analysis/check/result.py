"""The result of ``compare``: `Comparison`, and the checks of ops and kernels that it holds."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from maxlab.analysis.check.alone import Alone
from maxlab.analysis.check.difference import Difference, of_tolerance
from maxlab.analysis.check.locate import Located
from maxlab.analysis.check.repro import write_repro
from maxlab.analysis.check.steps import StepFacts
from maxlab.engine.model import Model
from maxlab.errors import ArgumentError, Location
from maxlab.tabular import Field, Tabular, aligned, first_rows

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class NodeCheck:
    """The finding of ``compare`` on one op of the graph.

    Attributes:
        id: The op, ``"n12"``.
        op: What it is, ``"gelu"``.
        kernel: The kernel that computes it, ``"k4"``.
        ok: Whether it is not where the mistake is.
        by: ``"value"`` when its own result was compared; ``"kernel"`` when it is fused into a
            kernel of which only the results were.
        difference: How far its result, or those of its kernel, are off; None when nothing could be
            compared.
        message: What is wrong, in a sentence, or that it only follows from what is; empty when
            nothing is wrong.
        at: Where in the user's code it was written.
    """

    id: str
    op: str
    kernel: str
    ok: bool
    by: Literal["value", "kernel"]
    difference: Difference | None
    message: str = ""
    at: Location | None = None


@dataclass(frozen=True, slots=True)
class KernelCheck:
    """The finding of ``compare`` on one kernel: how far the worst of its results is off, its inputs
    being what they were.

    Attributes:
        id: The kernel, ``"k4"``.
        name: What it computes.
        nodes: Ids of the ops of the graph that it computes.
        ok: Whether its results are right.
        difference: How far the worst of them is off; None when it has failed.
        error: The error that it raised; empty for most.
    """

    id: str
    name: str
    nodes: tuple[str, ...]
    ok: bool
    difference: Difference | None
    error: str = ""


@dataclass(slots=True)
class Bad:
    """The first kernel that is wrong, with what is needed to show it elsewhere.

    Attributes:
        facts: Its step.
        alone: The kernel on the memory that it had; None when it has no text.
        located: Where in it the mistake is.
        inputs: What the wrong op read, by value.
        wanted: For pointers that it writes, what the references say.
    """

    facts: StepFacts
    alone: Alone | None
    located: Located
    inputs: dict[str, Array]
    wanted: list[tuple[int, Array]]


@dataclass(slots=True, weakref_slot=True)
class Comparison(Tabular):
    """Whether a model computes what its graph says. ``compare`` makes it.

    Attributes:
        model: The model.
        kernels: What was found of each kernel, in the order in which they run, up to the first
            wrong one unless all were asked for.
        nodes: What was found of each op of these kernels.
        outputs: For each output, how far it is from the graph's references run from the inputs on,
            with the rounding errors of all kernels together; empty when it stopped before the end.
        passes: How far the outputs of the graph as it was compiled are from those of the graph as
            it was written, both computed by the references; empty when it stopped before the end.
        message: The result in a sentence or two.
        bad_kernel: The first wrong kernel with its memory; None when all are right.
    """

    model: Model
    kernels: list[KernelCheck] = field(default_factory=list)
    nodes: list[NodeCheck] = field(default_factory=list)
    outputs: list[Difference] = field(default_factory=list)
    passes: list[Difference] = field(default_factory=list)
    message: str = ""
    bad_kernel: Bad | None = None

    @property
    def ok(self) -> bool:
        """Whether everything that was compared is right."""
        return (
            all(k.ok for k in self.kernels)
            and all(d.ok for d in self.outputs)
            and all(d.ok for d in self.passes)
        )

    @property
    def first(self) -> NodeCheck | None:
        """The first op that is wrong; None when all are right."""
        return next((n for n in self.nodes if not n.ok), None)

    @property
    def inputs(self) -> dict[str, Array]:
        """Inputs of the first wrong op, or of its kernel when only that is known; by value."""
        return self.bad_kernel.inputs if self.bad_kernel is not None else {}

    def node(self, id: str) -> NodeCheck:
        """The finding on the op ``id``.

        Raises:
            KeyError: It was not reached, or has no kernel.
        """
        for node in self.nodes:
            if node.id == id:
                return node
        raise KeyError(id)

    def worst(self) -> list[NodeCheck]:
        """The ops, those that are furthest off first."""
        return sorted(self.nodes, key=_badness, reverse=True)

    def repro(self, path: Path | str) -> Path:
        """The path of a short script that was written: it runs the first wrong kernel alone, on the
        memory that it had, and compares what it writes with what the references say.

        The kernel's text and memory are in files of the same name beside it.

        Args:
            path: Where to write the script; its folder exists.

        Raises:
            ArgumentError: ML661, nothing is wrong, or what is wrong is no kernel with a text.
            FileError: ML001, one of the files is there and is no regular file; ML003, one of them
                cannot be written.
        """
        bad = self.bad_kernel
        if bad is None or bad.alone is None:
            why = "nothing is wrong" if self.ok else "what is wrong is no kernel with a text"
            raise ArgumentError(
                "ML661",
                f"there is nothing to write a script of: {why}",
                fix="call it when comparison.first is an op of a generated kernel",
            )
        first = self.first
        wrong = f"{first.id} ({first.op}): {first.message}" if first is not None else ""
        return write_repro(path, self.model.name, bad.facts.step, wrong, bad.alone, bad.wanted)

    def _heads(self) -> Sequence[str]:
        return (
            "op", "name", "kernel", "ok", "compared by", "error [of the tolerance]", "absolute",
            "relative", "NaN", "inf", "ulp", "message",
        )  # fmt: skip

    def _records(self) -> Iterator[Sequence[Field]]:
        for node in self.nodes:
            d = node.difference
            numbers: Sequence[Field] = (
                (d.excess, d.max_abs, d.max_rel, d.nan, d.inf, d.max_ulp)
                if d is not None
                else (None,) * 6
            )
            yield node.id, node.op, node.kernel, node.ok, node.by, *numbers, node.message

    def table(self, rows: int | None = 20) -> str:
        """The ops as text, the worst first.

        Args:
            rows: How many to list; None lists all.
        """
        ordered = self.worst()
        shown = first_rows(ordered, rows)
        cells = [("op", "", "kernel", "error", "abs", "rel", "NaN", "inf", "", "")]
        for node in shown:
            d = node.difference
            numbers = (
                (
                    of_tolerance(d.excess),
                    f"{d.max_abs:.2g}",
                    f"{d.max_rel:.2g}",
                    str(d.nan),
                    str(d.inf),
                )
                if d is not None
                else ("", "", "", "", "")
            )
            verdict = "wrong" if not node.ok else "behind" if node.message else "ok"
            by = "" if node.by == "value" else "by its kernel"
            cells.append((node.id, node.op, node.kernel, *numbers, verdict, by))
        lines = aligned(cells, right=range(3, 8))
        left = len(ordered) - len(shown)
        if left:
            lines.append(f"… {left} more")
        return "\n".join([self.message, "", *lines])

    def __repr__(self) -> str:
        return f"Comparison({self.model.name!r}: {self.message})"


_newest: weakref.WeakValueDictionary[int, Comparison] = weakref.WeakValueDictionary()


def remember(found: Comparison) -> None:
    """Let `newest` give ``found`` for as long as somebody holds it."""
    _newest[id(found.model)] = found


def newest(model: Model) -> Comparison | None:
    """The newest comparison of ``model`` that somebody still holds."""
    found = _newest.get(id(model))
    return found if found is not None and found.model is model else None


def _badness(node: NodeCheck) -> tuple[bool, float, float]:
    d = node.difference
    if d is None:
        return (not node.ok, np.inf if not node.ok else 0.0, 0.0)
    return (not node.ok, d.excess, float(d.max_ulp))


__all__ = ["Bad", "Comparison", "KernelCheck", "NodeCheck", "newest", "remember"]

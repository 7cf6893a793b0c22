"""Proposals for a cell: its text with the edits of its graph, checked where it can be."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from maxlab.graph.code import are_equal
from maxlab.ir import Function, Op
from maxlab.lab.code.changes import Changes, changes_between
from maxlab.lab.code.checking import build, why_not
from maxlab.lab.code.parsed import Code, Site
from maxlab.lab.code.reading import Reading
from maxlab.lab.code.refusing import CodeError, Way
from maxlab.lab.code.rewriting import Rewriter, Why
from maxlab.lab.code.text import Replacement, replaced
from maxlab.lab.code.ways import as_override, as_parameter


@dataclass(frozen=True, slots=True)
class Proposal:
    """Another text of a cell.

    Attributes:
        text: What the cell has.
        replacements: What is replaced in it, in code points.
        says: What that does, a sentence each.
        is_checked: Whether the new text was run, and built the graph as it is.
        unchecked: Why it was not run.
    """

    text: str
    replacements: tuple[Replacement, ...]
    says: tuple[str, ...]
    is_checked: bool
    unchecked: str = ""

    @property
    def new_text(self) -> str:
        """The text that the cell would have."""
        return replaced(self.text, self.replacements)


def sites_of(code: Code, base: Function, is_here: Callable[[Op], bool]) -> Sites:
    """The operations of ``base`` that ``code`` has made, by the expressions that made them."""
    found: Sites = {}
    for op in base.ops:
        at = op.loc
        if at is not None and at.end != (0, 0) and is_here(op):
            nodes = code.sites.get((at.line, at.column, *at.end), [])
            if len(nodes) == 1:
                found.setdefault(nodes[0], []).append(op)
    return found


Sites = dict[Site, list[Op]]


def propose(
    text: str,
    base: Function,
    now: Function,
    namespace: Mapping[str, Any],
    *,
    is_here: Callable[[Op], bool],
    elsewhere: Why = lambda op: None,
    used: Collection[str] = (),
    graph: object = None,
    way: Way | None = None,
) -> Proposal:
    """The text of a cell that builds ``now``.

    Args:
        text: The cell as the kernel compiled it, which built ``base``.
        base: The graph as the cell built it; edits of it made ``now``.
        now: The graph as it is.
        namespace: The variables of the notebook.
        is_here: Whether an operation was made by the cell.
        elsewhere: Why an operation of another place cannot be changed.
        used: Names that other cells use.
        graph: The graph object itself.
        way: What to do instead of rewriting the lines that made what changed.

    Raises:
        CodeError: It cannot be written; the codes are ML872 to ML880.
    """
    changes = changes_between(base, now)
    if changes.is_empty:
        raise CodeError(
            "ML880",
            "the graph is as its cell built it: there is nothing to write",
            fix="edit the graph first",
        )
    code = Code(text, namespace)
    reading = Reading(code, base, sites_of(code, base, is_here), graph)
    if way == "parameter":
        written = as_parameter(reading, changes)
    elif way == "override":
        written = as_override(reading, changes)
    else:
        written = Rewriter(reading, changes, elsewhere, used).write()
    return checked(text, written.replacements, written.says, now, namespace, written.needs_check)


def checked(
    text: str,
    replacements: Collection[Replacement],
    says: Collection[str],
    now: Function,
    namespace: Mapping[str, Any],
    needs_check: str = "",
) -> Proposal:
    """A proposal that was run, where it can be.

    Raises:
        CodeError: ML879, it would build another graph, or must be run to know that, and cannot be.
    """
    new = replaced(text, replacements)
    if new == text:
        raise CodeError(
            "ML880",
            "the cell says what the graph is: there is nothing to write",
            fix="run the cell again to see it",
        )
    objection = why_not(new, namespace)
    if objection:
        if needs_check:
            raise CodeError(
                "ML879",
                f"{needs_check}, and the cell cannot be tried: {objection}",
                fix="change the cell by hand",
            )
        Code(new, namespace)  # it is Python at least
        return Proposal(text, tuple(sorted(replacements)), tuple(says), False, objection)
    try:
        made = build(new, namespace, now.name)
    except Exception as error:
        raise CodeError(
            "ML879",
            f"the rewritten cell would fail: {str(error).splitlines()[0] if str(error) else error}",
            fix="change the cell by hand",
        ) from error
    if made is None or not are_equal(made, now):
        raise CodeError(
            "ML879",
            "the rewritten cell would build another graph than this one",
            fix="change the cell by hand",
        )
    return Proposal(text, tuple(sorted(replacements)), tuple(says), True)


__all__ = ["Changes", "Proposal", "checked", "propose", "sites_of"]

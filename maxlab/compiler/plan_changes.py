"""The differences between two plans, as values that are printed and compared: ``PlanDiff``."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from maxlab.compiler.plan_html import MOST, card, code, left_out, table
from maxlab.compiler.plan_text import counted
from maxlab.markup import escape


@dataclass(frozen=True, slots=True)
class Detail:
    """One thing that differs: what it is, and how it is in either plan; empty where a plan has
    nothing to say."""

    what: str
    before: str
    after: str

    def mirrored(self) -> Detail:
        """The same, seen from the other plan."""
        return Detail(self.what, self.after, self.before)

    def __str__(self) -> str:
        return f"{self.before or 'none'} → {self.after or 'none'}"


@dataclass(frozen=True, slots=True)
class Change:
    """A step or buffer that is not the same in both plans.

    Attributes:
        before: Its id in the first plan, such as ``k3``; empty where only the second has it.
        after: Its id in the second plan; empty where only the first has it.
        was: What it is in the first plan.
        words: What it is in the second.
        details: What differs, of one that both plans have.
        texts: The kernel of either plan, where these differ.
    """

    before: str
    after: str
    was: str
    words: str
    details: tuple[Detail, ...] = ()
    texts: tuple[str, str] = ("", "")

    @property
    def kind(self) -> Kind:
        """The kind of change on the way from the first plan to the second."""
        if not self.before:
            return "added"
        return "changed" if self.after else "removed"

    @property
    def ids(self) -> str:
        """Its id in either plan."""
        return " → ".join(dict.fromkeys(id for id in (self.before, self.after) if id))

    @property
    def title(self) -> str:
        """The name of the thing in either plan."""
        return " → ".join(dict.fromkeys(words for words in (self.was, self.words) if words))

    @property
    def code(self) -> str:
        """The lines in which the kernels differ, as ``diff -u`` writes them; empty where they do
        not differ."""
        if self.texts[0] == self.texts[1]:
            return ""
        before, after = (text.splitlines() for text in self.texts)
        lines = difflib.unified_diff(before, after, self.before, self.after, n=2, lineterm="")
        return "\n".join(lines)

    def mirrored(self) -> Change:
        """The same, seen from the other plan."""
        details = tuple(detail.mirrored() for detail in self.details)
        return Change(self.after, self.before, self.words, self.was, details, self.texts[::-1])


@dataclass(frozen=True, slots=True)
class PlanDiff:
    """The differences between two plans; empty, and false, when they are equal.

    Attributes:
        before, after: The size of either plan in words.
        steps: The steps that were added, removed or changed.
        buffers: The buffers that were.
        rest: What else differs: inputs, outputs, weights, conditions of sizes, the user's lines.
        totals: Arithmetic, traffic and memory, where these differ.
        renumbered: Whether the plans do the same, and steps, buffers or operations have other
            numbers.
    """

    before: str
    after: str
    steps: tuple[Change, ...] = ()
    buffers: tuple[Change, ...] = ()
    rest: tuple[Detail, ...] = ()
    totals: tuple[Detail, ...] = ()
    renumbered: bool = False

    def __bool__(self) -> bool:
        return bool(self.steps or self.buffers or self.rest or self.renumbered)

    def mirrored(self) -> PlanDiff:
        """The differences when the second plan is the first.

        Example:
            >>> from maxlab import engine
            >>> from maxlab.dtype import DType
            >>> from maxlab.graph import Graph, TensorType
            >>> types = [TensorType(DType.float32, ["n"])]
            >>> plans = [
            ...     engine.InferenceSession().load(Graph("f", f, types)).plan
            ...     for f in (lambda x: x * 2, lambda x: x + 2)
            ... ]
            >>> plans[0].diff(plans[1]).mirrored() == plans[1].diff(plans[0])
            True
        """
        return PlanDiff(
            self.after,
            self.before,
            in_order(change.mirrored() for change in self.steps),
            in_order(change.mirrored() for change in self.buffers),
            tuple(detail.mirrored() for detail in self.rest),
            tuple(detail.mirrored() for detail in self.totals),
            self.renumbered,
        )

    def table(self, rows: int | None = 20) -> str:
        """The differences as text.

        Args:
            rows: How many steps, and how many buffers, to list; None lists all.
        """
        return "\n".join(self._lines(rows))

    def _lines(self, rows: int | None) -> Iterator[str]:
        if not self:
            yield f"the plans are equal: {self.before}"
            return
        yield self.headline
        for what, changes in (("steps", self.steps), ("buffers", self.buffers)):
            if changes:
                yield from ("", what)
            shown = changes if rows is None else changes[:rows]
            for change in shown:
                yield f"  {change.kind:7}  {change.ids} {change.title}"
                told = [detail for detail in change.details if detail.what not in IN_TITLE]
                yield from _detail_lines(told, " " * 11)
            if len(changes) > len(shown):
                yield f"  … {len(changes) - len(shown)} more {what}"
        for what, details in (("besides", self.rest), (TOTALS, self.totals)):
            if details:
                yield from ("", what)
                yield from _detail_lines(details, "  ")

    @property
    def headline(self) -> str:
        """How much differs, in a line."""
        if self.renumbered:
            return (
                f"the plans do the same: {self.before}; only the numbers of steps, buffers or "
                "operations differ"
            )
        size = self.before if self.before == self.after else f"{self.before} → {self.after}"
        parts = []
        for what, changes in (("step", self.steps), ("buffer", self.buffers)):
            kinds = Counter(change.kind for change in changes)
            for kind in KINDS:
                parts += [counted(kinds[kind], f"{kind} {what}")] if kinds[kind] else []
        return f"{size}: {', '.join(parts) or 'the same steps and buffers'}"

    def __str__(self) -> str:
        return self.table(None)

    def __repr__(self) -> str:
        return f"PlanDiff({self.headline if self else 'equal'})"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(self.table())

    def _repr_html_(self) -> str:
        return diff_page(self)


TOTALS = "in all, each step counted once"
WIDTH = 80
"""Characters of what was before and after in one line; more are two lines."""
IN_TITLE = ("name", "kind")
"""Details that the title of a change says already."""


def _detail_lines(details: Sequence[Detail], indent: str) -> Iterator[str]:
    width = max((len(detail.what) for detail in details), default=0)
    for detail in details:
        begin = f"{indent}{detail.what.ljust(width)}"
        if len(detail.before) + len(detail.after) < WIDTH:
            yield f"{begin}  {detail}"
        else:
            yield f"{begin}  {detail.before or 'none'}"
            yield f"{' ' * len(begin)}  → {detail.after or 'none'}"


Kind = Literal["removed", "added", "changed"]
KINDS: tuple[Kind, ...] = ("removed", "added", "changed")


def in_order(changes: Iterable[Change]) -> tuple[Change, ...]:
    """By what happened, then by the number in the plan that has it."""

    def key(change: Change) -> tuple[int, int]:
        return KINDS.index(change.kind), int((change.after or change.before)[1:])

    return tuple(sorted(changes, key=key))


# ---------------------------------------------------------------- as a page
def diff_page(diff: PlanDiff, most: int = MOST) -> str:
    """``diff`` as HTML.

    Args:
        diff: What differs.
        most: How many steps, and how many buffers, to show; a sentence says how many are left out.
    """
    if not diff:
        head = f"The plans are equal: {diff.before}"
        return card([f"<header>{escape(head)}</header>"])
    parts = [f"<header><b>Two plans</b> · {escape(diff.headline)}</header>"]
    for what, changes in (("step", diff.steps), ("buffer", diff.buffers)):
        if changes:
            rows = [_change_row(change) for change in changes[:most]]
            body = table(("", what, "is", "differs in"), rows)
            parts.append(f"<section>{body}{left_out(f'{what}s', len(changes), most)}</section>")
    for title, details in (("Besides", diff.rest), (TOTALS.capitalize(), diff.totals)):
        if details:
            body = table(("", "before", "after"), map(_detail_row, details))
            parts.append(f"<section><b>{title}</b>{body}</section>")
    return card(parts)


def _change_row(change: Change) -> tuple[str, ...]:
    told = "<br>".join(
        f"<small>{escape(detail.what)}</small> {code(str(detail), long=True)}"
        for detail in change.details
        if detail.what not in IN_TITLE
    )
    if change.code:
        told += f"<details><summary>the kernel</summary><pre>{escape(change.code)}</pre></details>"
    return change.kind, code(change.ids), escape(change.title), told


def _detail_row(detail: Detail) -> tuple[str, ...]:
    values = (code(text or "none", long=True) for text in (detail.before, detail.after))
    return (escape(detail.what), *values)


__all__ = ["IN_TITLE", "TOTALS", "Change", "Detail", "PlanDiff", "diff_page", "in_order"]

"""Cells at random, edited at random: what is written builds the graph; the rest is untouched."""

from __future__ import annotations

import difflib
from collections import Counter

import pytest

from maxlab.errors import MaxlabError
from maxlab.graph.code import are_equal
from maxlab.lab.code.changes import changes_between
from maxlab.lab.code.parsed import Code
from maxlab.lab.code.proposing import propose, sites_of
from maxlab.lab.code.reading import Reading
from maxlab.lab.code.refusing import CodeError
from maxlab.lab.code.rewriting import Rewriter
from maxlab.lab.code.text import replaced
from tests.lab.code.cells import Built, Cells, edit, run


def edited(seed: int) -> Built | None:
    """A cell whose graph was edited; None where the seed makes none."""
    try:
        built = run(Cells(seed).text())
    except MaxlabError:
        return None
    return built if edit(built, seed) else None


def written(built: Built) -> tuple[str, list[tuple[int, int]], str]:
    """The new text, what was replaced, and why it must be tried, without any trial."""
    base = built.base
    code = Code(built.text, built.namespace)
    sites = sites_of(code, base, built.made)
    changes = changes_between(base, built.graph.function)
    found = Rewriter(Reading(code, base, sites, built.graph), changes, lambda op: None).write()
    ranges = [(start, end) for start, end, _ in found.replacements]
    return replaced(built.text, found.replacements), ranges, found.needs_check


@pytest.mark.parametrize("seed", range(1000))
def test_a_new_text_builds_the_edited_graph(seed: int) -> None:
    built = edited(seed)
    if built is None:
        return
    try:
        new, ranges, needs_check = written(built)
    except CodeError:
        return
    # Only what was replaced differs: the text is its pieces between the ranges, in order.
    at, place = 0, 0
    for start, end in [*ranges, (len(built.text), len(built.text))]:
        kept = built.text[at:start]
        found = new.find(kept, place)
        assert found >= 0
        at, place = end, found + len(kept)
    matcher = difflib.SequenceMatcher(None, built.text, new, autojunk=False)
    assert matcher.ratio() > 0.3
    for line in built.text.splitlines(True):
        if line.lstrip().startswith("#"):
            assert line in new
    assert ("\r\n" in new) == ("\r\n" in built.text)
    if not needs_check:
        again = run(new)
        assert are_equal(again.graph.function, built.graph.function), new


def test_most_edits_are_written_and_checked() -> None:
    count: Counter[str] = Counter()
    for seed in range(2000, 2060):
        built = edited(seed)
        if built is None:
            continue
        try:
            found = propose(
                built.text,
                built.base,
                built.graph.function,
                built.namespace,
                is_here=built.made,
                graph=built.graph,
            )
        except CodeError as error:
            count[error.code] += 1
            continue
        count["checked" if found.is_checked else "unchecked"] += 1
        assert are_equal(run(found.new_text).graph.function, built.graph.function)
    assert count["checked"] > sum(count.values()) / 2, count
    assert count["ML879"] == 0, count

"""Kernels whose generated text somebody has written anew."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import TypeVar

from maxlab.compiler.plan import Plan, Step
from maxlab.compiler.printed import Printed
from maxlab.errors import ArgumentError

P = TypeVar("P", bound=Printed)


def replace_texts(plan: Plan, replaced: Sequence[tuple[str, str]]) -> None:
    """Give every kernel of ``plan`` that has a symbol of ``replaced`` the text that goes with it.

    Raises:
        ArgumentError: ML627, no kernel has one of the symbols.
    """
    texts = dict(replaced)
    if not texts:
        return
    missed = dict(texts)
    known: dict[str, None] = {}
    for step in plan.steps:
        for variant, printed in _texts(step):
            known[printed.symbol] = None
            text = texts.get(printed.symbol)
            if text is None:
                continue
            missed.pop(printed.symbol, None)
            made = edited(printed, text)
            if step.gpu is not None:
                step.gpu.replace(variant, made)  # type: ignore[arg-type]  # they print CUDA
            if variant == 0:
                step.printed = made
                step.long = step.strips = None
                step.others = {}
    if missed:
        import difflib

        symbol = next(iter(missed))
        close = difflib.get_close_matches(symbol, known, 1, 0.0)
        raise ArgumentError(
            "ML627",
            f"the option replaced names the kernel {symbol!r}, which this graph does not become",
            why=["other options, or a changed graph, make other kernels"],
            fix=f"leave it out, or take a symbol from model.kernels, such as {close[0]!r}"
            if close
            else "leave it out: the graph has no generated kernels",
        )


def _texts(step: Step) -> Iterator[tuple[int, Printed]]:
    if step.gpu is not None:
        for variant in range(len(step.gpu)):
            yield variant, step.gpu.printed(variant)
    elif step.printed is not None:
        yield 0, step.printed


def edited(printed: P, text: str) -> P:
    """``printed`` with another text; lines that are still there keep the ops they came from."""
    import difflib

    old, new = printed.text.splitlines(), text.splitlines()
    place: dict[int, int] = {}
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for a, b, size in matcher.get_matching_blocks():
        place.update({a + n + 1: b + n + 1 for n in range(size)})
    lines: list[tuple[int, int, str]] = []
    for first, last, node in printed.lines:
        found = [place[n] for n in range(first, last + 1) if n in place]
        if found:
            lines.append((min(found), max(found), node))
    return dataclasses.replace(printed, text=text, lines=lines)

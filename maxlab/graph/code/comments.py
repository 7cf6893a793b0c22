"""Notes that people laid beside a graph, as comments of its code: texts, drafts and lessons."""

from __future__ import annotations

import textwrap
from typing import Any, Final

from maxlab.graph.code.text import WIDTH
from maxlab.graph.lesson import goal_of, lesson_of
from maxlab.graph.notes import COMMENTS, DRAFTS, Comments, Drafts

INDENT: Final = "    "


def comments_of(graph: Any) -> dict[str, list[str]]:
    """The texts that stand at operations, by their ids."""
    found: dict[str, list[str]] = {}
    ids = {op.id for op in graph.function.walk()}
    for comment in Comments(graph.function, COMMENTS):
        if comment.on in ids:
            found.setdefault(comment.on, []).extend(_lines(comment.text, INDENT * 2))
    return found


def head_of(graph: Any) -> list[str]:
    """The first lines of the code: the lesson, and the texts that stand at no operation."""
    ids = {op.id for op in graph.function.walk()}
    texts = []
    lesson = lesson_of(graph.function)
    if lesson is not None:
        texts += [lesson.title, lesson.says, lesson.text]
        texts += [f"Hint: {hint}" for hint in lesson.hints]
    goal = goal_of(graph.function)
    if goal is not None and goal.types:
        texts.append(f"Goal: outputs of the types {', '.join(goal.types)}")
    texts += [c.text for c in Comments(graph.function, COMMENTS) if c.on not in ids]
    made: list[str] = []
    for text in filter(None, texts):
        made += [*(["#"] if made else []), *(f"# {line}".rstrip() for line in _lines(text, ""))]
    return made


def tail_of(graph: Any) -> list[str]:
    """The last lines of the code: the drafts."""
    made: list[str] = []
    for draft in Drafts(graph.function, DRAFTS):
        operands = ", ".join(operand or "?" for operand in draft.operands)
        attrs = "".join(f", {key}={value}" for key, value in draft.attrs.items())
        text = f"Draft {draft.id}: {draft.name}({operands}{attrs}): {draft.reason}"
        made += [f"{INDENT}# {line}".rstrip() for line in _lines(text, INDENT)]
    return made


def _lines(text: str, pad: str) -> list[str]:
    """``text`` in lines that fit behind ``pad`` and a ``#``; nothing in it ends a comment."""
    made: list[str] = []
    for line in text.splitlines():
        plain = "".join(c if c.isprintable() else " " for c in line)
        made += textwrap.wrap(plain, WIDTH - len(pad) - 2, break_on_hyphens=False) or [""]
    return made


__all__ = ["comments_of", "head_of", "tail_of"]

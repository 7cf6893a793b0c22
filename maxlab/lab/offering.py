"""Offers of the palette beside operations, as each kind of them is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from maxlab.graph import Editor
from maxlab.graph.value import Value
from maxlab.lab.fields import WRITE
from maxlab.lab.protocol.changes import ChangeField, OfferedOp

Add = Callable[[Editor, Sequence[Value], Mapping[str, str]], Sequence[Value]]


class Source(NamedTuple):
    """Something that can be added.

    Attributes:
        told: What the palette says of it.
        add: Adds it; the editor, the values that it reads, and what was typed.
        trial: What is typed to find out whether it fits; None where only its types say so.
        example: A program that uses it; empty where there is none.
    """

    told: OfferedOp
    add: Add
    trial: Mapping[str, str] | None = None
    example: str = ""


def field(
    name: str,
    kind: str,
    text: str = "",
    needed: bool = True,
    hint: str = "",
    choices: Sequence[str] = (),
) -> ChangeField:
    """The description of a field that is typed."""
    return {
        "name": name,
        "kind": kind,  # type: ignore[typeddict-item]
        "text": text,
        "needed": needed,
        "choices": list(choices),
        "hint": hint or WRITE[kind],
    }


__all__ = ["Add", "Source", "field"]

"""``Conflict``: what two people changed in different ways, so that a merge could not take both.

A merged document has one side's state, so that it opens and runs, and says in its conflicts what
there was before and on the other side. They are notes of the function, as comments are: taking a
side is a step, and undo brings the conflict back.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from maxlab.errors import shown
from maxlab.graph.notes import InOrder, Refuse, cannot_hold, is_texts
from maxlab.graph.tables import CONFLICTS
from maxlab.ir import Function, user_frame

Side = Literal["base", "ours", "theirs"]
SIDES: Final[tuple[Side, ...]] = ("base", "ours", "theirs")
KINDS: Final[Mapping[str, str]] = {
    "changed": "both sides changed it",
    "removed": "one side removed it, the other changed it",
    "added": "both sides added it",
    "unfit": "it does not fit what the other side made",
}
"""The causes of conflicts, in words."""

_encode = json.JSONEncoder(
    ensure_ascii=False, sort_keys=True, allow_nan=False, separators=(",", ":")
).encode


@dataclass(frozen=True, slots=True)
class ConflictPart:
    """One thing that a conflict is about, and what each side has there.

    Attributes:
        of: What it is of: a section of the document, such as ``op``, and a key in it, such as
            ``n3``.
        name: Which field of it, such as ``attr axis``; empty where all of it is meant.
        base: What there was before, as JSON; None where there was nothing.
        ours: What one side has.
        theirs: What the other side has.
    """

    of: tuple[str, str]
    name: str
    base: Any
    ours: Any
    theirs: Any

    def side(self, side: Side) -> Any:
        """The value of ``side``."""
        return {"base": self.base, "ours": self.ours, "theirs": self.theirs}[side]

    def __str__(self) -> str:
        sides = (f"{side} {told(self.side(side)) or 'nothing'}" for side in SIDES)
        return f"{self.what}: {', '.join(sides)}"

    @property
    def what(self) -> str:
        """The name of the field in words: ``n3 attr axis``."""
        return f"{self.of[1] or self.of[0]} {self.name}".strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """A change of two sides of which one document can have only one.

    Attributes:
        id: An id that no other conflict has.
        kind: ``changed``, ``removed``, ``added`` or ``unfit``; see `KINDS`.
        says: What it is about, for people.
        on: The keys of what it is about, as places have them: ``n3``, ``in:a0``.
        parts: What each side has.
        constants: The bytes of larger constants that the sides name, as base64 by their hash.
        more: Fields that this version does not know.
    """

    id: str
    kind: str
    says: str
    on: tuple[str, ...] = ()
    parts: tuple[ConflictPart, ...] = ()
    constants: Mapping[str, str] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return "\n    ".join([f"{self.id}: {self.says}", *map(str, self.parts)])

    def to_dict(self) -> dict[str, Any]:
        """It as plain JSON: what stands in the document."""
        made: dict[str, Any] = {**self.more, "id": self.id, "kind": self.kind, "says": self.says}
        if self.on:
            made["on"] = list(self.on)
        made["parts"] = [
            {"of": list(p.of), "name": p.name, "base": p.base, "ours": p.ours, "theirs": p.theirs}
            for p in self.parts
        ]
        if self.constants:
            made["constants"] = dict(self.constants)
        return made


class Conflicts(InOrder[Conflict]):
    """The conflicts of a document."""

    __slots__ = ()

    def _read(self, key: str, note: str) -> Conflict:
        try:
            data = json.loads(note)
        except (ValueError, RecursionError):
            cannot_hold(f"the conflict {shown(key)} is {shown(note)}, expected JSON", "")
        whole = {**data, "id": key} if isinstance(data, dict) else data
        return conflict_of(whole, cannot_hold)

    def _write(self, value: Any) -> str:
        if not isinstance(value, Conflict):
            cannot_hold(f"a conflict is {shown(value)}, expected a Conflict", "")
        data = value.to_dict()
        conflict_of(data, cannot_hold)
        for part in value.parts:  # no new operation gets the id of one that may come back
            self._function.reserve(part.of[1])
            for side in ("ours", "theirs"):
                fields = part.side(side)
                made = fields.get("results") if isinstance(fields, dict) else None
                for id in made if isinstance(made, list) else ():
                    self._function.reserve(str(id))
        data.pop("id")
        try:
            return _encode(data)
        except (TypeError, ValueError, RecursionError) as error:
            cannot_hold(f"the conflict {value.id}: {error}", "")


def warn_of_conflicts(function: Function, verb: str) -> None:
    """Warns, at the user's line, that ``function``, which is ``verb`` as one side has it, has
    conflicts that nobody has decided."""
    conflicts = list(Conflicts(function, CONFLICTS))
    if not conflicts:
        return
    says = "; ".join(f"{one.id} ({one.says})" for one in conflicts[:3])
    says += f"; and {len(conflicts) - 3} more" if len(conflicts) > 3 else ""
    frame = user_frame()
    warnings.warn_explicit(
        f"the graph {function.name!r} is {verb} with conflicts of a merge, as 'ours' has it: "
        f"{says}. Decide each: Editor(graph).resolve({conflicts[0].id!r}, 'theirs')",
        UserWarning,
        frame.f_code.co_filename if frame is not None else "<graph>",
        frame.f_lineno if frame is not None else 1,
    )


def conflict_of(data: Any, refuse: Refuse) -> Conflict:
    """The conflict that ``data`` is.

    Args:
        data: What was read.
        refuse: Called with what is wrong.
    """
    if not isinstance(data, dict):
        refuse(f"a conflict is {shown(data)}, expected an object", CONFLICTS)
    key = data.get("id")
    if not isinstance(key, str):
        refuse(f"the id of a conflict is {shown(key)}, expected a text", CONFLICTS)
    what = f"the conflict {key}"
    for name in ("kind", "says"):
        if not isinstance(data.get(name), str):
            refuse(f"{what}: {name} is {shown(data.get(name))}, expected a text", key)
    on, parts, constants = data.get("on", []), data.get("parts", []), data.get("constants", {})
    if not isinstance(on, list) or not all(isinstance(one, str) for one in on):
        refuse(f"{what}: on is {shown(on)}, expected a list of texts", key)
    if not is_texts(constants):
        refuse(f"{what}: constants are {shown(constants)}, expected texts by name", key)
    if not isinstance(parts, list):
        refuse(f"{what}: parts is {shown(parts)}, expected a list", key)
    known = {"id", "kind", "says", "on", "parts", "constants"}
    return Conflict(
        id=key,
        kind=data["kind"],
        says=data["says"],
        on=tuple(on),
        parts=tuple(_part(part, what, key, refuse) for part in parts),
        constants=constants,
        more={name: value for name, value in data.items() if name not in known},
    )


def _part(data: Any, what: str, key: str, refuse: Refuse) -> ConflictPart:
    of = data.get("of") if isinstance(data, dict) else None
    is_right = isinstance(of, list) and len(of) == 2 and all(isinstance(one, str) for one in of)
    if of is None or not is_right or not isinstance(data.get("name"), str):
        refuse(f"{what}: a part is {shown(data)}, expected an object with of and name", key)
    return ConflictPart((of[0], of[1]), data["name"], *(data.get(side) for side in SIDES))


def told(value: Any) -> str:
    """The value of a side, in words; empty where it has none."""
    if value is None:
        return ""
    if isinstance(value, dict) and "name" in value and "operands" in value:
        reads = ", ".join(map(str, value["operands"]))
        return f"{str(value['name']).removeprefix('mo.')}({reads})"
    text = value if isinstance(value, str) else _encode(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


__all__ = [
    "CONFLICTS",
    "KINDS",
    "SIDES",
    "Conflict",
    "ConflictPart",
    "Conflicts",
    "Side",
    "conflict_of",
    "told",
    "warn_of_conflicts",
]

"""Calls of tools: the schema that forces one, and the calls that are found in answers.

Models write calls in a few ways: JSON between ``<tool_call>`` tags (Hermes, Qwen), JSON behind
``[TOOL_CALLS]`` (Mistral) or ``<|python_tag|>``, and an answer that is JSON alone (Llama 3). Each
is an object with the name of a function and ``arguments`` or ``parameters``, or a list of them.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from maxlab.serve.requests import Function

SPACING = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
"""How calls that are forced are spaced: as Python's json writes, and so the texts that models
learn from. A small model may write spaces without an end where it is free to."""
OPEN, CLOSE = "<tool_call>", "</tool_call>"
PREFIXES = ("[TOOL_CALLS]", "<|python_tag|>")
_BARE = ("{", "[", *PREFIXES)
"""How an answer begins that may be calls alone."""
_JSON = json.JSONDecoder()


@dataclass(frozen=True)
class Call:
    """A call of a function.

    Attributes:
        name: The function.
        arguments: The arguments as JSON.
        id: A name of the call, which the message with its result refers to.
    """

    name: str
    arguments: str
    id: str = field(default_factory=lambda: f"call_{uuid.uuid4().hex}")


def forcing_schema(functions: Sequence[Function]) -> dict[str, Any]:
    """The JSON schema of an answer that calls one of ``functions``.

    Of one function it is the schema of the arguments alone; of several, that of an object with
    ``name`` and ``arguments``.

    Args:
        functions: The functions, one or more.
    """
    if len(functions) == 1:
        return {**parameters(functions[0]), "x-guidance": SPACING}
    found: list[dict[str, Any]] = []
    parts: dict[str, Any] = {}
    for place, one in enumerate(functions):
        own = f"function_{place}"
        parts[own] = _moved(parameters(one), f"#/$defs/{own}")
        found.append(
            {
                "type": "object",
                "properties": {
                    "name": {"const": one.name},
                    "arguments": {"$ref": f"#/$defs/{own}"},
                },
                "required": ["name", "arguments"],
                "additionalProperties": False,
            }
        )
    return {"anyOf": found, "$defs": parts, "x-guidance": SPACING}


def parameters(function: Function) -> dict[str, Any]:
    """The JSON schema of a function's arguments; of one that names none, an empty object.

    Args:
        function: The function.
    """
    empty = {"type": "object", "properties": {}, "additionalProperties": False}
    return empty if function.parameters is None else function.parameters


def _moved(schema: Any, place: str) -> Any:
    """A schema whose references hold when it stands at ``place`` of another."""
    if isinstance(schema, dict):
        return {
            key: place + one[1:]
            if key == "$ref" and isinstance(one, str) and one.startswith("#")
            else _moved(one, place)
            for key, one in schema.items()
        }
    return [_moved(one, place) for one in schema] if isinstance(schema, list) else schema


class CallReader:
    """Finds the calls in the text of an answer while it comes.

    Text that is no call is given as soon as that is sure. An answer that begins as JSON is held
    until its end.

    Args:
        names: The functions that may be called; JSON that names another one is text.
        most: The most calls; what comes after the last one is dropped.
        forced: The function whose arguments the whole answer is; ``""`` for an answer that is one
            call of any function; None for an answer that may have calls.

    Example:
        >>> reader = CallReader(["add"])
        >>> reader.push("Wait. <tool"), reader.push('_call>{"name": "add", "arguments": {"a": 1}}')
        (['Wait. '], [])
        >>> [(one.name, one.arguments) for one in reader.push("</tool_call>")]
        [('add', '{"a": 1}')]
    """

    def __init__(
        self, names: Sequence[str], *, most: int | None = None, forced: str | None = None
    ) -> None:
        self._names = frozenset(names)
        self._left = most
        self._forced = forced
        self._held = ""
        self._begun = False
        self._inside = False
        self.found = 0
        """The number of calls so far."""

    def push(self, text: str) -> list[str | Call]:
        """The texts and calls that more text completes.

        Args:
            text: The text.
        """
        self._held += text
        if self._forced is not None:
            return []
        given: list[str | Call] = []
        while self._begins() and self._take(given):
            pass
        return given

    def finish(self) -> list[str | Call]:
        """The texts and calls that were held when the answer ended."""
        held, self._held = self._held, ""
        if self._forced:
            return [*self._counted([Call(self._forced, held)])] if _is_object(held) else [held]
        if self._inside:
            held = OPEN + held
            return self._calls(held[len(OPEN) :], held)
        if held.strip():
            return self._calls(held, held)
        return [held] * bool(held and not self.found)

    def _begins(self) -> bool:
        """Whether the text so far need not be held to the end."""
        if self._begun:
            return True
        start = self._held.lstrip()
        if not start or any(one.startswith(start) or start.startswith(one) for one in _BARE):
            return False
        self._begun = True
        return True

    def _take(self, given: list[str | Call]) -> bool:
        """Takes what is complete of the text that is held; whether there may be more."""
        mark = CLOSE if self._inside else OPEN
        before, found, after = self._held.partition(mark)
        if not found:
            size = len(self._held) - _overlap(self._held, mark)
            sure = self._held[:size]
            # Space between calls, and behind the last one, is no text.
            if not self._inside and (sure.strip() or not self.found):
                given += [sure] * bool(size and self._left != 0)
                self._held = self._held[size:]
            return False
        if self._inside:
            given += self._calls(before, OPEN + before + CLOSE)
        elif before.strip() and self._left != 0:
            given.append(before)
        self._held, self._inside = after, not self._inside
        return True

    def _calls(self, text: str, whole: str) -> list[str | Call]:
        """The calls in ``text``, or ``whole`` where it has none."""
        found = list(_read(text, self._names))
        if found:
            return [*self._counted(found)]
        return [] if self._left == 0 else [whole]

    def _counted(self, found: list[Call]) -> list[Call]:
        taken = found if self._left is None else found[: self._left]
        self._left = None if self._left is None else self._left - len(taken)
        self.found += len(taken)
        return taken


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _overlap(text: str, mark: str) -> int:
    """How many characters at the end of ``text`` may be the beginning of ``mark``."""
    return next((n for n in range(len(mark) - 1, 0, -1) if text.endswith(mark[:n])), 0)


def _read(text: str, names: frozenset[str]) -> Iterator[Call]:
    """The calls that ``text`` is made of; none when it has anything else."""
    left = text.strip()
    for prefix in PREFIXES:
        left = left.removeprefix(prefix)
    found: list[Call] = []
    while left := left.lstrip(" \t\r\n;"):
        try:
            value, end = _JSON.raw_decode(left)
        except (ValueError, RecursionError):
            return
        for one in value if isinstance(value, list) else [value]:
            call = _call(one, names)
            if call is None:
                return
            found.append(call)
        left = left[end:]
    yield from found


def _call(value: Any, names: frozenset[str]) -> Call | None:
    """The call that a value of JSON is; None when it is none."""
    if not isinstance(value, dict):
        return None
    inner = value.get("function")
    if isinstance(inner, dict):
        value = inner
    name = value.get("name")
    arguments = value.get("arguments", value.get("parameters", {}))
    if name not in names or not isinstance(arguments, (dict, str)):
        return None
    told = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return Call(name, told) if _is_object(told) else None


__all__ = ["Call", "CallReader", "forcing_schema", "parameters"]

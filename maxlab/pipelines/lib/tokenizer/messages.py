"""Messages of a conversation as a chat template sees them: plain values, with one text each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from maxlab.errors import InputError, shown

MOST_DEPTH = 64
"""The deepest nesting of lists and dicts in messages, tools and options."""
_REASONING = ("reasoning_content", "thinking", "reasoning")
_IMAGES = frozenset({"image", "image_url", "image_urls"})


def _refused(where: str, expected: str, got: object, fix: str | None = None) -> InputError:
    return InputError("ML159", f"{where}: {expected} expected ≠ {shown(got)} given", fix=fix)


def plain(value: Any, where: str, depth: int = 0) -> Any:
    """``value`` as new objects of JSON's kinds, which is all that a template may see.

    Args:
        value: None, a bool, a number, a text, or lists and dicts of such values.
        where: What it is called in errors.
        depth: How deep it stands.

    Raises:
        InputError: ML159, it holds something else, or nests deeper than `MOST_DEPTH`.

    Example:
        >>> plain({"a": (1, np.float32(0.5))}, "options")
        {'a': [1, 0.5]}
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, np.generic):
        value = value.item()
    for kind in (str, int, float):
        if isinstance(value, kind):
            return kind(value)
    if depth > MOST_DEPTH:
        raise _refused(where, f"a value of at most {MOST_DEPTH} levels", value)
    if isinstance(value, Mapping):
        if odd := [key for key in value if not isinstance(key, str)]:
            raise _refused(f"a key of {where}", "a str", odd[0])
        return {
            str(key): plain(one, f"{where}[{shown(key, 20)}]", depth + 1)
            for key, one in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [plain(one, f"{where}[{n}]", depth + 1) for n, one in enumerate(value)]
    raise _refused(where, "None, a bool, a number, a str, a list or a dict", value)


def _text_of(part: Any, where: str) -> str | None:
    """The text of a part of a message; None when the part is an image.

    Raises:
        InputError: ML159, it is neither.
    """
    kind = part.get("type") if isinstance(part, Mapping) else None
    if kind == "text":
        for key in ("text", "content"):
            if isinstance(part.get(key), str):
                return str(part[key])
        raise _refused(where, 'a part of a text with the key "text"', part)
    if isinstance(kind, str) and kind in _IMAGES:
        return None
    raise _refused(where, 'a part {"type": "text", "text": ...} or {"type": "image"}', part)


def as_text(messages: Sequence[Any]) -> list[dict[str, Any]]:
    """New messages whose content is one text: the texts of parts, a line each.

    Args:
        messages: Messages, each with a text or a list of parts as its content.

    Raises:
        InputError: ML159, there is no message, or a part is no text.

    Example:
        >>> parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
        >>> as_text([{"role": "user", "content": parts}])
        [{'role': 'user', 'content': 'a\\nb'}]
    """

    def flat(parts: list[Any], where: str) -> Any:
        texts = [_text_of(part, f"{where}[{n}]") for n, part in enumerate(parts)]
        if None in texts:
            raise _refused(
                f"{where}[{texts.index(None)}]",
                "a part of a text, as TextTokenizer takes no images,",
                parts[texts.index(None)],
                "use TextAndVisionTokenizer with a model that sees",
            )
        return "\n".join(text for text in texts if text is not None)

    return _messages(messages, flat)


def as_parts(messages: Sequence[Any]) -> tuple[list[dict[str, Any]], int]:
    """New messages whose content is a list of parts, and the number of images in them.

    A text stands under ``"text"`` and under ``"content"``: templates read the one or the other. An
    image is ``{"type": "image"}``; its bytes come with the request.

    Args:
        messages: Messages, each with a text or a list of parts as its content.

    Raises:
        InputError: ML159, there is no message, or a part is neither a text nor an image.

    Example:
        >>> as_parts([{"role": "user", "content": "a"}])
        ([{'role': 'user', 'content': [{'type': 'text', 'text': 'a', 'content': 'a'}]}], 0)
    """
    count = 0

    def wrapped(parts: list[Any], where: str) -> Any:
        nonlocal count
        made: list[dict[str, str]] = []
        for n, part in enumerate(parts):
            text = _text_of(part, f"{where}[{n}]")
            count += text is None
            made.append(
                {"type": "image"}
                if text is None
                else {"type": "text", "text": text, "content": text}
            )
        return made

    texts = [
        {**one, "content": [{"type": "text", "text": one["content"]}]}
        if isinstance(one, Mapping) and isinstance(one.get("content"), str)
        else one
        for one in _listed(messages)
    ]
    return _messages(texts, wrapped), count


def _listed(messages: Any) -> Sequence[Any]:
    if not isinstance(messages, (list, tuple)):
        raise _refused("messages", "a list of messages", messages)
    return messages


def _messages(messages: Sequence[Any], of_parts: Any) -> list[dict[str, Any]]:
    if not _listed(messages):
        raise _refused("messages", "one message or more", messages, "give the user's message")
    made = []
    for n, message in enumerate(messages):
        where = f"messages[{n}]"
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            raise _refused(where, "a dict with the keys 'role' and 'content'", message)
        content = message.get("content")
        if isinstance(content, (list, tuple)):
            message = {**message, "content": of_parts(list(content), f"{where}['content']")}
        elif content is not None and not isinstance(content, str):
            raise _refused(f"{where}['content']", "a str or a list of parts", content)
        # A key whose value is None is one that is not there, as in the messages of a server.
        given = {key: one for key, one in message.items() if one is not None}
        made.append(_reasoned(plain(given, where)))
    return made


def _reasoned(message: dict[str, Any]) -> dict[str, Any]:
    """The message with its reasoning under each name that templates read it by."""
    found = next((message[key] for key in _REASONING if message.get(key) is not None), None)
    return message if found is None else {"thinking": found, **message, "reasoning_content": found}


__all__ = ["MOST_DEPTH", "as_parts", "as_text", "plain"]

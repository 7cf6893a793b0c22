"""The fields of a request, of parameters or of a result: value, default, range and meaning."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import msgspec
import numpy as np

from maxlab.engine.times import plural
from maxlab.errors import shown
from maxlab.interfaces import RequestID, SamplingParams, fields
from maxlab.lab import docstrings
from maxlab.lab.requests.style import scrolled
from maxlab.markup import escape, visible
from maxlab.tabular import aligned

MOST_CHARACTERS = 400
"""Characters of a value in a table; the rest is counted."""
MOST_ITEMS = 40
"""Elements of a list in a table; the rest is counted."""
MOST_PLAIN = 60
"""Characters of a value in a line of text."""

_UNITS = {
    **dict.fromkeys(("max_length", "max_new_tokens", "min_new_tokens", "input_tokens"), "tokens"),
    **dict.fromkeys(("logprobs", "log_probabilities"), "tokens a place"),
    **dict.fromkeys(("num_steps", "steps_executed"), "steps"),
    **dict.fromkeys(("duration", "processing_time"), "s"),
    "timestamp_ns": "ns",
    "sample_rate": "Hz",
    "prev_samples_beyond_offset": "samples",
}
"""Units of fields that have one."""

_ANEW = "random"


@dataclass(frozen=True)
class Fact:
    """A field of an object.

    Attributes:
        name: The field.
        value: Its value.
        is_default: Whether the value is the default; None of a field without one.
        default: The default as text; empty of a field without one.
        allowed: The values that it may have, with their unit.
        meaning: What the documentation says of it.
    """

    name: str
    value: Any
    is_default: bool | None
    default: str
    allowed: str
    meaning: str


def facts_of(obj: Any) -> list[Fact]:
    """The public fields of a dataclass or a struct, in order.

    Args:
        obj: The object.

    Example:
        >>> from maxlab.interfaces import SamplingParams
        >>> fact = facts_of(SamplingParams(top_p=0.9))[1]
        >>> fact.name, fact.value, fact.is_default, fact.default, fact.allowed
        ('top_p', 0.9, False, '1', '0 … 1')
    """
    kind = type(obj)
    made = []
    meanings = _meanings(kind)
    for name, default, is_random in _defaults(kind):
        value = getattr(obj, name)
        if default is _NONE or is_random:
            # A random default tells nothing: what was set may be as random.
            is_default = None
        else:
            is_default = _same(value, default)
        told = _ANEW if is_random else value_text(default, MOST_PLAIN)
        allowed = fields.range_of(kind, name)
        if unit := _UNITS.get(name):
            allowed += f" [{unit}]"
        meaning = meanings.get(name, "")
        made.append(
            Fact(name, value, is_default, "" if default is _NONE else told, allowed, meaning)
        )
    return made


_NONE = object()


def _meanings(kind: type) -> Mapping[str, str]:
    """The meaning of each field, as the docstrings of ``kind`` and of its bases tell it."""
    found: dict[str, str] = {}
    for one in reversed(kind.__mro__):
        for names, says in docstrings.read(one).arguments.items():
            found.update(dict.fromkeys(names.split(", "), says))
    return found


def _defaults(kind: type) -> list[tuple[str, Any, bool]]:
    """For each public field: its name, its default, and whether that differs from call to call."""
    if issubclass(kind, msgspec.Struct):
        every: list[tuple[str, Any, Any]] = [
            (one.name, one.default, one.default_factory) for one in msgspec.structs.fields(kind)
        ]
        missing: Any = msgspec.NODEFAULT
    elif dataclasses.is_dataclass(kind):
        every = [(one.name, one.default, one.default_factory) for one in dataclasses.fields(kind)]
        missing = dataclasses.MISSING
    else:
        return []
    found: list[tuple[str, Any, bool]] = []
    for name, default, factory in every:
        if name.startswith("_"):
            continue
        if factory is not missing:
            made = factory()
            found.append((name, made, not _same(made, factory())))
        else:
            found.append((name, _NONE if default is missing else default, False))
    return found


def _same(value: Any, default: Any) -> bool:
    if isinstance(value, np.ndarray) or isinstance(default, np.ndarray):
        return isinstance(default, np.ndarray) and np.array_equal(value, default)
    if isinstance(value, SamplingParams) and isinstance(default, SamplingParams):
        # Seeds are random.
        return dataclasses.replace(value, seed=0) == dataclasses.replace(default, seed=0)
    return bool(value == default)


# ---------------------------------------------------------------- values
def value_text(value: Any, most: int = MOST_CHARACTERS) -> str:
    """A value in at most about ``most`` characters.

    Args:
        value: Any object.
        most: The number of characters.

    Example:
        >>> value_text(np.zeros((2, 3), np.float32)), value_text(b"abc"), value_text([1, 2.5])
        ('float32[2, 3]', '3 bytes', '[1, 2.5]')
    """
    if isinstance(value, np.ndarray):
        inner = ", ".join(map(str, value.shape))
        few = f" {value.tolist()}" if 0 < value.size <= 8 and value.ndim == 1 else ""
        return f"{value.dtype}[{inner}]{few}"
    if isinstance(value, (bytes, bytearray, memoryview)):
        return plural(len(value), "byte")
    if isinstance(value, RequestID):
        return shown(value.value, most)
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, str):
        rest = len(value) - most
        return shown(value, most) + (f" and {rest} more characters" if rest > 0 else "")
    if isinstance(value, (list, tuple, set, frozenset)):
        return _sequence(value, most)
    if isinstance(value, float):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    if callable(value) and hasattr(value, "__qualname__"):
        return f"the function {value.__qualname__}"
    if dataclasses.is_dataclass(value) or isinstance(value, msgspec.Struct):
        return summary(value)
    return shown(value, most)


def _sequence(value: Any, most: int) -> str:
    left, right = ("[", "]") if isinstance(value, (list, tuple)) else ("{", "}")
    items: list[str] = []
    used = 0
    every = value if isinstance(value, Sequence) else sorted(value, key=repr)
    for item in every[:MOST_ITEMS]:
        items.append(value_text(item, max(most // 4, 20)))
        used += len(items[-1]) + 2
        if used > most:
            break
    rest = len(every) - len(items)
    more = f", … {rest} more" if rest else ""
    return f"{left}{', '.join(items)}{more}{right}"


def summary(obj: Any) -> str:
    """How many fields of ``obj`` are set, and what they are, in a few words.

    Args:
        obj: A dataclass or a struct.

    Example:
        >>> from maxlab.interfaces import SamplingParams
        >>> summary(SamplingParams(top_p=0.5))
        'SamplingParams: top_p=0.5'
    """
    changed = [fact for fact in facts_of(obj) if fact.is_default is False]
    said = ", ".join(f"{fact.name}={value_text(fact.value, 20)}" for fact in changed[:4])
    more = f" and {len(changed) - 4} more" if len(changed) > 4 else ""
    return f"{type(obj).__name__}: {said or 'as by default'}{more}"


# ---------------------------------------------------------------- tables
def label(obj: Any) -> str:
    """The heading of the table of ``obj``: its class, and the request it is of."""
    of = getattr(obj, "request_id", None)
    name = type(obj).__name__
    return f"{name} {shown(of.value)}" if isinstance(of, RequestID) else name


def text(obj: Any) -> str:
    """The fields of ``obj`` as lines of text, those that are set marked with ``*``.

    Args:
        obj: The object.
    """
    rows = [
        (
            "*" if fact.is_default is False else " ",
            fact.name,
            value_text(fact.value, MOST_PLAIN),
            fact.allowed,
        )
        for fact in facts_of(obj)
    ]
    lines = aligned(rows) if rows else [f"  {shown(obj)}"]
    return "\n".join([label(obj), *(f"  {line}" for line in lines)])


def body(obj: Any) -> str:
    """The fields of ``obj`` as a section with a table.

    Args:
        obj: The object.
    """
    return f"<section>{scrolled(f'fields of {type(obj).__name__}', table(obj))}</section>"


def folded(obj: Any) -> str:
    """As `body`, closed until it is clicked.

    Args:
        obj: The object.
    """
    return (
        f"<section><details><summary>{escape(summary(obj))}</summary>"
        f"{scrolled(f'fields of {type(obj).__name__}', table(obj))}</details></section>"
    )


def table(obj: Any) -> str:
    """The fields of ``obj`` as a table: HTML.

    Args:
        obj: The object.
    """
    heads = "".join(
        f"<th>{head}</th>" for head in ("field", "value", "default", "range", "meaning")
    )
    return (
        f"<table><thead><tr>{heads}</tr></thead>"
        f"<tbody>{''.join(map(_row, facts_of(obj)))}</tbody></table>"
    )


def _row(fact: Fact) -> str:
    if fact.is_default is None:
        said = fact.default or "none"
    else:
        said = "yes" if fact.is_default else f"no: {fact.default}"
    mark = ' class="mx-rq-set"' if fact.is_default is False else ""
    return (
        f"<tr{mark}><th>{escape(fact.name)}</th>"
        f'<td class="mx-rq-value">{_cell(fact.value)}</td>'
        f"<td>{escape(said)}</td><td>{escape(fact.allowed)}</td>"
        f'<td class="mx-rq-faint">{_words(fact.meaning)}</td></tr>'
    )


def _words(meaning: str) -> str:
    """A text of a docstring: what stands in double backquotes is code."""
    parts = escape(meaning).split("``")
    return "".join(f"<code>{part}</code>" if n % 2 else part for n, part in enumerate(parts))


def _cell(value: Any) -> str:
    if isinstance(value, SamplingParams) or (isinstance(value, msgspec.Struct) and facts_of(value)):
        return f"<details><summary>{escape(summary(value))}</summary>{table(value)}</details>"
    if isinstance(value, list) and value and all(_is_message(one) for one in value):
        return "<br>".join(
            f"<b>{escape(one['role'])}:</b> {escape(_content(one['content']))}"
            for one in value[:MOST_ITEMS]
        )
    if isinstance(value, str) and "\n" in value:
        rest = len(value) - MOST_CHARACTERS
        more = f" and {rest} more characters" if rest > 0 else ""
        return escape(visible(value[:MOST_CHARACTERS])) + more
    return escape(value_text(value))


def _is_message(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("role"), str) and "content" in value


def _content(content: Any) -> str:
    if isinstance(content, str):
        return content if len(content) <= MOST_CHARACTERS else value_text(content)
    return value_text(content)


__all__ = ["Fact", "body", "facts_of", "folded", "label", "summary", "table", "text", "value_text"]

"""The JSON of documents: written such that Git shows what changed, and read with a place for what
is wrong.

Keys are sorted, and what there are many of stands one a line: operations, inputs, places, comments.
Nothing in a text is run, and of each number of characters there is a bound to the work it makes.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from typing import Any, NoReturn

from maxlab.errors import ParseError, shown
from maxlab.ir.tokens import error_at

_LISTS = frozenset(
    {
        "calls", "comments", "conflicts", "drafts", "inputs", "ops", "regions", "sources",
        "subgraphs",
    }
)  # fmt: skip
_OBJECTS = frozenset(
    {
        "constants",
        "folds",
        "graph",
        "groups",
        "layout",
        "names",
        "places",
        "scopes",
        "weights",
    }
)
_SPREAD = frozenset({"ops", "regions"})
"""An object with one of these is written over several lines."""
MOST_VALUES = 32_000_000
"""Numbers, texts, lists and objects that a document may have: reading each of them takes up to 105
bytes of memory, and a file may have one in two bytes."""
_HALF = re.compile("[\ud800-\udfff]")
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
MOST_BYTES = 4 << 30
"""Bytes of a file with a graph, of either form, that are read."""
_MARKS = ("<<<<<<<", "|||||||", "=======", ">>>>>>>")
_FIX = "mend this place, or take the file from your history; nothing of it was opened"


class _RepeatedError(ValueError):
    """An object has a field twice."""

    def __init__(self, key: str, id: object) -> None:
        self.key, self.id = key, id


class TooLargeError(ValueError):
    """A text would be written that is not read again."""


# ---------------------------------------------------------------- writing
def dump(data: dict[str, Any]) -> str:
    """``data`` as the text of a document; equal data has one text.

    Raises:
        ValueError: A number that is not finite, or a text that JSON has no form for.
        TooLargeError: It has more values or bytes than are read.

    Example:
        >>> print(dump({"version": 1, "graph": {"ops": [{"id": "n0"}], "name": "g"}}), end="")
        {
         "graph": {
          "name": "g",
          "ops": [
           {"id": "n0"}
          ]
         },
         "version": 1
        }
    """
    parts: list[str] = []
    _write(data, "", " ", parts)
    parts.append("\n")
    text = "".join(parts)
    count = _values(text)
    if count > MOST_VALUES:
        raise TooLargeError(f"{count:,} values, and at most {MOST_VALUES:,} are read")
    if len(text) > MOST_BYTES:
        raise TooLargeError(f"{len(text):,} bytes, and at most {MOST_BYTES:,} are read")
    if text.isascii():
        return text
    if _PAIR.search(text):
        raise ValueError("two halves of a surrogate pair, which are read back as one character")
    # Half of a surrogate pair has no bytes in UTF-8.
    return _HALF.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _write(value: Any, key: str, pad: str, parts: list[str]) -> None:
    if isinstance(value, dict) and value:
        if key in _OBJECTS or pad == " " or not _SPREAD.isdisjoint(value):
            _spread("{", ((f"{_inline(k)}: ", k, value[k]) for k in sorted(value)), "}", pad, parts)
            return
    elif isinstance(value, list) and value and key in _LISTS:
        _spread("[", (("", "", item) for item in value), "]", pad, parts)
        return
    parts.append(_inline(value))


def _spread(
    head: str, items: Iterable[tuple[str, str, Any]], end: str, pad: str, parts: list[str]
) -> None:
    mark = f"{head}\n"
    for name, key, item in items:
        parts.append(f"{mark}{pad}{name}")
        _write(item, key, pad + " ", parts)
        mark = ",\n"
    parts.append(f"\n{pad[:-1]}{end}")


_inline = json.JSONEncoder(ensure_ascii=False, sort_keys=True, allow_nan=False).encode


def _values(text: str) -> int:
    """How many values ``text`` has, at most."""
    return sum(text.count(mark) for mark in ",[{")


# ---------------------------------------------------------------- reading
def load(text: str, file: str) -> Any:
    """The JSON data of ``text``.

    Raises:
        ParseError: ML864, it is none; ML866, it has too many values, or takes more memory than
            there is.
    """
    count = _values(text)
    if count > MOST_VALUES:
        raise too_large(file, f"it has {count:,} values, and at most {MOST_VALUES:,} are read")
    try:
        return json.loads(
            text, object_pairs_hook=_unique, parse_constant=_no_number, parse_float=_finite
        )
    except json.JSONDecodeError as error:
        what = f"this is no JSON: {error.msg[:1].lower()}{error.msg[1:]}"
        if error.pos >= len(text.rstrip()):
            what = "the document ends before it is whole"
        elif text.startswith(_MARKS, error.pos):
            what = "a merge of Git left its marks here"
        raise _at(text, error.pos, file, what) from None
    except _RepeatedError as error:
        what = f"an object has the field {shown(error.key)} twice"
        raise refusal(text, file, what, str(error.id)) from None
    except RecursionError:
        raise _at(text, 0, file, "the document is nested too deep") from None
    except MemoryError:
        raise too_large(file, "it takes more memory than there is") from None
    except ValueError as error:  # a number that is none, or of thousands of digits
        what = str(error).partition(";")[0]
        raise _at(text, 0, file, f"the document has a number that cannot be read: {what}") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        names = [key for key, _ in pairs]
        twice = next(key for place, key in enumerate(names) if key in names[:place])
        raise _RepeatedError(twice, dict(reversed(pairs)).get("id", ""))
    return made


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _no_number(text)


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{shown(name)} is no number that is kept")


# ---------------------------------------------------------------- errors
def refusal(text: str, file: str, what: str, id: str) -> ParseError:
    """The error ``what`` at the object of ``text`` that has ``id``; at the last of several."""
    at = 0
    if id:
        quoted = re.escape(json.dumps(id, ensure_ascii=False))
        for found in re.finditer(rf'"(?:id|name)"\s*+:\s*+{quoted}|{quoted}\s*+:', text):
            at = found.start()
    return _at(text, at, file, what)


def too_large(file: str, why: str) -> ParseError:
    """The error of a document that is too large."""
    return ParseError(
        "ML866",
        f"{file} is too large: {why}",
        fix="check that it is the file you mean; keep large data as weights, in files of their own",
    )


def _at(text: str, offset: int, file: str, what: str) -> ParseError:
    found = error_at(text, offset, file, what)
    return ParseError("ML864", found.what, at=found.at, fix=_FIX)


__all__ = ["MOST_BYTES", "TooLargeError", "dump", "load", "refusal", "too_large"]

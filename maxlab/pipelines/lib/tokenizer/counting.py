"""The costs of what chat templates do: each is taken from the budget before the work is done.

Operators, filters, tests and methods of texts are wrapped, so that one that would make something
too large raises `LimitError` instead. See `budget` for the bounds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sized
from functools import wraps
from typing import Any

from maxlab.pipelines.lib.tokenizer.budget import (
    CONTAINERS,
    MOST_BITS,
    MOST_WIDTH,
    LimitError,
    characters,
    items,
    spend,
    weigh,
    width,
)

_SHALLOW = frozenset(
    [
        "length",
        "count",
        "first",
        "last",
        "default",
        "d",
        "list",
        "map",
        "select",
        "selectattr",
        "reject",
        "rejectattr",
        "items",
        "reverse",
        "batch",
        "slice",
        "attr",
    ]
)
"""Filters that look at the elements of a list, and not into them."""
_WIDTHS = frozenset({"center", "indent", "truncate", "batch", "slice", "format", "round"})
"""Filters that take a width, or numbers that act as one."""
_STR_WIDTHS = frozenset({"center", "ljust", "rjust", "zfill", "expandtabs"})
TURN, _CALL = 8, 1024
"""The costs of a turn of a loop or a small function, and of a call of a macro: in characters."""
_LONG_NUMBER = re.compile(r"\d{5,}")


# ---------------------------------------------------------------- what is counted
class _Turns:
    """The elements of a loop, with their number; the time is looked at now and then."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __len__(self) -> int:
        return len(self._inner)

    def __iter__(self) -> Iterator[Any]:
        for number, one in enumerate(self._inner):
            if not number % 64:
                spend(0)
            yield one


def each(value: Any, static: int) -> Any:
    """``value`` for a loop over it, whose body has ``static`` characters of its own."""
    if isinstance(value, Sized) and isinstance(value, Iterable):
        spend(len(value) * (TURN + static))
        return _Turns(value)
    return _counted(value, static) if isinstance(value, Iterable) else value


def _counted(value: Iterable[Any], static: int) -> Iterator[Any]:
    for one in value:
        spend(TURN + static)
        yield one


def tick(static: int) -> str:
    """Counts one call of a macro or a block; writes nothing."""
    spend(_CALL + static)
    return ""


def bounded(value: Any) -> Any:
    """``value``, which is about to be written, compared, sorted or hashed as a whole."""
    if isinstance(value, CONTAINERS):
        spend(weigh(value))
    return value


def cut(value: Any) -> Any:
    """``value``, a part of which is about to be copied."""
    if isinstance(value, Sized):
        spend(len(value))
    return value


def written(value: Any) -> Any:
    """``value``, whose text is about to be put behind what is written."""
    characters(weigh(value))
    return value


def join(*values: Any) -> str:
    """The texts of ``values`` one after another, as ``~`` makes it."""
    characters(sum(map(weigh, values)))
    return "".join(map(str, values))


def paid(value: Any) -> Any:
    """``value``, a result that is paid for."""
    if isinstance(value, str):
        characters(len(value))
    elif isinstance(value, (list, tuple, dict, set)):
        items(len(value))
    elif isinstance(value, int):
        _bits(value.bit_length())
    return value


COUNTERS = (each, tick, bounded, written, cut, join)
"""The functions that count."""


# ---------------------------------------------------------------- operators
def _multiply(left: Any, right: Any) -> None:
    for text, number in ((left, right), (right, left)):
        if isinstance(text, (str, list, tuple)) and isinstance(number, int):
            size = len(text) * max(number, 0)
            (characters if isinstance(text, str) else items)(size)
    if isinstance(left, int) and isinstance(right, int):
        _bits(left.bit_length() + right.bit_length())


def _bits(count: int) -> None:
    if count > MOST_BITS:
        raise LimitError(f"an integer of {count:,} bits, more than {MOST_BITS:,}")


def _power(left: Any, right: Any) -> None:
    if isinstance(left, int) and isinstance(right, int):
        _bits(left.bit_length() * max(right, 0))


def _add(left: Any, right: Any) -> None:
    if isinstance(left, str) and isinstance(right, str):
        characters(len(left) + len(right))
    elif isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        items(len(left) + len(right))


def _percent(left: Any, right: Any) -> None:
    if isinstance(left, str):
        widths_of(left)
        if "*" in left:
            for one in right if isinstance(right, tuple) else (right,):
                width(one)
        characters(len(left) + weigh(right) + left.count("%") * MOST_WIDTH)


def widths_of(text: str) -> None:
    """Raises for a text of formats with a width of five digits or more."""
    if found := _LONG_NUMBER.search(text):
        raise LimitError(f"a width of {found.group()[:20]}, more than {MOST_WIDTH:,}")


OPERATORS: dict[str, Callable[[Any, Any], None]] = {
    "*": _multiply,
    "**": _power,
    "+": _add,
    "%": _percent,
}


# ---------------------------------------------------------------- filters, tests and methods
def before_method(name: str, owner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raises when a method of a builtin type would make something too large."""
    values = (*args, *kwargs.values())
    for one in values:
        bounded(one)
    if not isinstance(owner, str):
        if name in ("count", "index"):
            bounded(owner)
        if isinstance(owner, (int, float)):
            for one in values:
                width(one)
        return
    spend(len(owner))
    if name in _STR_WIDTHS:
        for one in values:
            width(one)
        characters(len(owner) + MOST_WIDTH * (owner.count("\t") if name == "expandtabs" else 1))
    elif name == "replace" and len(values) >= 2:
        old, new = values[:2]
        if isinstance(old, str) and isinstance(new, str):
            characters(len(owner) + _count(owner, old) * len(new))
    elif name == "join" and values:
        bounded(values[0])
        if isinstance(values[0], Sized):
            count = len(values[0])
            characters(count * len(owner) + (weigh(values[0]) if count else 0))
    elif name == "translate" and values and isinstance(values[0], dict):
        longest = max((len(one) for one in values[0].values() if isinstance(one, str)), default=1)
        characters(len(owner) * max(longest, 1))
    elif name == "split" and values:
        items(_count(owner, values[0]) if isinstance(values[0], str) else 0)


def _count(text: str, part: str) -> int:
    return text.count(part) if part else len(text) + 1


def filter_guard(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The filter ``function``, which pays for its arguments and for its result."""
    passed = hasattr(function, "jinja_pass_arg")  # the environment or the context comes first

    @wraps(function)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        spend(TURN)
        first = args[:1] if passed else ()
        values = args[1:] if passed else args
        if name not in _SHALLOW:  # what is not there yet is made before it is weighed
            values = tuple(list(one) if isinstance(one, Iterator) else one for one in values)
        for one in values:
            if name not in _SHALLOW:
                spend(weigh(one))
            elif isinstance(one, Sized):
                spend(len(one))
        rest = (*values[1:], *kwargs.values())
        if name in _WIDTHS:
            for one in rest:
                width(one)
        _before_filter(name, values, rest)
        return paid(function(*first, *values, **kwargs))

    return guarded


def _before_filter(name: str, values: tuple[Any, ...], rest: tuple[Any, ...]) -> None:
    text = values[0] if values else None
    if name == "replace" and len(values) >= 3:
        old, new = str(values[1]), str(values[2])
        characters(len(str(text)) + _count(str(text), old) * len(new))
    elif name == "join" and isinstance(text, Sized):
        glue = max((len(one) for one in rest if isinstance(one, str)), default=0)
        characters(weigh(text) + len(text) * glue)
    elif name == "indent" and isinstance(text, str):
        wide = max((one if isinstance(one, int) else weigh(one) for one in rest), default=4)
        characters(len(text) + (text.count("\n") + 1) * max(wide, 0))
    elif name == "format" and isinstance(text, str):
        _percent(text, values[1:])
    elif name == "sum" and any(not isinstance(one, (int, float, str)) for one in rest):
        raise LimitError("a sum of something else than numbers")


def test_guard(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        for one in args:
            bounded(one)
        return function(*args, **kwargs)

    return guarded


__all__ = [
    "COUNTERS",
    "OPERATORS",
    "TURN",
    "before_method",
    "bounded",
    "cut",
    "each",
    "filter_guard",
    "join",
    "paid",
    "test_guard",
    "tick",
    "widths_of",
    "written",
]

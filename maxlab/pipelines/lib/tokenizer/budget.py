"""The bounds of a chat template while it renders: steps, characters and time.

Each rendering has a budget of its own. Loops, calls of macros, and every function that makes a text
or a list spend of it *before* they work, so a template is ended before it has used what it asks
for. The limits lie far above what a conversation needs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

MOST_CHARACTERS = 4 << 20
"""The most characters of a prompt, and of any text that a template makes."""
MOST_WORK = 64 << 20
"""The most steps and characters, together, that one rendering may use."""
MOST_SECONDS = 10.0
"""The longest time that one rendering may take."""
MOST_ITEMS = 1 << 20
"""The most elements of a value that is written, compared or sorted, inner ones counted each time
that they stand in it."""
MOST_WIDTH = 10_000
"""The largest number that is taken for the width of a text."""
MOST_BITS = 4096
"""The most bits of an integer that a template makes."""
_ITEM = 8
"""The cost of an element of a list, in characters."""


class LimitError(Exception):
    """A template asked for more than it may use."""


class Budget:
    """The rest of the steps, characters and seconds of one rendering."""

    def __init__(self) -> None:
        self._left = MOST_WORK
        self._end = time.monotonic() + MOST_SECONDS

    def spend(self, amount: int) -> None:
        """Takes ``amount`` steps or characters.

        Raises:
            LimitError: So many are not left, or the time is over.
        """
        self._left -= amount
        if self._left < 0:
            raise LimitError(f"more than {MOST_WORK:,} steps and characters")
        if time.monotonic() > self._end:
            raise LimitError(f"more than {MOST_SECONDS:g} seconds")


_BUDGET: ContextVar[Budget | None] = ContextVar("maxlab_template_budget", default=None)


@contextmanager
def limited() -> Iterator[Budget]:
    """Gives what runs inside a budget of its own."""
    budget = Budget()
    token = _BUDGET.set(budget)
    try:
        yield budget
    finally:
        _BUDGET.reset(token)


def spend(amount: int) -> None:
    """Takes ``amount`` of the budget of the rendering that runs; of none while a template is
    compiled.

    Raises:
        LimitError: So much is not left.
    """
    budget = _BUDGET.get()
    if budget is not None:
        budget.spend(amount)


def characters(count: int) -> None:
    """Takes the ``count`` characters of a text that is about to be made.

    Raises:
        LimitError: It would be too long, or the budget is used up.
    """
    if count > MOST_CHARACTERS:
        raise LimitError(f"a text of {count:,} characters, more than {MOST_CHARACTERS:,}")
    spend(count)


def items(count: int) -> None:
    """Takes the ``count`` elements of a list that is about to be made.

    Raises:
        LimitError: It would be too long, or the budget is used up.
    """
    if count > MOST_ITEMS:
        raise LimitError(f"a list of {count:,} elements, more than {MOST_ITEMS:,}")
    spend(_ITEM * count)


def width(value: Any) -> None:
    """Raises for a number that as a width would make a text too long.

    Raises:
        LimitError: ``value`` is a large number.
    """
    if isinstance(value, (int, float)) and not -MOST_WIDTH <= value <= MOST_WIDTH:
        raise LimitError(f"a width of {value!r:.40}, more than {MOST_WIDTH:,}")


def weigh(value: Any) -> int:
    """The characters and elements of ``value``, as many as its text would need to name them.

    A list that stands twice in another one counts twice: so its text would have it.

    Raises:
        LimitError: There are more than `MOST_ITEMS` elements, or too many characters.
    """
    if isinstance(value, str):
        return len(value)
    if not isinstance(value, (list, tuple, dict, set, frozenset)):
        return 1
    total = count = 0
    waiting: list[Iterator[Any]] = [iter((value,))]
    while waiting:
        for one in waiting[-1]:
            count += 1
            if isinstance(one, str):
                total += len(one)
            elif isinstance(one, dict):
                waiting.append(iter([*one.keys(), *one.values()]))
                break
            elif isinstance(one, (list, tuple, set, frozenset)):
                waiting.append(iter(one))
                break
        else:
            waiting.pop()
        if count > MOST_ITEMS:
            raise LimitError(f"a value of more than {MOST_ITEMS:,} elements")
        if total > MOST_CHARACTERS:
            raise LimitError(f"a value of more than {MOST_CHARACTERS:,} characters")
    return total + _ITEM * count


__all__ = [
    "MOST_BITS",
    "MOST_CHARACTERS",
    "MOST_ITEMS",
    "MOST_SECONDS",
    "MOST_WIDTH",
    "MOST_WORK",
    "Budget",
    "LimitError",
    "characters",
    "items",
    "limited",
    "spend",
    "weigh",
    "width",
]

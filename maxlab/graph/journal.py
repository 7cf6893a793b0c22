"""The journal of a graph for a transaction that fails: the inverse of each change, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any, TypeVar

K = TypeVar("K")
T = TypeVar("T")


class Journal:
    """Inverses of changes, the newest last.

    They are kept while a transaction is open, and forgotten when the outermost one has succeeded.
    """

    __slots__ = ("_undo", "open")

    def __init__(self) -> None:
        self._undo: list[tuple[Callable[..., object], tuple[Any, ...]]] = []
        self.open = 0
        """How many transactions are open."""

    def note(self, undo: Callable[..., object], *args: Any) -> None:
        """Remember that ``undo(*args)`` takes back the change that follows. It must do nothing if
        that change never came: an interrupt may come between."""
        if self.open:
            self._undo.append((undo, args))

    @property
    def mark(self) -> int:
        """Where the journal is now, for ``back``."""
        return len(self._undo)

    def back(self, mark: int) -> None:
        """Take back what was changed since ``mark``, the newest first."""
        while len(self._undo) > mark:
            undo, args = self._undo[-1]
            undo(*args)
            self._undo.pop()  # only now: what an interrupt stops is done again

    def forget(self) -> None:
        """Keep all changes."""
        self._undo.clear()


class Noted(MutableMapping[K, T]):
    """A dict whose changes a journal can take back."""

    __slots__ = ("_data", "_journal")

    def __init__(self, journal: Journal) -> None:
        self._data: dict[K, T] = {}
        self._journal = journal

    def __getitem__(self, key: K) -> T:
        return self._data[key]

    def __setitem__(self, key: K, value: T) -> None:
        self._note(key)
        self._data[key] = value

    def __delitem__(self, key: K) -> None:
        if key in self._data:
            self._journal.note(self._restore, dict(self._data))  # the order as well
        del self._data[key]

    def replace(self, data: Mapping[K, T]) -> None:
        """Let the dict be ``data``."""
        self._journal.note(self._restore, self._data)
        self._data = dict(data)

    def _note(self, key: K) -> None:
        data = self._data
        if key in data:
            self._journal.note(data.__setitem__, key, data[key])
        else:
            self._journal.note(data.pop, key, None)

    def _restore(self, data: dict[K, T]) -> None:
        self._data = data

    def __iter__(self) -> Iterator[K]:
        return iter(self._data)

    def __len__(self) -> int:
        return len(self._data)

    def __repr__(self) -> str:
        return repr(self._data)


__all__ = ["Journal", "Noted"]

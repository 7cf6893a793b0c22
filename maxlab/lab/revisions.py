"""The newest differences of one view, for pages that missed some of them."""

from __future__ import annotations

import json
from collections import deque

from maxlab.lab import protocol
from maxlab.lab.differences import difference
from maxlab.lab.snapshot import Snapshot

KEPT_BYTES = 64 << 10
"""Of all differences that are kept; a page that lacks older ones gets the document."""

SMALL_BYTES = 4 << 10
"""A difference of this size is sent without asking how large the document is."""


class Revisions:
    """How the document of each revision became that of the next, as far as it is remembered."""

    def __init__(self) -> None:
        self._kept: deque[tuple[protocol.DifferenceMessage, int]] = deque()
        self._bytes = 0

    def to(
        self, revision: int, old: Snapshot | None, new: Snapshot
    ) -> protocol.DifferenceMessage | None:
        """The message that makes the document ``new`` of ``revision`` from ``old``, the one before
        it; None where the whole document is shorter, or the only way."""
        change = difference(old.document, new.document) if old is not None else None
        size = _size(change) if change is not None else KEPT_BYTES + 1
        if change is None or size > KEPT_BYTES or (size > SMALL_BYTES and size > len(new.deflated)):
            self._kept.clear()
            self._bytes = 0
            return None
        message: protocol.DifferenceMessage = {
            "type": "difference",
            "protocol": protocol.PROTOCOL,
            "since": revision - 1,
            "revision": revision,
            "difference": change,
        }
        self._kept.append((message, size))
        self._bytes += size
        while self._bytes > KEPT_BYTES:
            self._bytes -= self._kept.popleft()[1]
        return message

    def since(self, revision: int) -> list[protocol.DifferenceMessage]:
        """The messages that lead from ``revision`` to the newest one; none when that is unknown."""
        found = [message for message, _ in self._kept if message["since"] >= revision]
        return found if found and found[0]["since"] == revision else []


def _size(change: protocol.Difference) -> int:
    """Bytes of ``change`` in a message; that of a text that JSON cannot carry has no bound."""
    try:
        return len(json.dumps(change, ensure_ascii=False, separators=(",", ":")).encode())
    except UnicodeEncodeError:
        return KEPT_BYTES + 1

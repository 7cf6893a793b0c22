"""Documents that pages edit: the graph is in this kernel, the text of its document in the page.

An editor opens a comm and gives the text that it has. Its views are ordinary ones, which it asks
for by the id of the graph; over this comm go the lines of the text that a change has made others,
before the change is answered. So a page can save what was accepted whenever it wants, and has it
still when the kernel is gone.
"""

from __future__ import annotations

import threading
from collections import deque
from pathlib import Path
from typing import Any

from maxlab import trace
from maxlab.errors import FileError
from maxlab.graph import Graph
from maxlab.graph.kept import write_weights
from maxlab.graph.lesson import GOAL
from maxlab.graph.reading import graph_of
from maxlab.graph.signing import is_declared, kernels_of, recall, remember
from maxlab.lab import following, live, serving
from maxlab.lab.adopting import adopted
from maxlab.lab.faults import fault_of
from maxlab.lab.lessons import Part, Watch
from maxlab.lab.lines import differences
from maxlab.lab.protocol import PROTOCOL, reader
from maxlab.lab.protocol.editor import (
    EditorFailed,
    EditorGoal,
    EditorOpened,
    EditorServerMessage,
    EditorText,
    EditorTrusted,
)
from maxlab.opset.custom import trust

TARGET = "maxlab.editor"
"""Name of the comms that editors open."""

KEPT = 16
"""Texts of a document that a page may still say to have saved."""

_lock = threading.RLock()
_open: list[OpenDocument] = []


class OpenDocument:
    """A document that one page edits, or several.

    Args:
        path: Where its file is, as the server has it.
        text: Its text as the page has it; an empty one is an empty graph.
        saved: What the file holds.

    Raises:
        ParseError: The text has no graph.
    """

    def __init__(self, path: str, text: str, saved: str) -> None:
        self.path = path
        self.saved = saved
        self.comms: dict[str, Any] = {}
        self._watch: Watch | None = None
        self._goal: EditorGoal | None = None
        self._goal_note: str | None = None
        self._read(text, saved)

    def _read(self, text: str, saved: str) -> None:
        graph = self._graph(text)
        recall(text, graph.function)
        self.raw, self.given = text, graph.document.text()
        if saved != text and saved.strip():
            laid = adopted(saved, graph, self.path)
            if laid is not None:  # a page without a kernel can lay out a graph, and not change it
                recall(saved, laid.function)
                graph = laid
                self.raw, self.given = saved, graph_of(saved, self.path).document.text()
        self.graph = graph
        self.text = graph.document.text()
        self.number = 0
        self._texts: deque[tuple[int, str]] = deque([(0, self.text)], KEPT)
        self._follow_goal()

    def _graph(self, text: str) -> Graph:
        stem = self.path.rpartition("/")[2].rpartition(".")[0]
        return Graph(stem or "graph") if not text.strip() else graph_of(text, self.path)

    def _follow_goal(self) -> None:
        """Check another goal from now on, or none, where the document has another one."""
        goal = self.graph.function.notes.get(GOAL, {}).get("")
        if goal == self._goal_note:
            return
        self._goal_note = goal
        self._goal = None
        if self._watch is not None:
            self._watch.stop()
        self._watch = None if goal is None else Watch(self._checked)

    # ------------------------------------------------------------ to the pages
    def send(self, message: EditorServerMessage) -> None:
        """Send ``message`` to all pages that have the document open."""
        for comm in list(self.comms.values()):
            _send(comm, message)

    def opened(self) -> EditorOpened:
        """The message to a page that opens the document."""
        return {
            "type": "opened",
            "protocol": PROTOCOL,
            "id": live.id_of(self.graph),
            "number": self.number,
            "raw": None if self.raw == self.given else self.raw,
            "given": self.given,
            "text": self.text,
        }

    def trusted(self) -> EditorTrusted:
        """Whether its custom kernels are compiled."""
        function = self.graph.function
        found = kernels_of(function)
        names = sorted({str(op.attrs["name"]) for op in found})
        return {
            "type": "trusted",
            "protocol": PROTOCOL,
            "trusted": is_declared(function),
            "kernels": names,
            "sources": sorted({str(op.attrs["source"]) for op in found}),
        }

    def goal(self) -> EditorGoal | None:
        """How far it was from its goal when that was last checked; None before that."""
        return self._goal

    def look(self) -> None:
        """Check the goal of the document, where it has one."""
        if self._watch is not None:
            self._watch.look(self.number, self.text)

    def _checked(self, number: int, parts: list[Part] | None, error: Exception | None) -> None:
        if error is not None:
            self.send(_failed(error))
            return
        are_met = parts is not None and all(part.met for part in parts)
        self._goal = {
            "type": "goal",
            "protocol": PROTOCOL,
            "number": number,
            "state": "checking" if parts is None else "met" if are_met else "unmet",
            "parts": [{"says": part.says, "met": part.met} for part in parts or []],
        }
        self.send(self._goal)

    def close(self) -> None:
        """Look at its goal no more."""
        if self._watch is not None:
            self._watch.stop()

    def tell(self) -> None:
        """Send the lines of the text that are others than they were."""
        before = self.text
        self._keep_weights()
        now = self.graph.document.text()
        if now == before:
            return
        self.text = now
        self.number += 1
        self._texts.append((self.number, now))
        parts = differences(before.split("\n"), now.split("\n"))
        message: EditorText = {
            "type": "text",
            "protocol": PROTOCOL,
            "since": self.number - 1,
            "number": self.number,
            "parts": [
                {"start": part.start, "removed": part.removed, "lines": part.lines}
                for part in parts
            ],
        }
        self.send(message)
        self._follow_goal()
        self.look()

    def _keep_weights(self) -> None:
        """Write the numbers of weights that are too large for the text beside the document, where
        this kernel is in its folder; elsewhere they are in this kernel alone."""
        file = Path(self.path.rpartition("/")[2])
        document = self.graph.document
        here = Path.cwd()
        if not document.weights.is_written(here) and (here / file).is_file():
            try:
                write_weights(document.notes.weights, self.graph.function, here / file)
            except FileError as error:  # the text, which has all else, must go on
                self.send(_failed(error))

    # ------------------------------------------------------------ from a page
    def reopen(self, text: str) -> None:
        """Have the graph of ``text`` from now on, which a page got from elsewhere.

        Raises:
            ParseError: The text has no graph; the document stays as it is.
        """
        if text in (self.text, self.raw if self.text == self.given else None):
            return
        self._read(text, text)
        self.saved = text
        self.send(self.opened())
        self.send(self.trusted())
        self.look()

    def was_saved(self, number: int) -> None:
        """Know that the file holds the text ``number``; sign it where its kernels are trusted."""
        for known, text in self._texts:
            if known == number:
                self.saved = self.raw if text == self.given else text
                remember(self.saved, self.graph.function)

    def trust(self) -> None:
        """Have the custom kernels compiled from now on, here and wherever this user opens the same
        text."""
        trust(self.graph.function)
        for text in {self.saved, self.raw, self.text}:
            remember(text, self.graph.function)
        self.send(self.trusted())


# ---------------------------------------------------------------- comms
def serve() -> str:
    """Answer editors that open comms named `TARGET` from now on; empty text, for who asks."""
    return serving.serve(TARGET, opened)


def opened(comm: Any, message: dict[str, Any]) -> None:
    """Open over ``comm`` the document of its first message. One that has no graph is told of, and
    the comm closed."""
    number = str(comm.comm_id)
    try:
        asked = reader.editor_open(message["content"]["data"])
        text = asked["text"]
        saved = text if asked["saved"] is None else asked["saved"]
        with _lock:
            found = _same(asked["path"], text)
            if found is None:
                found = OpenDocument(asked["path"], text, saved)
                _open.append(found)
            document = found
            document.comms[number] = comm
    except Exception as error:  # the page says it; the kernel must go on
        _send(comm, _failed(error))
        comm.close(data={"error": str(error)})
        return
    following.on_change(tell_all)
    comm.on_msg(lambda message: _received(document, message["content"]["data"]))
    comm.on_close(lambda _message: _closed(document, number))
    _send(comm, document.opened())
    _send(comm, document.trusted())
    known = document.goal()
    if known is None:
        document.look()
    else:
        _send(comm, known)


def _same(path: str, text: str) -> OpenDocument | None:
    """The document at ``path`` that is open with ``text``, or with edits of it that were not
    saved."""
    for document in _open:
        if document.path == path and text in (document.saved, document.raw, document.text):
            return document
    return None


def _received(document: OpenDocument, content: Any) -> None:
    """Do what a page wants of ``document``; called on any thread."""
    try:
        message = reader.editor_message(content)
        with _lock:
            if message["type"] == "reopen":
                document.reopen(message["text"])
            elif message["type"] == "saved":
                document.was_saved(message["number"])
            elif message["type"] == "trust":
                document.trust()
            elif message["type"] == "need":
                document.send(document.opened())
            elif message["type"] == "moved":
                document.path = message["path"]
    except Exception as error:  # a page can only be told, and the kernel must go on
        trace.emit("warning", "editor", message=str(error))
        document.send(_failed(error))


def _closed(document: OpenDocument, number: str) -> None:
    with _lock:
        document.comms.pop(number, None)
        if not document.comms and document in _open:
            _open.remove(document)
            document.close()


def tell_all() -> None:
    """Let every page have the text of its document as it is now."""
    with _lock:
        for document in _open:
            try:
                document.tell()
            except Exception as error:  # the other documents, and the next cell, must go on
                document.send(_failed(error))


def _failed(error: BaseException) -> EditorFailed:
    return {"type": "failed", "protocol": PROTOCOL, "fault": fault_of(error)}


def _send(comm: Any, message: EditorServerMessage) -> None:
    comm.send(data=message)

"""``GenerationView``: an answer whose tokens can be chosen, and below it the graph of one step."""

from __future__ import annotations

import threading
from typing import Any, Protocol

import anywidget
import ipywidgets
import traitlets

from maxlab import trace
from maxlab.errors import MaxlabError
from maxlab.interfaces import fields
from maxlab.lab import bundle
from maxlab.lab.generating.about import about, words_of
from maxlab.lab.generating.again import TimedStep
from maxlab.lab.generating.drawn import Answer, drawn
from maxlab.lab.protocol import reader
from maxlab.lab.widget import GraphView, loader

HEIGHT = 460
"""Height of the graph in CSS pixels."""


class TimedAnswer(Answer, Protocol):
    """An answer whose steps can be looked at; see `Generation`."""

    def timed(self, index: int) -> TimedStep:
        """The run that gave a token, and whether it was run again for that.

        Args:
            index: The place of the token.
        """
        ...


class TokensView(anywidget.AnyWidget):
    """The tokens of an answer as buttons, and what is told of the chosen one."""

    _esm = loader()

    kind = traitlets.Unicode("generation").tag(sync=True)
    page = traitlets.Unicode("").tag(sync=True)
    about = traitlets.Unicode("").tag(sync=True)
    chosen = traitlets.Int(-1).tag(sync=True)
    revision = traitlets.Int(0).tag(sync=True)

    def __repr__(self) -> str:
        return "TokensView()"


class GenerationView(ipywidgets.VBox):  # type: ignore[misc]
    """An answer of a model of language in a notebook. A token that is chosen, by a click or by
    keyboard, has the graph of its step drawn below, with the time of each operation.

    Args:
        answer: The answer.

    Attributes:
        answer: The answer.
        graph: The view of the graph; None while no token is chosen, or where there is no graph.
    """

    def __init__(self, answer: TimedAnswer) -> None:
        self.answer = answer
        self.graph: GraphView | None = None
        self._lock = threading.RLock()
        self._wanted = -1
        self._tokens = TokensView(page=drawn(answer))
        self._tokens.on_msg(self._received)
        super().__init__([self._tokens])

    @property
    def chosen(self) -> int:
        """The place of the token that is chosen; -1 without one."""
        return int(self._tokens.chosen)

    def choose(self, index: int | None) -> None:
        """Draws the graph of the step that gave a token, or says why there is none.

        A step that was not recorded is run again for it; see `Generation.profile`.

        Args:
            index: The place of the token in the answer; None closes the graph.

        Raises:
            InputError: ML981 (a ValueError), there is no such token.
        """
        if index is not None:
            fields.integer(0, len(self.answer.tokens) - 1)("index", index)
        self._wanted = place = -1 if index is None else index
        with self._lock:
            if self._wanted != place:
                return  # another token was chosen while the step of one was run again
            if place < 0:
                self._tell(place, "")
                self._show(None)
                return
            self._tell(place, about(self.answer, place, None, "The step is looked at…"))
            try:
                run = self.answer.timed(place)
            except MaxlabError as error:
                self._tell(place, about(self.answer, place, None, words_of(error)))
                self._show(None)
            else:
                self._tell(place, about(self.answer, place, run))
                self._show(run.profile)

    def _tell(self, place: int, words: str) -> None:
        with self._tokens.hold_sync():
            self._tokens.chosen = place
            self._tokens.about = words
            self._tokens.revision += 1

    def _show(self, profile: Any) -> None:
        """Draws a profile below the tokens; None takes the graph away."""
        if profile is None:
            self.children = [self._tokens]
            if self.graph is not None:
                self.graph.close()
                self.graph = None
        elif self.graph is None:
            self.graph = GraphView(profile, height=HEIGHT)
            self.children = [self._tokens, self.graph]
        else:
            self.graph.update(profile)

    def close(self) -> None:
        """Takes the answer off every page."""
        with self._lock:
            self._show(None)
            self._tokens.close()
        super().close()

    def _received(self, _widget: object, content: Any, _buffers: object) -> None:
        """Answers a message of the page; called on any thread."""
        try:
            message = reader.generation_message(content)
            if message["type"] == "need_bundle":
                self._tokens.send(*bundle.message())
            else:
                self.choose(None if message["token"] < 0 else message["token"])
        except Exception as error:  # a page can only be told, and the kernel must go on
            trace.emit("warning", "generating", message=str(error), request=str(content)[:200])
            told = error.what if isinstance(error, MaxlabError) else str(error)
            place = self._wanted if 0 <= self._wanted < len(self.answer.tokens) else -1
            self._tell(place, about(self.answer, place, None, told) if place >= 0 else "")

    def __repr__(self) -> str:
        return f"GenerationView({self.answer!r})"


__all__ = ["GenerationView", "TokensView"]

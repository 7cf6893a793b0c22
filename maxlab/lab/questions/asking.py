"""How a question is answered: what a handler is given, gives back, and is found by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from maxlab.engine import Model
from maxlab.engine.profile import Profile
from maxlab.errors import ArgumentError
from maxlab.graph import Graph
from maxlab.lab.protocol.questions import AnswerT, ArgsT, Question

Shown = Graph | Model | Profile

DataT_co = TypeVar("DataT_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Answer(Generic[DataT_co]):
    """The answer to a panel.

    Attributes:
        data: Plain JSON. It names buffers by their index, as ``{"buffer": 0, "dtype": "f8"}``.
        buffers: Little-endian columns.
    """

    data: DataT_co
    buffers: list[bytes] = field(default_factory=list)


Handler = Callable[[Shown, ArgsT], Answer[AnswerT]]
Saver = Callable[[Profile], AnswerT | None]

HANDLERS: dict[str, tuple[Question[Any, Any], Handler[Any, Any]]] = {}
"""The questions that have an answer, and who gives it, by name."""
SAVERS: dict[str, Saver[Any]] = {}
"""The functions that give the answers that are saved with a profile, by question."""


def question(
    asked: Question[ArgsT, AnswerT],
) -> Callable[[Handler[ArgsT, AnswerT]], Handler[ArgsT, AnswerT]]:
    """The decorator of the function that answers ``asked``.

    The function runs on a thread of its own, one question of a view at a time, and may raise
    any ``MaxlabError``, whose text the panel shows. Its arguments were checked.
    """

    def keep(handler: Handler[ArgsT, AnswerT]) -> Handler[ArgsT, AnswerT]:
        HANDLERS[asked.name] = (asked, handler)
        return handler

    return keep


def saved(asked: Question[ArgsT, AnswerT]) -> Callable[[Saver[AnswerT]], Saver[AnswerT]]:
    """The decorator of the function that gives the answer to save with a profile, without buffers;
    None saves nothing. It runs whenever the profile is drawn, so it must be quick."""

    def keep(saver: Saver[AnswerT]) -> Saver[AnswerT]:
        SAVERS[asked.name] = saver
        return saver

    return keep


def model_of(shown: Shown) -> Model:
    """The model behind ``shown``.

    Raises:
        ArgumentError: ML806, a graph, which was not compiled.
    """
    if isinstance(shown, Model):
        return shown
    if isinstance(shown, Profile):
        return shown.model
    raise ArgumentError(
        "ML806", "this graph is not compiled", fix="press Profile, or load it in a session"
    )


def profile_of(shown: Shown) -> Profile:
    """The profile that ``shown`` is, or the newest one of the model.

    Raises:
        ArgumentError: ML806, there is none yet.
    """
    if isinstance(shown, Profile):
        return shown
    last = model_of(shown).last_profile
    if last is None:
        raise ArgumentError("ML806", "there are no times yet", fix="press Profile first")
    found: Profile = last
    return found

"""The questions that panels of a view ask about what it shows, each answered by a function.

A question is a name and a few arguments; its answer is plain JSON, and binary columns where there
is much of it; ``maxlab.lab.protocol.questions`` declares all of them. Answers that are small are
saved in the document too, so that a panel works in a saved notebook and in an exported page, where
there is nobody to ask.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Generic, TypeVar

from maxlab import trace
from maxlab.engine import Model
from maxlab.engine.profile import Profile
from maxlab.errors import ArgumentError
from maxlab.graph import Graph
from maxlab.lab.protocol import reader
from maxlab.lab.protocol.questions import AnswerT, ArgsT, Question

Shown = Graph | Model | Profile

MOST_SAVED = 120_000
"""Characters of JSON above which an answer is not saved; it is asked for when there is a kernel."""

# Question -> the module that answers it, imported when it is first asked.
_MODULES: dict[str, str] = {
    "roofline": "maxlab.lab.questions.roofline",
    "advice": "maxlab.lab.questions.advice",
    "experiments": "maxlab.lab.questions.advice",
    "try": "maxlab.lab.questions.advice",
    "timeline": "maxlab.lab.questions.timeline",
    "runs": "maxlab.lab.questions.runs",
    "sweep": "maxlab.lab.questions.runs",
    "memory": "maxlab.lab.questions.memory",
    "passes": "maxlab.lab.questions.passes",
    "compile": "maxlab.lab.questions.compile",
    "why": "maxlab.lab.questions.why",
    "text": "maxlab.lab.questions.edit",
    "edit": "maxlab.lab.questions.edit",
    "keep": "maxlab.lab.questions.edit",
    "discard": "maxlab.lab.questions.edit",
    "compare": "maxlab.lab.questions.check",
    "nan": "maxlab.lab.questions.check",
    "repro": "maxlab.lab.questions.check",
    "value": "maxlab.lab.questions.values",
}


DataT_co = TypeVar("DataT_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Answer(Generic[DataT_co]):
    """What a panel is told.

    Attributes:
        data: Plain JSON. It names buffers by their index, as ``{"buffer": 0, "dtype": "f8"}``.
        buffers: Little-endian columns.
    """

    data: DataT_co
    buffers: list[bytes] = field(default_factory=list)


Handler = Callable[[Shown, ArgsT], Answer[AnswerT]]
Saver = Callable[[Profile], AnswerT | None]

_handlers: dict[str, tuple[Question[Any, Any], Handler[Any, Any]]] = {}
_saved: dict[str, Saver[Any]] = {}


def question(
    asked: Question[ArgsT, AnswerT],
) -> Callable[[Handler[ArgsT, AnswerT]], Handler[ArgsT, AnswerT]]:
    """The decorator of the function that answers ``asked``.

    The function runs on a thread of its own, one question of a view at a time, and may raise
    any ``MaxlabError``, whose text the panel shows. Its arguments were checked.
    """

    def keep(handler: Handler[ArgsT, AnswerT]) -> Handler[ArgsT, AnswerT]:
        _handlers[asked.name] = (asked, handler)
        return handler

    return keep


def saved(asked: Question[ArgsT, AnswerT]) -> Callable[[Saver[AnswerT]], Saver[AnswerT]]:
    """The decorator of the function that gives the answer to save with a profile, without buffers;
    None saves nothing. It runs whenever the profile is drawn, so it must be quick."""

    def keep(saver: Saver[AnswerT]) -> Saver[AnswerT]:
        _saved[asked.name] = saver
        return saver

    return keep


def answer(shown: Shown, what: str, args: Mapping[str, Any]) -> Answer[Any]:
    """The answer to ``what`` about ``shown``.

    Raises:
        ArgumentError: ML806, nothing answers that; ML862, the arguments are not those of the
            question.
        MaxlabError: What the question says of its own.
    """
    module = _MODULES.get(what)
    if module is not None:
        import_module(module)
    found = _handlers.get(what)
    if found is None:
        raise ArgumentError(
            "ML806",
            f"there is no answer to {what!r}",
            fix="reload the page: it is of another version than the kernel",
        )
    asked, handler = found
    return handler(shown, reader.arguments(asked, args))


def answers_to_save(profile: Profile) -> dict[str, object]:
    """The answers that a document with ``profile`` carries, by question. One that fails is left
    out: a panel can still ask."""
    found: dict[str, object] = {}
    for module in dict.fromkeys(_MODULES.values()):
        import_module(module)
    for what, saver in _saved.items():
        try:
            data = saver(profile)
            if data is None:
                continue
            if len(json.dumps(data, allow_nan=False)) <= MOST_SAVED:
                found[what] = data
        except Exception as error:  # a graph must be drawn whatever one panel makes of it
            trace.emit("warning", "view", message=str(error), question=what)
    return found


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

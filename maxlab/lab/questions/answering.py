"""The answers to questions: each is given by the module of its panel."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from maxlab import trace
from maxlab.engine.profile import Profile
from maxlab.errors import ArgumentError
from maxlab.lab.protocol import reader
from maxlab.lab.protocol.questions import Question
from maxlab.lab.questions.asking import HANDLERS, SAVERS, Answer, Handler, Shown

MOST_SAVED = 120_000
"""Characters of JSON above which an answer is not saved; it is asked for when there is a kernel."""


def handlers() -> Mapping[str, tuple[Question[Any, Any], Handler[Any, Any]]]:
    """Each question that has an answer, and the function that gives it, by name."""
    # Imported with the first question: a graph is drawn without them.
    from maxlab.lab.questions import (  # noqa: F401
        about,
        advice,
        change,
        check,
        compile,  # noqa: A004 - the panel of this name
        edit,
        laying,
        memory,
        passes,
        pieces,
        python,
        rerun,
        roofline,
        run,
        runs,
        timeline,
        values,
        why,
        wiring,
        write,
    )

    return HANDLERS


def answer(shown: Shown, what: str, args: Mapping[str, Any]) -> Answer[Any]:
    """The answer to ``what`` about ``shown``.

    Raises:
        ArgumentError: ML806, nothing answers that; ML862, the arguments are not those of the
            question.
        MaxlabError: What the question says of its own.
    """
    found = handlers().get(what)
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
    handlers()
    for what, saver in SAVERS.items():
        try:
            data = saver(profile)
            if data is None:
                continue
            if len(json.dumps(data, allow_nan=False)) <= MOST_SAVED:
                found[what] = data
        except Exception as error:  # a graph must be drawn whatever one panel makes of it
            trace.emit("warning", "view", message=str(error), question=what)
    return found

"""Messages from a page to a view: any JSON; the view answers, or says why not, and lives on."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import comm

from maxlab.lab import GraphView
from maxlab.lab.protocol import PROTOCOL
from maxlab.lab.questions import answering
from tests.hostile.families.recordings import JSON_WEIRD
from tests.hostile.harness import Case, Family, WrongResultError
from tests.lab.conftest import FakeComm
from tests.lab.graphs import load, small

# Half of the messages are of the version that the view speaks.
VERSIONS = (PROTOCOL, PROTOCOL, PROTOCOL + 1, "2", None)
TYPES = ("ask", "need_document", "need_bundle", "run", "profile", "select", "cancel", "open", "x")
KEYS = ("id", "what", "args", "inputs", "node", "kernel", "index", "count", "revision", "runs")

_models: list[Any] = []


def _ready() -> None:
    _models[:] = [load(small())]


def _message(random: Random) -> Any:
    if random.random() < 0.1:
        return random.choice(JSON_WEIRD)
    asked = random.choice((*sorted(answering.handlers()), "nothing", ""))
    message: dict[str, Any] = {"type": random.choice(TYPES), "id": 1, "what": asked, "args": {}}
    if (version := random.choice(VERSIONS)) is not None:
        message["protocol"] = version
    for _ in range(random.randrange(4)):
        where = random.choice((message, message["args"]))
        if isinstance(where, dict):
            where[random.choice(KEYS)] = random.choice((*JSON_WEIRD, "n1", "k0", "b0"))
    if random.random() < 0.1:
        message["type"] = random.choice(JSON_WEIRD)
    return message


def _said(message: Any) -> Case:
    def run(folder: Path) -> None:
        FakeComm.made = []
        comm.create_comm = FakeComm
        view = GraphView(_models[0])
        [page] = FakeComm.made
        page.tell(message)
        page.sent = []
        page.say({"type": "need_document"})
        if not page.custom():
            raise WrongResultError("the view answers no more")
        view.close()

    return Case(f"the message {message!r:.200}", run)


SEEDS = [_said(value) for value in JSON_WEIRD]
FAMILIES = (Family("messages", SEEDS, lambda random: _said(_message(random)), 3000, _ready),)

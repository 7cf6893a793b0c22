"""Documents that change at random, for what finds and applies differences between them."""

from __future__ import annotations

import copy
import random
from typing import Any

from maxlab.lab.protocol import GraphDocument
from maxlab.lab.snapshot import take
from tests.lab.graphs import layered


def edited(document: GraphDocument, rng: random.Random, fresh: int) -> GraphDocument:
    """A copy of ``document`` after one edit of each of its lists at most; new ids end in
    ``fresh``."""
    made: Any = copy.deepcopy(document)
    made["revision"] += 1
    for _ in range(rng.randint(1, 4)):
        rng.choice(_EDITS)(made, rng, f"x{fresh}")
        fresh += 1
    return made  # type: ignore[no-any-return]


def chain(seed: int, steps: int) -> list[GraphDocument]:
    """A document, and what became of it step by step."""
    rng = random.Random(seed)
    made = [take(layered(1 + seed % 3)).document]
    for step in range(steps):
        made.append(edited(made[-1], rng, 10 * step))
    return made


def _added(made: Any, rng: random.Random, name: str) -> None:
    place = rng.randint(0, len(made["nodes"]))
    value = copy.deepcopy(rng.choice(made["values"]))
    value["id"] = f"v{name}"
    node = copy.deepcopy(rng.choice(made["nodes"])) if made["nodes"] else None
    if node is not None:
        node["id"], node["results"] = f"n{name}", [value["id"]]
        made["nodes"].insert(place, node)
        made["values"].insert(rng.randint(0, len(made["values"])), value)


def _removed(made: Any, rng: random.Random, name: str) -> None:
    for listed in ("nodes", "scopes"):
        if len(made[listed]) > 2:
            made[listed].pop(rng.randrange(len(made[listed])))


def _changed(made: Any, rng: random.Random, name: str) -> None:
    rng.choice(made["nodes"])["attrs"]["seed"] = name
    rng.choice(made["values"])["name"] = name


def _moved(made: Any, rng: random.Random, name: str) -> None:
    for listed in ("nodes", "values", "scopes"):
        if made[listed]:
            entry = made[listed].pop(rng.randrange(len(made[listed])))
            made[listed].insert(rng.randint(0, len(made[listed])), entry)


def _turned(made: Any, rng: random.Random, name: str) -> None:
    rng.shuffle(made["nodes"])


def _rewired(made: Any, rng: random.Random, name: str) -> None:
    values = [value["id"] for value in made["values"]]
    made["outputs"] = rng.sample(values, 2)
    rng.choice(made["nodes"])["operands"] = rng.sample(values, 1)


def _renamed(made: Any, rng: random.Random, name: str) -> None:
    made["name"] = f"é {name}"
    made["error"] = None if made["error"] else _error(made, rng)
    made["panel"] = "timeline"


def _error(made: Any, rng: random.Random) -> dict[str, Any]:
    node = rng.choice(made["nodes"])["id"]
    return {"code": "ML203", "message": "mul: no", "fix": None, "node": node}


def _scoped(made: Any, rng: random.Random, name: str) -> None:
    scope = {"path": name, "label": name, "type": "", "fingerprint": ""}
    made["scopes"].insert(rng.randint(0, len(made["scopes"])), scope)
    rng.choice(made["nodes"])["scope"] = name


def _laid(made: Any, rng: random.Random, name: str) -> None:
    """People move things, take places away, fold, and comment."""
    places = made.setdefault("places", [])
    if places and rng.random() < 0.3:
        places.pop(rng.randrange(len(places)))
    for place in rng.sample(places, min(1, len(places))):
        place["x"] = rng.random()
    key = rng.choice(made["nodes"])["id"]
    if all(place["key"] != key for place in places):
        places.append({"key": key, "x": 1.5, "y": -2, "pinned": rng.random() < 0.5})
    made.setdefault("folds", {})[name] = True
    comment = {"id": name, "text": "</script> é", "on": key, "x": 0, "y": 0}
    made["comments"] = [*made.get("comments", [])[-1:], comment]
    made["drafts"] = [
        {"id": name, "name": "mo.exp", "reason": "lost", "operands": [None, "v0"], "attrs": {}}
    ]


_EDITS = (
    *(_added, _added, _removed, _changed, _changed),
    *(_moved, _turned, _rewired, _renamed, _scoped, _laid),
)

"""Kept models, ``.mlmodel``: bytes changed, cut off and put in, and manifests that say something
else. Without trust nothing of them is run but their graph; with it, the digest refuses."""

from __future__ import annotations

import hashlib
import json
import tempfile
from pathlib import Path
from random import Random
from typing import Any

from maxlab import engine
from maxlab.engine.kept.archive import Archive
from maxlab.engine.kept.contents import contents
from maxlab.engine.kept.manifest import DIGEST, MANIFEST
from maxlab.stored import Writing
from tests.engine.kept.made import outputs, scores
from tests.hostile.families.recordings import JSON_WEIRD
from tests.hostile.harness import Case, Family, WrongResultError, mutated

Members = dict[str, bytes]
_content: list[bytes] = []
_members: Members = {}
_wanted: list[bytes] = []


def _ready() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.mlmodel"
        model = scores()
        model.save(path)
        _wanted[:] = outputs(model)
        _content[:] = [path.read_bytes()]
        archive = Archive(path)
        for name in archive.places:
            begin, nbytes = archive.place(name)
            _members[name] = archive.memory[begin : begin + nbytes]
        outputs(engine.InferenceSession().load(path))


def _use(words: str, content: bytes, trusted: bool) -> Case:
    def run(folder: Path) -> None:
        path = folder / "a.mlmodel"
        path.write_bytes(content)
        contents(path)
        found = outputs(engine.InferenceSession().load(path, trusted=trusted))
        if found != _wanted and trusted:
            raise WrongResultError("a trusted model that was changed computes something else")

    return Case(f"a {'trusted' if trusted else 'stranger’s'} model {words}", run)


def _written(members: Members, folder: Path) -> bytes:
    path = folder / "made"
    with path.open("wb") as file:
        archive = Writing(file)
        for name, data in members.items():
            archive.add(name, [data])
        archive.close()
    return path.read_bytes()


def _bytes(random: Random) -> Case:
    return _use("with other bytes", mutated(_content[0], random), random.random() < 0.5)


def _member(random: Random) -> Case:
    """A member with other bytes in a whole archive, where the digests are not told of it."""
    name = random.choice(sorted(_members))
    made = {**_members, name: mutated(_members[name], random)}
    if random.random() < 0.2:
        del made[name]
    trusted = random.random() < 0.5
    with tempfile.TemporaryDirectory() as folder:
        return _use(f"with another {name}", _written(made, Path(folder)), trusted)


def _manifest(random: Random) -> Case:
    """A manifest that says something else, with a digest that fits: only without trust, since
    whoever is trusted may say what he likes."""
    data = json.loads(_members[MANIFEST])
    place: Any = data
    while True:
        key = random.choice(list(place) if isinstance(place, dict) else range(len(place)))
        if not isinstance(place[key], (dict, list)) or not place[key] or random.random() < 0.2:
            break
        place = place[key]
    place[key] = random.choice(JSON_WEIRD)
    made = dict(_members)
    made[MANIFEST] = json.dumps(data).encode("utf-8", "surrogatepass")
    made[DIGEST] = hashlib.sha256(made[MANIFEST]).hexdigest().encode()
    with tempfile.TemporaryDirectory() as folder:
        return _use(f"with another {key} in its manifest", _written(made, Path(folder)), False)


def _graph(random: Random) -> Case:
    """Another graph, with digests that fit."""
    data = json.loads(_members[MANIFEST])
    made = dict(_members)
    made["graph.mlgraph"] = graph = mutated(_members["graph.mlgraph"], random)
    data["members"]["graph.mlgraph"] = {
        "nbytes": len(graph),
        "sha256": hashlib.sha256(graph).hexdigest(),
    }
    made[MANIFEST] = json.dumps(data).encode()
    made[DIGEST] = hashlib.sha256(made[MANIFEST]).hexdigest().encode()
    with tempfile.TemporaryDirectory() as folder:
        return _use("with another graph", _written(made, Path(folder)), False)


def _drawn(random: Random) -> Case:
    return random.choice((_bytes, _bytes, _member, _manifest, _graph))(random)


SEEDS = [
    Case("a model of no bytes", lambda folder: _use("", b"", True).run(folder)),
    Case("a directory alone", lambda folder: _use("", b"PK\x05\x06" + bytes(18), True).run(folder)),
]

FAMILIES = (
    Family("kept models", SEEDS, _drawn, 20_000, _ready, memory=1 << 30),
)  # fmt: skip

"""Differences between documents: what is sent to a view instead of the whole."""

from __future__ import annotations

import base64
import json
import os
import zlib
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from maxlab.lab.differences import applied, difference
from maxlab.lab.documents import checked_document
from maxlab.lab.snapshot import take
from tests.lab.edited import chain
from tests.lab.graphs import layered

GOLDEN = Path(__file__).parents[2] / "extension" / "test" / "golden" / "differences.json"
"""Documents and their differences, which the front end applies in ``difference.spec.ts``."""


@pytest.mark.parametrize("seed", range(40))
def test_the_difference_makes_the_next_document(seed: int) -> None:
    documents = chain(seed, 12)
    kinds = set()
    for old, new in pairwise(documents):
        found = difference(old, new)
        assert found is not None
        kinds |= set(found)
        assert json.dumps(applied(old, found), sort_keys=True) == json.dumps(new, sort_keys=True)
        # and what a page reads of it does the same
        read = json.loads(json.dumps(found))
        assert applied(old, read) == new
    assert kinds >= {"nodes", "values", "revision"}


def test_entries_that_stay_are_not_sent() -> None:
    [old, *_] = chain(0, 0)
    new = json.loads(json.dumps(old))
    new["nodes"][4]["attrs"]["axis"] = "7"
    assert difference(old, new) == {
        "revision": old["revision"],
        "nodes": {"removed": [], "changed": [new["nodes"][4]], "added": []},
    }
    assert difference(old, old) == {"revision": old["revision"]}


def test_a_node_that_moves_is_the_only_one_sent() -> None:
    [old, *_] = chain(0, 0)
    new = json.loads(json.dumps(old))
    new["nodes"].append(new["nodes"].pop(3))
    found = difference(old, new)
    assert found is not None
    moved = old["nodes"][3]
    assert found["nodes"] == {
        "removed": [moved["id"]],
        "changed": [],
        "added": [{"before": None, "node": moved}],
    }


@pytest.mark.parametrize("field", ["answers", "panel"])
def test_a_field_that_vanishes_needs_the_whole_document(field: str) -> None:
    new = take(layered(1)).document
    old: Any = {**new, field: {} if field == "answers" else "timeline"}
    assert difference(old, new) is None
    assert difference(new, old) is not None


@pytest.mark.parametrize(
    "change",
    [
        {"removed": ["n999"], "changed": [], "added": []},
        {"removed": [], "changed": [{"id": "n999"}], "added": []},
        {"removed": [], "changed": [], "added": [{"before": "n999", "node": {"id": "n1000"}}]},
    ],
)
def test_a_difference_of_another_document_is_refused(change: Any) -> None:
    document = take(layered(1)).document
    with pytest.raises(KeyError, match="n999"):
        applied(document, {"revision": 1, "nodes": change})


def golden() -> str:
    """Chains of documents: the first, and then what changed and what came of it."""
    chains = []
    for seed in range(3):
        documents = chain(seed, 12)
        steps = [
            {"difference": difference(old, new), "document": new}
            for old, new in pairwise(documents)
        ]
        chains.append({"start": documents[0], "steps": steps})
    packed = zlib.compress(json.dumps(chains, sort_keys=True).encode(), 9)
    return json.dumps({"encoding": "deflate+base64", "data": base64.b64encode(packed).decode()})


def test_the_pairs_of_the_front_end_are_those_that_python_makes() -> None:
    if os.environ.get("MAXLAB_WRITE_GOLDEN"):
        GOLDEN.parent.mkdir(parents=True, exist_ok=True)
        GOLDEN.write_text(golden() + "\n", "utf-8")
    packed = base64.b64decode(json.loads(GOLDEN.read_text("utf-8"))["data"])
    chains = json.loads(zlib.decompress(packed))
    assert [len(one["steps"]) for one in chains] == [12, 12, 12]
    for one in chains:
        documents = [one["start"], *(step["document"] for step in one["steps"])]
        made = [difference(*pair) for pair in pairwise(documents)]
        assert made == [step["difference"] for step in one["steps"]], "MAXLAB_WRITE_GOLDEN=1"
        checked_document(one["start"])

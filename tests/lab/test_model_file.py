"""What the Jupyter server tells a page of a kept model, without running anything of it."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from maxlab.engine.kept.manifest import Argument, FileEntry, WeightEntry
from maxlab.errors import MaxlabError
from maxlab.lab.protocol.files import ModelContents, SavedGraph
from maxlab.lab.protocol.reader import check
from maxlab.lab.server.files import FileService
from maxlab.lab.server.model_file import MOST_ROWS, contents_of
from maxlab.lab.snapshot import unpack
from tests.lab.model_files import small_graph, write_model


def told(path: Path) -> dict[str, Any]:
    """The contents, as they arrive at a page."""
    found: dict[str, Any] = json.loads(json.dumps(contents_of(str(path), "s"), allow_nan=False))
    check(found, ModelContents, closed=True)
    return found


def test_the_contents(tmp_path: Path) -> None:
    path = tmp_path / "scores.mlmodel"
    write_model(path)
    found = told(path)
    assert (found["name"], found["written"], found["operations"]) == ("scores", "0.1.0", 3)
    assert found["bytes"] == path.stat().st_size == sum(size for _, size in found["parts"])
    assert dict(map(tuple, found["parts"]))["machine code"] == 19 * 200
    assert len(found["digest"]) == 64
    assert found["inputs"] == [["x", "float32", "n × 64", "cpu:0"]]
    assert found["weights"] == [["w", "float32", "64 × 32", 8192, ""]]
    assert found["kernels"] == [["matmul", "c", 1, "libraries/0.so"]]
    assert [name for name, *_ in found["members"]][:2] == ["maxlab.json", "digest"]
    assert ["compiler", "gcc 12"] in found["machine"]


def test_the_graph(tmp_path: Path) -> None:
    path = tmp_path / "scores.mlmodel"
    write_model(path)
    found = FileService().graph("scores.mlmodel", str(path))
    check(json.loads(json.dumps(found)), SavedGraph, closed=True)
    assert [node["op"] for node in unpack(found["document"])["nodes"]] == [
        "constant.external",
        "matmul",
        "gelu",
    ]


def test_a_graph_that_is_none_leaves_the_contents(tmp_path: Path) -> None:
    path = tmp_path / "scores.mlmodel"
    write_model(path, graph=small_graph().document.text()[:-9])
    assert told(path)["name"] == "scores"
    with pytest.raises(MaxlabError) as raised:
        FileService().graph("scores.mlmodel", str(path))
    assert raised.value.code == "ML864"


def test_long_lists_and_texts_are_cut_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "long.mlmodel"
    many = tuple(WeightEntry(f"w{n}", "float32", (1,), 0, 4, file=n % 3 - 1) for n in range(9000))
    write_model(
        path,
        weights=many,
        name="n" * 100_000,
        inputs=(Argument("\ud800", "<b>", ("…",)),),
        files=(FileEntry("../" * 2000, 5, ""),),
    )
    found = told(path)
    assert len(found["weights"]) == MOST_ROWS
    assert found["counts"]["weights"] == 9000
    assert len(found["name"]) <= 2000
    # A file that is not in the list is none.
    assert {row[4] for row in found["weights"]} == {"", found["files"][0][0]}


@pytest.mark.parametrize("size", [0, -1, 2**59])
def test_numbers_are_those_of_a_page(size: int, tmp_path: Path) -> None:
    path = tmp_path / "scores.mlmodel"
    write_model(path, weights=(WeightEntry("w", "float32", (size,), 0, size),))
    assert 0 <= told(path)["weights"][0][3] < 2**53


def test_mutated_files_are_refused_or_shown(tmp_path: Path) -> None:
    """Each of 300 damaged files is told about, or refused by a code; nothing else is raised."""
    path = tmp_path / "scores.mlmodel"
    write_model(path)
    whole = path.read_bytes()
    chosen = random.Random(868)
    codes: set[str] = set()
    for turn in range(300):
        data = bytearray(whole)
        if turn % 3 == 0:
            del data[chosen.randrange(len(data)) :]
        else:
            # Where numbers and names are: at the beginning and at the end.
            for _ in range(chosen.randint(1, 4)):
                at = chosen.randrange(3000)
                data[at if turn % 3 == 1 else -1 - at % 900] = chosen.randrange(256)
        path.write_bytes(data)
        service = FileService()
        for question in (service.model, service.graph):
            answer: Any = None
            try:
                answer = question("scores.mlmodel", str(path))
            except MaxlabError as error:
                codes.add(error.code)
            else:
                json.dumps(answer, allow_nan=False)
    assert "ML512" in codes

"""What is no document is refused with a place and a reason, and nothing is lost or run."""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import maxlab
from maxlab.dtype import DType
from maxlab.errors import FileError, ParseError
from maxlab.graph import Graph, TensorType, ops
from maxlab.graph.document import MOST_OPS, parse
from maxlab.ir.printer import generic
from tests.graph.test_documents import annotated

ROW = TensorType(DType.float32, ["n", 4])
WHOLE = annotated().document.text()


def refused(text: str) -> ParseError:
    with pytest.raises(ParseError) as caught:
        parse(text, "g.mlgraph")
    return caught.value


@pytest.mark.parametrize("percent", range(100))
def test_a_document_that_was_cut_off_says_where(percent: int) -> None:
    text = WHOLE[: len(WHOLE) * percent // 100]
    error = refused(text)
    assert error.code == "ML864"
    assert error.fix
    assert error.at is not None
    assert error.at.file == "g.mlgraph"
    assert error.at.line <= text.count("\n") + 1
    assert re.search(r"\(line \d+, column \d+\)", error.what)


def changed(change: Callable[[dict[str, Any]], object]) -> str:
    """The document after ``change`` of its JSON, written a line an item as people's tools do."""
    data = json.loads(WHOLE)
    change(data)
    return json.dumps(data, indent=1)


def op(data: dict[str, Any], place: int) -> dict[str, Any]:
    found: dict[str, Any] = data["graph"]["ops"][place]
    return found


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: op(d, 1).update(operands=["v9"]), "{1} reads 'v9'.*is not there"),
        (lambda d: op(d, 1).update(operands=["v5"]), "{1} reads 'v5'.*stands behind it"),
        (lambda d: op(d, 2).update(id=op(d, 1)["id"]), "two operations have the id '{1}'"),
        (lambda d: op(d, 2)["results"][0].update(id="a0"), "two values have the id 'a0'"),
        (lambda d: op(d, 2)["results"][0].update(id="v 2"), "'v 2' cannot be the id"),
        (lambda d: op(d, 2)["results"][0].update(type="f32"), "its type is 'f32': expected a type"),
        (lambda d: op(d, 2)["results"][0].pop("type"), "type is missing, expected a text"),
        (lambda d: op(d, 2).update(operands="v0"), "operands is 'v0', expected a list"),
        (lambda d: op(d, 2).update(attrs=[["axis", 3]]), "{2}: axis is 3, expected a text"),
        (lambda d: op(d, 2).update(attrs=[["axis", "-"]]), "{2}: its axis is '-'"),
        (lambda d: op(d, 2).update(attrs=[["a", "1"]] * 2), "{2} has two attributes 'a'"),
        (lambda d: d["graph"]["ops"].insert(1, 7), "an operation is 7, expected an object"),
        (lambda d: d["graph"].pop("name"), "name is missing, expected a text"),
        (lambda d: d.pop("graph"), "the graph is None, expected an object"),
        (lambda d: d.pop("constants"), r"has the constant '\w+', which is not in the document"),
        (
            lambda d: d["constants"].update(dict.fromkeys(d["constants"], "AAAA")),
            "not those that were saved",
        ),
        (
            lambda d: d["constants"].update(dict.fromkeys(d["constants"], "é")),
            "is no base64",
        ),
        (lambda d: d["layout"]["places"]["n3"].update(x="1"), "the place of 'n3': x is '1'"),
        (lambda d: d["layout"]["folds"].update(a=1), "the fold of 'a' is 1"),
        (lambda d: d["comments"][0].pop("text"), "the comment c0 has no text"),
        (lambda d: d["comments"].append(d["comments"][0]), "two comments have the id 'c0'"),
        (lambda d: d["drafts"][0].update(operands=[1]), "the draft n90: operands is"),
        (lambda d: d["graph"]["sources"][0].update(line="x"), "the source of .* 'line' is 'x'"),
        (lambda d: d.update(format="maxlab.run"), "the format is 'maxlab.run', expected"),
        (lambda d: d.update(names={"inputs": [1]}), "names are texts"),
        (lambda d: d.update(names={"scopes": {"a": None}}), "names are texts"),
        (lambda d: d.update(version=True), "the version is True, expected 1 to 1"),
    ],
)
def test_what_does_not_hold_together_is_named_with_its_place(
    change: Callable[[dict[str, Any]], object], said: str
) -> None:
    ids = [op["id"] for op in json.loads(WHOLE)["graph"]["ops"]]
    error = refused(changed(change))
    assert error.code == "ML864"
    assert re.search(said.format(*ids), error.what), error.what
    assert re.search(r"\(line \d+, column \d+\)", error.what)
    assert error.fix


def test_the_place_is_that_of_the_object() -> None:
    text = re.sub(r'"operands": \["a0", "v', '"operands": ["zz", "v', WHOLE)
    error = refused(text)
    assert error.at is not None
    assert '"operands": ["zz"' in text.splitlines()[error.at.line - 1]


def test_an_object_with_a_field_twice_is_a_merge_gone_wrong() -> None:
    first = next(line for line in WHOLE.splitlines() if '"name": "mo.softmax"' in line)
    id = json.loads(first.strip().rstrip(","))["id"]
    error = refused(WHOLE.replace('"name": "mo.softmax"', '"name": "mo.exp", "name": "mo.softmax"'))
    assert "'name' twice" in error.what
    assert error.at is not None
    assert f'"id": "{id}"' in WHOLE.splitlines()[error.at.line - 1]


def test_marks_of_a_merge_are_called_so() -> None:
    lines = WHOLE.splitlines()
    place = next(n for n, line in enumerate(lines) if '"id": "n2"' in line)
    mine, theirs = lines[place], lines[place].replace('"id"', '"ink": 1, "id"')
    lines[place : place + 1] = ["<<<<<<< HEAD", mine, "=======", theirs, ">>>>>>> theirs"]
    error = refused("\n".join(lines))
    assert error.what == f"a merge of Git left its marks here (line {place + 1}, column 1)"


def test_a_newer_version_says_so() -> None:
    error = refused(WHOLE.replace('"version": 1', '"version": 2'))
    assert error.code == "ML865"
    assert "version 2; this maxlab reads versions up to 1" in error.what


def test_too_many_operations_are_counted_before_any_is_made() -> None:
    ops = "{}," * MOST_OPS + "{}"
    text = f'{{"format": "maxlab.document", "version": 1, "graph": {{"ops": [{ops}]}}}}'
    error = refused(text)
    assert error.code == "ML866"
    assert f"{MOST_OPS + 1:,} operations" in error.what


def test_numbers_that_are_none_are_refused() -> None:
    for text in ("NaN", "-Infinity", "1e999", "9" * 5000):
        error = refused(WHOLE.replace('"version": 1', f'"version": 1, "x": {text}'))
        assert error.code == "ML864"
        assert "number" in error.what


def test_two_halves_of_a_pair_are_not_written_as_one_character() -> None:
    graph = Graph("g", lambda x: x, [ROW])
    graph.document.folds["\ud83d\ude00"] = True
    with pytest.raises(maxlab.errors.DocumentError, match="surrogate pair"):
        graph.document.text()


def test_a_mark_in_front_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "g.mlgraph"
    path.write_text("\ufeff" + WHOLE, "utf-8")
    assert Graph(path=path).document.text() == WHOLE


# ---------------------------------------------------------------- files
def test_a_file_that_is_no_graph_says_what_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "w.gguf"
    path.write_bytes(b"GGUF\x03\xff\xfe")
    with pytest.raises(ParseError, match="load_weights"):
        maxlab.open(path)
    with pytest.raises(FileError) as caught:
        maxlab.open(tmp_path / "missing.mlgraph")
    assert caught.value.code == "ML002"


def test_a_full_disk_leaves_the_old_file_whole(tmp_path: Path) -> None:
    path = tmp_path / "g.mlgraph"
    path.write_text(WHOLE, "utf-8")
    graph = Graph("other", ops.exp, [ROW])
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with (
        mock.patch.object(os, "fsync", side_effect=full),
        pytest.raises(FileError, match="free some space") as caught,
    ):
        graph.save(path)
    assert caught.value.code == "ML003"
    assert path.read_text("utf-8") == WHOLE
    assert os.listdir(tmp_path) == ["g.mlgraph"]


def test_script_in_names_is_text_in_every_page(tmp_path: Path) -> None:
    script = "</script><script>alert(1)</script>"
    graph = Graph(script, ops.exp, [TensorType(DType.float32, ["n"])])
    graph.inputs[0]._ir().rename(script)
    graph.document.comments.append(maxlab.graph.Comment(id=script, text=script))
    graph.save(tmp_path / "g.mlgraph")
    opened = maxlab.open(tmp_path / "g.mlgraph")
    assert isinstance(opened, Graph)
    assert generic(opened.function) == generic(graph.function)
    assert script not in str(opened.to_html())

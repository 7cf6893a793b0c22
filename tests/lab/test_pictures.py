"""Listings and static pictures: folding, validity, escaping, and life without graphviz."""

from __future__ import annotations

import os
import stat
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

from maxlab.dtype import DType
from maxlab.errors import ArgumentTypeError
from maxlab.graph import Graph, TensorType, TensorValue, ops
from maxlab.lab import svg, text
from maxlab.lab.folding import fold
from maxlab.lab.snapshot import take
from tests.lab.graphs import layered, load, registry, small

SVG = "{http://www.w3.org/2000/svg}"

needs_dot = pytest.mark.skipif(
    not any(
        os.access(os.path.join(p, "dot"), os.X_OK) for p in os.environ["PATH"].split(os.pathsep)
    ),
    reason="graphviz is not installed",
)


def chain(count: int, name: str = "chain") -> Graph:
    """``count`` ops in a row, in no scope."""
    with Graph(name, input_types=[TensorType(DType.float32, ["n"])]) as graph:
        x = graph.inputs[0].tensor
        for _ in range(count):
            x = ops.tanh(x)
        graph.output(x)
    return graph


def test_listing() -> None:
    assert text.listing(take(small()).document).splitlines() == [
        "Graph 'small': 1 input, 4 ops, 1 output",
        "  input0: f32[n, 8]",
        "  %v1 = mul(input0, 2): f32[n, 8]",
        "  %v3 = add(%v1, 1): f32[n, 8]",
        "  %v4 = gelu(%v3, approximate=none): f32[n, 8]",
        "  %v5 = softmax(%v4, axis=-1): f32[n, 8]",
        "  output %v5",
    ]


def test_long_listings_are_cut_and_counted() -> None:
    lines = text.listing(take(chain(163)).document).splitlines()
    assert len(lines) == 43
    assert lines[-2:] == ["  … 124 more", "  output %v162"]


def test_lines_keep_their_type() -> None:
    with Graph("wide", input_types=[TensorType(DType.float32, ["n"])] * 20) as graph:
        graph.output(ops.concat([v.tensor for v in graph.inputs]))
    line = text.listing(take(graph).document).splitlines()[-2]
    assert len(line) <= text.WIDEST + 2
    assert line.endswith(("…: f32[n * 20]", "…: f32[20 * n]"))


def test_runs_fold_to_one_box() -> None:
    picture = fold(take(layered(6)).document)
    [box] = [b for b in picture.boxes if b.kind == "scope"]
    assert (box.title, box.count) == ("layer.0 … 5", 6)
    assert len(picture.wires) == 2


def test_small_scopes_open() -> None:
    def block(x: TensorValue) -> TensorValue:
        return ops.tanh(ops.exp(x))

    with Graph("one", input_types=[TensorType(DType.float32, ["n"])]) as graph:
        graph.output(block(graph.inputs[0].tensor))
    picture = fold(take(graph).document)
    assert picture.frames == {"block": "block"}
    assert [b.title for b in picture.boxes] == ["input0", "exp", "tanh", "output"]
    assert {b.inside for b in picture.boxes if b.kind == "op"} == {"block"}


def test_large_scopes_stay_folded() -> None:
    def block(x: TensorValue) -> TensorValue:
        for _ in range(80):
            x = ops.tanh(x)
        return x

    with Graph("one", input_types=[TensorType(DType.float32, ["n"])]) as graph:
        graph.output(block(graph.inputs[0].tensor))
    picture = fold(take(graph).document)
    assert [b.title for b in picture.boxes] == ["input0", "block", "output"]
    assert picture.boxes[1].note == "80 ops"


@needs_dot
@pytest.mark.parametrize(
    "graph", [small(), layered(6), chain(200), Graph("empty")], ids=lambda g: g.name
)
def test_pictures_are_valid_small_and_the_same(graph: Graph) -> None:
    document = take(graph).document
    picture = svg.draw(document)
    root = ET.fromstring(picture)
    assert root.tag == f"{SVG}svg"
    assert [e.text for e in root if e.tag == f"{SVG}title"] == [graph.name]
    assert next(e.text for e in root if e.tag == f"{SVG}desc")
    assert len(root.findall(f"{SVG}rect")) <= 2 * svg.MOST_BOXES
    assert len(picture) < 30_000
    assert svg.draw(document) == picture
    assert "prefers-color-scheme:dark" in picture


@needs_dot
def test_pictures_run_down_or_to_the_right() -> None:
    def extent(picture: str) -> tuple[float, float]:
        _, _, width, height = map(float, ET.fromstring(picture).attrib["viewBox"].split())
        return width, height

    graph = chain(20)
    width, height = extent(graph.to_svg())
    assert height > 2 * width
    width, height = extent(graph.to_svg(direction="right"))
    assert width > 2 * height
    with pytest.raises(ArgumentTypeError, match="down, right, got 'up'.*ML622"):
        graph.to_svg(direction="up")


@needs_dot
def test_what_is_left_out_is_counted() -> None:
    assert "… and 142 more" in svg.draw(take(chain(200)).document)


@needs_dot
def test_text_of_the_user_stays_text() -> None:
    name = "<b>&\"'</b><script>alert(1)</script>\\N"
    root = ET.fromstring(svg.draw(take(chain(3, name)).document))
    assert [e.text for e in root if e.tag == f"{SVG}title"] == [name]
    assert not [e for e in root.iter() if e.tag.endswith("script")]


@needs_dot
def test_profiles_show_shares_in_words() -> None:
    model = load(layered(), weights_registry=registry())
    profile = model.profile(np.ones((2, 3, 16), np.float32), runs=2)
    assert "100%" in svg.draw(take(profile).document) or ">99%" in svg.draw(take(profile).document)


@needs_dot
def test_failed_ops_stand_out() -> None:
    graph = chain(2)
    document = take(graph).document
    document["nodes"][1]["error"] = "does not fit\nbecause"
    assert 'class="e"' in svg.draw(document)
    assert "does not fit" in svg.draw(document)


def test_without_dot_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(svg.PictureError, match=r"(?s)ML802.*install graphviz"):
        svg.draw(take(small()).document)


def fake_dot(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ``dot`` be a shell script."""
    path = folder / "dot"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def test_a_slow_dot_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_dot(tmp_path, f"echo $$ > {tmp_path}/pid; exec sleep 60", monkeypatch)
    start = time.monotonic()
    with pytest.raises(svg.PictureError, match=r"ML803.*|.*longer than 0.5 s"):
        svg.draw(take(small()).document, limit_seconds=0.5)
    assert time.monotonic() - start < 20
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_a_failing_dot_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_dot(tmp_path, "echo no fonts >&2; exit 1", monkeypatch)
    with pytest.raises(svg.PictureError, match="no fonts"):
        svg.draw(take(small()).document)

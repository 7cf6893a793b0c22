"""``python -m maxlab code``: the program of a file, printed, or written with weights beside it."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from maxlab.__main__ import main
from maxlab.dtype import DType
from maxlab.graph import Graph, TensorType, ops
from maxlab.graph.code import are_equal

ROW = TensorType(DType.float32, ["n", 16])
SHORT = Graph("scores", lambda x: ops.softmax(x * 2), [ROW])
LONG = Graph("table", lambda x: x @ np.arange(2048, dtype=np.float32).reshape(16, 128), [ROW])


def saved(graph: Graph, folder: Path) -> Path:
    path = folder / "net.mlgraph"
    graph.save(path)
    return path


def test_the_program_is_printed(tmp_path: Path) -> None:
    path = saved(SHORT, tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "maxlab", "code", path], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == SHORT.to_python()
    assert sorted(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("graph", [SHORT, LONG], ids=lambda graph: graph.name)
def test_the_program_is_written(
    graph: Graph, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, made = saved(graph, tmp_path), tmp_path / "net.py"
    assert main(["code", str(path), "-o", str(made)]) == 0
    assert capsys.readouterr().out == f"{made}\n"
    beside = made.with_suffix(".safetensors")
    assert beside.exists() is (graph is LONG)
    again = runpy.run_path(str(made))["graph"]
    assert are_equal(again.function, graph.function)


def broken(folder: Path) -> Path:
    path = folder / "broken.mlgraph"
    path.write_text("{ no graph")
    return path


def cut(folder: Path) -> Path:
    path = saved(SHORT, folder)
    path.write_bytes(path.read_bytes()[:-40])
    return path


@pytest.mark.parametrize(
    ("file", "output", "words"),
    [
        (lambda folder: folder / "none.mlgraph", None, ["none.mlgraph"]),
        (lambda folder: folder, None, []),
        (broken, None, ["broken.mlgraph"]),
        (cut, None, ["net.mlgraph"]),
        (lambda folder: saved(LONG, folder), None, ["ML839", "net.py"]),
        (lambda folder: saved(LONG, folder), "net.safetensors", ["ML838", "net.py"]),
        (lambda folder: saved(LONG, folder), "no/such/net.py", ["no/such"]),
    ],
)
def test_what_cannot_be_written_says_why(
    file: object,
    output: str | None,
    words: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert callable(file)
    path = file(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    more = [] if output is None else ["-o", str(tmp_path / output)]
    assert main(["code", str(path), *more]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "Traceback" not in said.err
    assert said.err.strip()
    for word in words:
        assert word in said.err
    assert sorted(tmp_path.rglob("*")) == before

"""The commands: what they print, what they write, and how they end."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from maxlab.__main__ import main
from maxlab.analysis.runs import SavedRun, record
from tests.analysis.runs.made import layered, profiled, with_times
from tests.analysis.runs.test_diff import BASE, times


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("commands")
    run: SavedRun = record(profiled(layered(3)))
    run.save(found / "measured.mlprof")
    slow = [BASE[0], 2 * BASE[1], BASE[2]]
    for name, middles, seed in (("old", BASE, 1), ("same", BASE, 2), ("slow", slow, 3)):
        made = with_times(run, times(middles, seed=seed), label=name)
        made.save(found / f"{name}.mlprof")
    (found / "broken.mlprof").write_bytes(b"PK nothing")
    layered(3).save(found / "layered.mlgraph")
    layered(3).save(found / "layered.mlir")
    (found / "broken.mlgraph").write_bytes(b"{")
    return found


def ended(folder: Path, *arguments: str) -> int:
    suffixes = (".mlprof", ".mlgraph", ".mlir")
    return main([str(folder / a) if a.endswith(suffixes) else a for a in arguments])


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (("diff", "old.mlprof", "slow.mlprof"), 0),
        (("diff", "old.mlprof", "slow.mlprof", "--fail-if", "+5%"), 1),
        (("diff", "old.mlprof", "slow.mlprof", "--fail-if", "+50%"), 0),
        (("diff", "old.mlprof", "slow.mlprof", "--fail-if", "+50%", "--fail-if", "kernel:5%"), 1),
        (("diff", "old.mlprof", "same.mlprof", "slow.mlprof", "--fail-if", "+5%"), 1),
        (("diff", "old.mlprof", "same.mlprof", "--fail-if", "+5%"), 0),
        (("diff", "slow.mlprof", "old.mlprof", "--fail-if", "+5%"), 0),
        (("diff", "old.mlprof", "broken.mlprof", "--fail-if", "+5%"), 2),
        (("diff", "old.mlprof", "missing.mlprof"), 2),
        (("diff", "old.mlprof"), 2),
        (("diff", "old.mlprof", "slow.mlprof", "--fail-if", "5"), 2),
        (("diff", "old.mlprof", "slow.mlprof", "--confidence", "7"), 2),
        (("show", "old.mlprof"), 0),
        (("show", "broken.mlprof"), 2),
        (("show", "layered.mlgraph"), 0),
        (("show", "layered.mlir"), 0),
        (("show", "broken.mlgraph"), 2),
        (("show", "missing.mlgraph"), 2),
        (("trace", "broken.mlprof", "-o", "trace.json"), 2),
    ],
)
def test_how_commands_end(
    arguments: tuple[str, ...], status: int, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended(folder, *arguments) == status
    said = capsys.readouterr()
    assert ("maxlab " in said.err) == (status == 2)
    assert "Traceback" not in said.err


def test_no_arguments_are_explained(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([])
    assert caught.value.code == 2
    assert "usage: python -m maxlab" in capsys.readouterr().err


def test_a_diff_prints_and_writes_what_it_found(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, data = tmp_path / "diff.html", tmp_path / "diff.json"
    arguments = ("old.mlprof", "slow.mlprof", "--html", str(page), "--json", str(data))
    assert ended(folder, "diff", *arguments, "--fail-if", "+5%", "--rows", "1") == 1
    said = capsys.readouterr().out
    assert said.startswith("old → slow: layered\n")
    assert "slower than run:+5% allows: slow: one run +" in said
    assert "… 2 more" in said
    assert "old → slow: layered" in page.read_text("utf-8")
    assert json.loads(data.read_text("utf-8"))["kind"] == "diff"


def test_unclear_changes_fail_when_asked(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = record(profiled(layered(3)))
    for name, scale, seed in (("a", 1.0, 1), ("b", 1.06, 9)):
        samples = times([scale * ns for ns in BASE], runs=6, noise=0.3, seed=seed)
        with_times(run, samples, label=name).save(tmp_path / f"{name}.mlprof")
    arguments = ["diff", str(tmp_path / "a.mlprof"), str(tmp_path / "b.mlprof")]
    assert main([*arguments, "--fail-if", "+2%"]) == 0
    assert "may be slower than run:+2% allows" in capsys.readouterr().out
    assert main([*arguments, "--fail-if", "+2%", "--unclear-fails"]) == 1


def test_a_run_is_shown_and_traced(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, trace = tmp_path / "page.html", tmp_path / "trace.json"
    assert ended(folder, "show", "measured.mlprof", "-o", str(page)) == 0
    assert ended(folder, "trace", "measured.mlprof", "-o", str(trace)) == 0
    assert capsys.readouterr().out.split() == [str(page), str(trace)]
    assert page.read_text("utf-8").startswith("<!DOCTYPE html>")
    events = json.loads(trace.read_text("utf-8"))["traceEvents"]
    assert sum(event["ph"] == "X" for event in events) >= 3


def test_a_graph_is_shown(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.html"
    assert ended(folder, "show", "layered.mlgraph") == 0
    assert capsys.readouterr().out == f"{layered(3)}\n"
    assert ended(folder, "show", "layered.mlgraph", "-o", str(page)) == 0
    assert capsys.readouterr().out == f"{page}\n"
    assert "<title>layered</title>" in page.read_text("utf-8")


def test_the_command_is_a_module(folder: Path) -> None:
    old = str(folder / "old.mlprof")
    done = subprocess.run(
        [sys.executable, "-m", "maxlab", "show", old], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("layered on cpu")

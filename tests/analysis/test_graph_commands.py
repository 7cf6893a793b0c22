"""``python -m maxlab diff``, ``merge`` and ``git`` for graphs, in a repository of Git."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

import maxlab
from maxlab.__main__ import main
from maxlab.analysis import git_setup
from maxlab.analysis.revisions import is_revision, text_at
from maxlab.errors import FileError, ParseError
from maxlab.graph import Editor, Graph, ops

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")

NAME = "scores.mlgraph"


def git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", "-c", "user.name=me", "-c", "user.email=me@x", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    return f"{done.stdout}{done.stderr}"


def edit(axis: int) -> None:
    graph = maxlab.open(NAME)
    Editor(graph).set_attribute("n1", "axis", axis)
    graph.save(NAME)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with two commits of a document: the second one reads axis 0."""
    root = Path(maxlab.__file__).parents[1]
    monkeypatch.setenv("PYTHONPATH", str(root))  # of the processes that Git starts
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.chdir(tmp_path)
    row = maxlab.TensorType(maxlab.float32, ["n", 8])
    Graph("scores", lambda x: ops.softmax(ops.exp(x)), [row]).save(NAME)
    git("init", "-q", "-b", "main")
    git("add", ".")
    git("commit", "-qm", "one")
    edit(0)
    git("commit", "-qam", "two")
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (["diff", f"HEAD~1:{NAME}", NAME], 0, "axis: -1 → 0"),
        (["diff", f"HEAD~1:{NAME}", NAME, "--exit-code"], 1, "axis: -1 → 0"),
        (["diff", f"HEAD:{NAME}", NAME, "--exit-code"], 0, "no difference"),
        (["diff", "--exit-code", "HEAD~1", "HEAD", "--", NAME], 1, "axis: -1 → 0"),
        (["diff", "--exit-code", "HEAD~1", "--", NAME], 1, "axis: -1 → 0"),
        (["diff", "--exit-code", "--", NAME], 0, "no difference"),
        (["diff", "nothing", "HEAD", "--", NAME], 2, "no revision 'nothing'"),
        (["diff", "HEAD", "--", "nothing.mlgraph"], 2, "HEAD has no file"),
        (["diff", "--", "-x"], 2, "HEAD has no file '-x'"),
        (["diff", "a", "b", "c", "--", NAME], 2, "two revisions"),
        (["diff", NAME], 2, "two graphs"),
        (["diff", NAME, "missing.mlgraph"], 2, "missing.mlgraph"),
        (["diff", NAME, "cut.mlgraph"], 2, "[ML864]"),
        (["diff", NAME, "newer.mlgraph"], 2, "version 99"),
        (["merge", f"HEAD~1:{NAME}", NAME, NAME], 0, "maxlab.document"),
        (["merge", NAME, NAME, "cut.mlgraph"], 2, "[ML864]"),
        (["git"], 0, "as text"),
    ],
)
def test_how_commands_end(
    arguments: list[str],
    status: int,
    says: str,
    repository: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = Path(NAME).read_text("utf-8")
    Path("cut.mlgraph").write_text(text[:200], "utf-8")
    Path("newer.mlgraph").write_text(text.replace('"version": 1', '"version": 99'), "utf-8")
    assert main(arguments) == status
    written = capsys.readouterr()
    assert says in written.out + written.err


def test_a_difference_as_json_and_as_a_page(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diff", f"HEAD~1:{NAME}", NAME, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["counts"]["changed"] == 1
    assert found["differences"][0]["what"] == ["axis: -1 → 0"]
    assert main(["diff", f"HEAD~1:{NAME}", NAME, "--json", "d.json", "--html", "d.html"]) == 0
    assert json.loads(Path("d.json").read_text("utf-8")) == found
    assert "axis: -1 → 0" in Path("d.html").read_text("utf-8")


def test_git_shows_and_merges_graphs(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path(".git/info").mkdir(exist_ok=True)
    Path(".git/info/attributes").write_text("*.txt text\n", "utf-8")
    before = Path(".git/config").read_text("utf-8")
    assert main(["git", "--install"]) == 0
    assert main(["git", "--install"]) == 0  # twice is once
    assert git_setup.is_installed()
    assert "~ softmax (n1)\n    axis: -1 → 0" in git("diff", "HEAD~1")
    assert "-  %v1 = mo.softmax(%v0) {axis = -1}" in git("log", "-p", "-1")

    # Edits that do not touch are merged; two of one attribute are a conflict, which the file says.
    git("checkout", "-qb", "other")
    graph = maxlab.open(NAME)
    Editor(graph).insert("relu", "n0", 0)
    graph.save(NAME)
    git("commit", "-qam", "three")
    git("checkout", "-q", "main")
    edit(-1)
    git("commit", "-qam", "four")
    assert "CONFLICT" not in git("merge", "-q", "other", "-m", "five")
    names = [op.name for op in maxlab.open(NAME).function.ops]
    assert names == ["mo.relu", "mo.exp", "mo.softmax", "mo.output"]
    git("checkout", "-q", "other")
    edit(1)
    git("commit", "-qam", "six")
    git("checkout", "-q", "main")
    assert f"CONFLICT (content): Merge conflict in {NAME}" in git("merge", "other", "-m", "seven")
    graph = maxlab.open(NAME)
    (conflict,) = graph.document.conflicts
    assert str(conflict.parts[0]) == "n1 attr axis: base 0, ours -1, theirs 1"
    with pytest.warns(UserWarning, match="m0 \\(softmax n1: axis\\)"):
        maxlab.compile(graph)
    Editor(graph).resolve("m0", "theirs")
    graph.save(NAME)
    assert maxlab.open(NAME).function.ops[2].attrs["axis"] == 1

    assert main(["git", "--uninstall"]) == 0
    assert not git_setup.is_installed()
    assert Path(".git/info/attributes").read_text("utf-8") == "*.txt text\n"
    assert Path(".git/config").read_text("utf-8") == before
    capsys.readouterr()
    assert main(["git", "--uninstall"]) == 0
    assert "nothing was set" in capsys.readouterr().out


def test_git_difftool_opens_the_picture(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = repository / "seen.txt"
    browser = repository / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" >> {shlex.quote(str(seen))}\n', "utf-8")
    browser.chmod(0o755)
    monkeypatch.setenv("BROWSER", str(browser))
    monkeypatch.setenv("TMPDIR", str(repository))
    main(["git", "--install"])
    said = git("difftool", "-y", "-t", "maxlab", "HEAD~1", "--", NAME)
    assert "axis: -1 → 0" in said
    assert seen.exists(), said
    (url,) = seen.read_text("utf-8").split()
    page = Path(url.removeprefix("file://"))
    assert "axis: -1 → 0" in page.read_text("utf-8")


def test_git_mergetool_merges_what_git_merged_as_text(repository: Path) -> None:
    git("checkout", "-qb", "other")
    graph = maxlab.open(NAME)
    Editor(graph).insert("relu", "n0", 0)
    graph.save(NAME)
    git("commit", "-qam", "three")
    git("checkout", "-q", "main")
    graph = maxlab.open(NAME)
    Editor(graph).insert("tanh", "n1", 0)
    graph.save(NAME)
    git("commit", "-qam", "four")
    assert "CONFLICT" in git("merge", "-q", "other", "-m", "five"), "lines that touch"
    with pytest.raises(ParseError, match="a merge of Git left its marks"):
        maxlab.open(NAME)
    main(["git", "--install"])
    git("mergetool", "-y", "-t", "maxlab")
    names = [op.name for op in maxlab.open(NAME).function.ops]
    assert names == ["mo.relu", "mo.exp", "mo.tanh", "mo.softmax", "mo.output"]
    assert "UU" not in git("status", "--porcelain")


def test_where_there_is_no_git(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(FileError, match="in no repository"):
        text_at("HEAD", NAME)
    with pytest.raises(FileError, match="no revision"):
        text_at("--output=x", NAME)
    assert main(["git", "--install"]) == 2
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FileError, match="no git on this machine"):
        text_at("HEAD", NAME)
    assert not is_revision("C:/graphs/scores.mlgraph")
    assert not is_revision(NAME)

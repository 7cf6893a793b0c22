"""Whatever stands at a path that a user names, reading it ends with an error that says why."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.files.readers import READERS

ROOT = Path(__file__).resolve().parents[2]
PLACES = ("pipe", "device", "socket", "folder", "loop", "missing", "a NUL", "odd bytes")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("places")
    (made / "folder").mkdir()
    for suffix in ("", ".mxpkg"):
        os.mkfifo(made / f"pipe{suffix}")
        (made / f"device{suffix}").symlink_to("/dev/zero")
        (made / f"loop{suffix}").symlink_to(f"loop{suffix}")
        (made / f"odd bytes{suffix}").write_bytes(bytes(range(256)))
        here = os.getcwd()
        os.chdir(made)
        try:
            with socket.socket(socket.AF_UNIX) as made_socket:
                made_socket.bind(f"socket{suffix}")
        finally:
            os.chdir(here)
    return made


@cache
def results(path: str) -> dict[str, dict[str, str]]:
    """What each reader said of ``path``."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.files.readers", json.dumps(path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {line["name"]: line for line in lines}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("place", PLACES)
def test_reading_ends_with_an_error_that_says_why(reader: str, place: str, folder: Path) -> None:
    if place == "odd bytes" and reader.startswith("mmap"):
        return  # any bytes will do
    if place == "missing" and reader == "mmap anew":
        return  # it makes the file
    name = "a\0b" if place == "a NUL" else place
    found = results(str(folder / name)).get(reader)
    assert found is not None, "the process did not live to tell"
    if reader.startswith("python -m"):
        assert (found["error"], found["text"]) == ("SystemExit", "'2'")
    elif reader == "machine":
        assert found["error"] == "FileNotFoundError"
    else:
        assert "MaxlabError" in found["bases"].split(), found
        assert "[ML" in found["text"]
        assert "fix: " in found["text"]


@pytest.mark.parametrize("reader", ["Graph", "Module", "session.load", "add_subgraph"])
@pytest.mark.parametrize("place", ["pipe", "device", "missing"])
def test_graphs_keep_their_class_of_error(reader: str, place: str, folder: Path) -> None:
    found = results(str(folder / place))[reader]
    assert found["error"] == "InvalidPathError"
    assert "ML793" in found["text"]
    words = {"pipe": "it is a pipe", "device": "it is a device", "missing": "no such file"}
    assert words[place] in found["text"]

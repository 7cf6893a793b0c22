"""Settings that cannot be meant: each is named, with what to write in its place."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from maxlab import engine
from maxlab.config import read_config
from maxlab.errors import ArgumentError, MaxlabError
from tests.toolchain.small import child, settings

HUGE = 10**30


@pytest.mark.parametrize("folder", ["~nosuch-user/x", "a\0b", "~nosuch-user"])
def test_a_cache_folder_that_cannot_be(folder: str) -> None:
    with pytest.raises(ArgumentError, match="MAXLAB_CACHE_DIR") as caught:
        read_config({"MAXLAB_CACHE_DIR": folder})
    assert caught.value.code == "ML511"
    assert caught.value.fix


def test_an_empty_cache_folder_means_the_usual_one() -> None:
    usual = read_config({}).cache_dir
    assert read_config({"MAXLAB_CACHE_DIR": ""}).cache_dir == usual


def test_a_relative_cache_folder_is_one_below_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert read_config({"MAXLAB_CACHE_DIR": "kept"}).cache_dir == tmp_path / "kept"
    usual = read_config({}).cache_dir
    assert read_config({"XDG_CACHE_HOME": "kept"}).cache_dir == usual, "it has to be absolute"


def test_a_file_in_the_place_of_the_cache_is_said_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    script = "[made] = compile_units([kernel(1)]); print(call(made), len(warnings()), warnings())"
    out = child(script, MAXLAB_CACHE_DIR=str(tmp_path / "file"))
    assert out.startswith("1 1 ")
    assert "not a directory" in out


def test_the_doctor_names_a_setting_that_cannot_be() -> None:
    script = """
from maxlab.toolchain import doctor_rows
rows = {row.name: row for row in doctor_rows()}
print(rows["kernel cache"].found, "MAXLAB_CACHE_DIR" in rows["kernel cache"].detail)
"""
    assert child(script, MAXLAB_CACHE_DIR="~nosuch-user/x") == "False True\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_the_doctor_says_why_a_cache_is_not_used(tmp_path: Path) -> None:
    from maxlab.toolchain import doctor_rows

    root = tmp_path / "cache"
    root.mkdir(0o700)
    os.chown(root, 54321, 54321)
    with settings(cache_dir=root):
        row = {row.name: row for row in doctor_rows()}["kernel cache"]
    assert not row.found
    assert "belongs to another user" in row.detail
    assert row.fix


@pytest.mark.parametrize("text", [str(HUGE), "0", "-1", "2.5", "1025", "many", "9" * 5000])
def test_numbers_of_threads_that_cannot_be(text: str) -> None:
    with pytest.raises(ArgumentError, match="MAXLAB_NUM_THREADS") as caught:
        read_config({"MAXLAB_NUM_THREADS": text})
    assert caught.value.code == "ML390"
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("number", [HUGE, 0, -1, 2.5, "3", 1025, True, 2**63])
def test_sessions_with_threads_that_cannot_be(number: Any) -> None:
    with pytest.raises(MaxlabError, match="num_threads") as caught:
        engine.InferenceSession(num_threads=number)
    assert caught.value.code == "ML616"
    assert caught.value.fix


def test_the_most_threads_are_a_team(tmp_path: Path) -> None:
    assert engine.InferenceSession(num_threads=1024).num_threads == 1024


@pytest.mark.parametrize("text", [str(HUGE), "9" * 5000])
def test_other_numbers_that_are_too_large(text: str) -> None:
    for name in ("MAXLAB_TRACE_EVENTS", "MAXLAB_SIMULATOR"):
        with pytest.raises(ArgumentError, match=name) as caught:
            read_config({name: text})
        assert caught.value.code == "ML390"

"""Folders to build in."""

from __future__ import annotations

from pathlib import Path

import pytest

from maxlab.toolchain.folders import fresh_folder, remove_folder


def test_a_folder_is_new_and_for_its_user_alone(tmp_path: Path) -> None:
    one, other = (fresh_folder(tmp_path, "build-") for _ in range(2))
    assert one != other
    assert one.parent == tmp_path
    assert one.name.startswith("build-")
    assert one.stat().st_mode & 0o777 == 0o700
    assert not any(one.iterdir())


def test_a_folder_in_none_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        fresh_folder(tmp_path / "none", "build-")


def test_a_folder_goes_with_what_is_in_it_and_not_what_links_name(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "text").write_text("x")
    folder = fresh_folder(tmp_path, "build-")
    (folder / "in" / "it").mkdir(parents=True)
    (folder / "in" / "unit.c").write_text("int x;")
    (folder / "folder").symlink_to(kept)
    (folder / "file").symlink_to(kept / "text")
    remove_folder(folder)
    assert not folder.exists()
    assert (kept / "text").read_text() == "x"


def test_what_is_not_there_is_removed(tmp_path: Path) -> None:
    remove_folder(tmp_path / "none")

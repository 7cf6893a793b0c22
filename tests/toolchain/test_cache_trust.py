"""The cache loads nothing that another user could have put there."""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from maxlab.toolchain import artefacts, cache, compile_units, forget, library, prebuilt, trust
from maxlab.toolchain.artefacts import Cache
from tests.toolchain.small import call, child, kernel, only, settings, warnings

OTHER = 54321  # a user who is neither root nor this process
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """An empty place for a cache, which is in force."""
    place = tmp_path / "cache"
    with settings(cache_dir=place):
        yield place


def filled(root: Path, value: int = 5) -> Path:
    """The artefact of ``kernel(value)`` below ``root``, which nobody remembers to have made."""
    with settings(cache_dir=root):
        [made] = compile_units([kernel(value)])
    artefacts._caches.pop(root)
    return made.path


def foreign(path: Path) -> None:
    os.chown(path, OTHER, OTHER)


def for_the_group(path: Path) -> None:
    path.chmod(path.stat().st_mode | stat.S_IWGRP)


def for_everybody(path: Path) -> None:
    path.chmod(path.stat().st_mode | stat.S_IWOTH)


WAYS = [pytest.param(foreign, marks=needs_root, id="foreign")] + [
    pytest.param(way, id=way.__name__) for way in (for_the_group, for_everybody)
]
PLACES = [".", "kernels", "kernels/*", "tmp"]


@pytest.mark.parametrize("open_up", WAYS)
@pytest.mark.parametrize("place", PLACES)
def test_a_folder_of_others_is_not_used(
    root: Path, place: str, open_up: Callable[[Path], None]
) -> None:
    filled(root)
    [folder] = [root] if place == "." else root.glob(place)
    open_up(folder)
    made, new = compile_units([kernel(5), kernel(6)], jobs=1)
    assert (call(made), call(new)) == (5, 6)
    assert made.hit is (place == "tmp"), "nothing is read out of tmp"
    assert not new.path.is_relative_to(root)
    assert len(warnings()) == 1, warnings()
    assert str(root) in warnings()[0]


@pytest.mark.parametrize("open_up", WAYS)
def test_a_file_of_others_is_built_anew(root: Path, open_up: Callable[[Path], None]) -> None:
    open_up(filled(root))
    [made] = compile_units([kernel(5)])
    assert (made.hit, made.why_miss) == (False, "corrupt entry rebuilt")
    assert call(made) == 5
    info = only(root).stat()
    assert info.st_uid == os.geteuid()
    assert not info.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    forget()
    assert compile_units([kernel(5)])[0].hit


def test_files_are_private_whatever_the_umask(root: Path) -> None:
    script = "os.umask(0); print(compile_units([kernel(5)])[0].path); print(runtime().path)"
    made = [Path(line) for line in child(script, MAXLAB_CACHE_DIR=str(root)).split()]
    for path in (*made, *(p for p in root.rglob("*") if p.is_dir()), root):
        assert not path.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH), path
    assert compile_units([kernel(5)])[0].hit


def test_folders_above_a_new_cache_are_private(tmp_path: Path) -> None:
    deep = tmp_path / "made" / "with" / "it"
    script = "os.umask(0); compile_units([kernel(5)]); assert not warnings(), warnings()"
    child(script, MAXLAB_CACHE_DIR=str(deep))
    for folder in (deep, deep.parent, deep.parent.parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700, folder


@pytest.mark.parametrize("open_up", WAYS)
def test_a_cache_in_a_folder_of_others_is_not_used(
    tmp_path: Path, open_up: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who can write the folder above can put another one in the place of the cache."""
    above = tmp_path / "above"
    above.mkdir()
    with settings(cache_dir=above / "cache"):
        filled(above / "cache")
        open_up(above)
        monkeypatch.setattr(trust, "_is_own_group", lambda group: False)
        [made] = compile_units([kernel(5)])
        assert not made.path.is_relative_to(above)
        assert len(warnings()) == 1
        assert f"{above}" in warnings()[0]


def test_a_cache_in_a_folder_of_ones_own_group_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many systems make a group for each user, and let it write what the user makes."""
    above = tmp_path / "above"
    above.mkdir()
    for_the_group(above)
    monkeypatch.setattr(trust, "_is_own_group", lambda group: group == above.stat().st_gid)
    with settings(cache_dir=above / "cache"):
        [made] = compile_units([kernel(5)])
        assert made.path.is_relative_to(above)
        assert not warnings()


def test_a_group_with_others_is_not_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    import grp
    import pwd

    me, number = pwd.getpwuid(os.geteuid()).pw_name, pwd.getpwuid(os.geteuid()).pw_gid
    members: list[str] = []
    monkeypatch.setattr(grp, "getgrgid", lambda group: grp.struct_group((me, "x", group, members)))
    assert trust._is_own_group(number)
    assert not trust._is_own_group(number + 1)
    members += [me, "bob"]
    assert not trust._is_own_group(number)


def test_a_cache_in_a_sticky_folder_is_used(tmp_path: Path) -> None:
    above = tmp_path / "like_tmp"
    above.mkdir()
    above.chmod(0o1777)
    with settings(cache_dir=above / "cache"):
        [made] = compile_units([kernel(5)])
        assert made.path.is_relative_to(above)
        assert not warnings()


def test_a_link_to_a_private_cache_is_used(tmp_path: Path) -> None:
    filled(tmp_path / "cache")
    (tmp_path / "link").symlink_to(tmp_path / "cache")
    with settings(cache_dir=tmp_path / "link"):
        assert compile_units([kernel(5)])[0].hit
        assert not warnings()


@needs_root
def test_a_link_to_a_cache_of_others_is_not_used(tmp_path: Path) -> None:
    filled(tmp_path / "cache")
    foreign(tmp_path / "cache")
    (tmp_path / "link").symlink_to(tmp_path / "cache")
    with settings(cache_dir=tmp_path / "link"):
        assert not compile_units([kernel(5)])[0].hit
        assert len(warnings()) == 1


@pytest.mark.parametrize("place", ["kernels", "kernels/*", "tmp"])
def test_a_link_in_the_place_of_a_folder_is_not_followed(
    root: Path, tmp_path: Path, place: str
) -> None:
    filled(root)
    [folder] = root.glob(place)
    away = tmp_path / "away"
    shutil.move(folder, away)
    folder.symlink_to(away)
    before = sorted(away.rglob("*"))
    made, new = compile_units([kernel(5), kernel(6)], jobs=1)
    assert (call(made), call(new)) == (5, 6)
    assert not new.path.is_relative_to(root)
    assert sorted(away.rglob("*")) == before
    assert len(warnings()) == 1


@needs_root
def test_the_runtime_library_is_checked_too(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prebuilt, "code_of", lambda *_: None)  # as where none was made
    first = library._find(library.RUNTIME)
    assert not first[1]
    foreign(only(root))
    again = library._find(library.RUNTIME)
    assert not again[1], "it is built anew"
    assert only(root).stat().st_uid == os.geteuid()


# ------------------------------------------------------------------ folders that builds leave


def test_only_old_build_folders_are_removed(root: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    (kept / "inside").mkdir(parents=True)
    Cache(root).build_dir().rmdir()
    old, new = root / "tmp" / "build-old", root / "tmp" / "build-new"
    mine, link = root / "tmp" / "mine", root / "tmp" / "build-link"
    for folder in (old, new, mine):
        (folder / "inside").mkdir(parents=True)
    (root / "tmp" / "build-file").touch()
    link.symlink_to(kept)
    long_ago = time.time() - 48 * 3600
    for path in (old, mine, link, kept, root / "tmp" / "build-file"):
        os.utime(path, (long_ago, long_ago), follow_symlinks=False)
    Cache(root).build_dir().rmdir()
    left = {path.name for path in (root / "tmp").iterdir()}
    assert left == {"build-new", "mine", "build-link", "build-file"}
    assert (kept / "inside").is_dir()
    assert (mine / "inside").is_dir()


def test_clear_follows_no_links(root: Path, tmp_path: Path) -> None:
    filled(root)
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "precious.so").write_bytes(b"x" * 1000)
    (root / "kernels" / "zz").symlink_to(kept)
    [folder] = [p for p in root.glob("kernels/*") if not p.is_symlink()]
    (folder / "other.so").symlink_to(kept / "precious.so")
    size = sum(p.stat().st_size for p in folder.glob("*.so") if not p.is_symlink())
    assert cache().usage() == (1, size)
    assert cache().clear() == size
    assert (kept / "precious.so").stat().st_size == 1000
    assert not (root / "kernels").exists()


def test_clear_follows_no_link_in_the_place_of_all(root: Path, tmp_path: Path) -> None:
    filled(root)
    kept = tmp_path / "kept"
    shutil.move(root / "kernels", kept)
    (root / "kernels").symlink_to(kept)
    cache().clear()
    assert list(kept.glob("*/*.so"))

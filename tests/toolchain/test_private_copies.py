"""Code that runs is a private copy: whatever becomes of the cache, it is as it was verified."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from maxlab.toolchain import artefacts, compile_units, forget
from tests.mounts import mounted
from tests.toolchain.small import call, child, kernel, only, settings, warnings

# Compiles and calls a kernel, lets sys.argv[1] happen to its file, and calls it again.
LATER = """
store = cache()
[made] = compile_units([kernel(7)])
if sys.argv[2] == "hit":
    forget()
    [made] = compile_units([kernel(7)])
    assert made.hit
assert call(made) == 7
[path] = store.root.glob("kernels/*/*.so")
exec(sys.argv[1])
assert call(made) == 7
print("alive")
"""
ACCIDENTS = {
    "truncated": "os.truncate(path, 0)",
    "rewritten": "path.open('r+b').write(bytes([0xCC]) * path.stat().st_size)",
    "removed": "path.unlink()",
}


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """An empty place for a cache, which is in force."""
    place = tmp_path / "cache"
    with settings(cache_dir=place):
        yield place


@pytest.mark.parametrize("accident", ACCIDENTS)
def test_a_running_kernel_outlives_its_file(root: Path, accident: str) -> None:
    for how in ("built", "hit"):
        out = child(LATER, ACCIDENTS[accident], how, MAXLAB_CACHE_DIR=str(root / how))
        assert out == "alive\n"


def test_every_library_is_itself(root: Path) -> None:
    """Descriptors are used again; a path that the loader has seen is another library by then."""
    made = compile_units([kernel(i) for i in range(12)], jobs=12)
    assert [call(k) for k in made] == list(range(12))
    assert len({k.address for k in made}) == 12


def test_a_swapped_file_is_found_and_rebuilt(root: Path) -> None:
    """The file of one kernel under the name of another is whole, and still the wrong one."""
    a, b = (compile_units([kernel(i, "k_same")])[0].path for i in (1, 2))
    b.unlink()
    b.parent.mkdir(exist_ok=True)
    shutil.copyfile(a, b)
    b.chmod(0o600)
    artefacts._caches.clear()
    forget()
    [again] = compile_units([kernel(2, "k_same")])
    assert again.why_miss == "corrupt entry rebuilt"
    assert call(again) == 2
    assert not artefacts.is_whole(shutil.copyfile(a, root / b.name))


def test_a_swap_is_found_also_by_a_cache_that_knows_the_file(root: Path) -> None:
    a, b = (compile_units([kernel(i, "k_same")])[0].path for i in (1, 2))
    b.unlink()
    os.link(a, b)
    forget()
    first, second = compile_units([kernel(1, "k_same")]), compile_units([kernel(2, "k_same")])
    assert (first[0].hit, call(first[0])) == (True, 1)
    assert (second[0].hit, call(second[0])) == (False, 2)


def test_kernels_of_one_library_know_all_of_its_names(root: Path) -> None:
    made = compile_units([kernel(i) for i in range(4)], jobs=1)
    assert all(artefacts.is_whole(k.path) for k in made)
    forget()
    artefacts._caches.clear()
    assert all(k.hit for k in compile_units([kernel(i) for i in range(4)]))


def test_one_library_is_mapped_once(root: Path) -> None:
    made = compile_units([kernel(i) for i in range(8)], jobs=1)
    first = [k.address for k in made]
    for _ in range(3):
        forget()
        artefacts._caches.clear()
        assert [k.address for k in compile_units([kernel(i) for i in range(8)])] == first


def test_a_kernel_has_a_name_in_the_map_of_memory(root: Path) -> None:
    [made] = compile_units([kernel(7, "k_with_a_name")])
    with open("/proc/self/maps", encoding="utf-8") as maps:
        places = [line.split() for line in maps]
    [place] = [
        row
        for row in places
        if int(row[0].split("-")[0], 16) <= made.address < int(row[0].split("-")[1], 16)
    ]
    assert "k_with_a_name" in " ".join(place[5:])


@pytest.fixture
def noexec() -> Iterator[Path]:
    """A folder on a file system that code may not be run from."""
    with mounted("noexec,size=8m") as folder:
        yield folder


def test_a_cache_where_nothing_may_run_serves(noexec: Path) -> None:
    with settings(cache_dir=noexec / "cache"):
        [made] = compile_units([kernel(7)])
        assert call(made) == 7
        assert made.path.is_relative_to(noexec)
        assert not warnings()
    script = "[made] = compile_units([kernel(7)]); print(made.hit, call(made), warnings())"
    assert child(script, MAXLAB_CACHE_DIR=str(noexec / "cache")) == "True 7 []\n"


@pytest.mark.parametrize("lost", ["memfd", "proc"])
def test_a_system_without_files_in_memory(root: Path, lost: str) -> None:
    """A copy in a private folder serves too, and is gone when the process has ended."""
    script = """
import errno, tempfile
from maxlab.toolchain import loader
def refuse(*args):
    raise OSError(errno.EPERM, "refused")
if sys.argv[1] == "memfd":
    os.memfd_create = refuse
else:
    loader._DESCRIPTORS = "/proc/not/there/"
made = compile_units([kernel(i) for i in range(3)], jobs=3)
for path in cache().root.glob("kernels/*/*.so"):
    os.truncate(path, 0)
assert [call(k) for k in made] == [0, 1, 2]
"""
    temporary = root.parent / "temporary"
    temporary.mkdir()
    child(script, lost, MAXLAB_CACHE_DIR=str(root), TMPDIR=str(temporary))
    assert not list(temporary.iterdir())


def test_debuggers_find_the_symbols_of_kernels_whose_source_is_kept(root: Path) -> None:
    """The mapped file has a name that a debugger can open while the process lasts."""
    script = """
[made] = compile_units([kernel(7)])
[path] = {row.split()[5] for row in open("/proc/self/maps") if "k_small_7" in row}
assert Path(path).read_bytes()[:4] == b"\\x7fELF"
assert not Path(path).is_relative_to(cache().root)
print(path)
"""
    env = {"MAXLAB_CACHE_DIR": str(root), "MAXLAB_KEEP_SOURCE": "1"}
    path = Path(child(script, **env).strip())
    assert not path.exists()
    assert only(root).with_suffix(".c").exists()

"""The compiler of the package ``ziglang``: how it is found, prepared once, and what is said."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from maxlab import progress
from maxlab.errors import ToolchainError
from maxlab.toolchain import compile_units, compiler, doctor_rows, find_compiler, zig
from maxlab.toolchain.artefacts import cache
from tests.toolchain.small import call, kernel, settings

# A program that does with gcc what zig does, says where its caches are, and counts its runs.
ZIG = """#!/bin/sh
[ "$1" = version ] && echo {version} && exit 0
shift
[ "$1" = --version ] && echo "clang version 22.1.8" && exit 0
echo "$ZIG_GLOBAL_CACHE_DIR $ZIG_LOCAL_CACHE_DIR" >> "{log}"
case "$*" in *trial.c*) echo trial >> "{log}"; {trial} ;; esac
for one in "$@"; do
  case "$one" in -Wno-pass-failed|-fno-sanitize=undefined) ;; *) set -- "$@" "$one" ;; esac
  shift
done
exec "{gcc}" "$@"
"""


class Package:
    """A package ``ziglang`` on the path of Python, and no other compiler."""

    def __init__(self, folder: Path, gcc: str) -> None:
        self.folder = folder
        self.gcc = gcc
        self.log = folder / "log"
        self.program = folder / "ziglang" / "zig"
        self.program.parent.mkdir()
        (self.program.parent / "__init__.py").touch()
        self.write()

    def write(self, version: str = "0.17.1", trial: str = ":") -> None:
        text = ZIG.format(version=version, log=self.log, gcc=self.gcc, trial=trial)
        self.program.write_text(text)
        self.program.chmod(0o755)

    @property
    def lines(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Package]:
    gcc = find_compiler().path
    made = Package(tmp_path, gcc)
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("sh", "as", "ld"):  # what the script and gcc call, and no compiler
        place = next(Path(p) / name for p in os.defpath.split(":") if (Path(p) / name).exists())
        (tools / name).symlink_to(place)
    monkeypatch.setenv("PATH", str(tools))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delenv("ZIG_GLOBAL_CACHE_DIR", raising=False)
    monkeypatch.delenv("ZIG_LOCAL_CACHE_DIR", raising=False)
    monkeypatch.setattr(zig, "_ready", set())
    compiler._find.cache_clear()
    with settings(cc=None, cache_dir=tmp_path / "cache"):
        yield made
    compiler._find.cache_clear()
    sys.modules.pop("ziglang", None)


def test_it_is_found_where_there_is_no_other(package: Package) -> None:
    found = find_compiler()
    assert found.command == (str(package.program), "cc")
    assert found.family == "zig"
    assert found.version == "zig 0.17.1, clang version 22.1.8"
    assert found.is_packaged
    [made] = compile_units([kernel(7)])
    assert call(made) == 7


def test_its_name_is_enough(package: Package, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{Path(package.gcc).parent}:{os.environ['PATH']}")
    with settings(cc="zig"):
        assert find_compiler().command == (str(package.program), "cc")


def test_gcc_comes_first(package: Package, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{Path(package.gcc).parent}:{os.environ['PATH']}")
    assert find_compiler().family == "gcc"


def test_it_is_prepared_once_and_its_caches_are_ours(package: Package) -> None:
    compile_units([kernel(1)])
    compile_units([kernel(2)])
    zig._ready.clear()  # as in another process
    compile_units([kernel(3)])
    assert package.lines.count("trial") == 1
    root = cache().root
    places = [line.split() for line in package.lines if line != "trial"]
    assert len(places) == 4
    assert {one for one, _ in places} == {str(root / "zig")}
    assert (root / "zig").stat().st_mode & 0o777 == 0o700
    builds = {Path(other) for _, other in places}
    assert all(place.is_relative_to(root / "tmp") for place in builds)
    assert not list((root / "tmp").iterdir()), "what it made of a kernel goes with the build"


def test_another_version_is_prepared_anew_and_is_another_key(package: Package) -> None:
    [first] = compile_units([kernel(1)])
    package.write("0.18.0")
    with settings(cache_dir=cache().root):
        [second] = compile_units([kernel(1)])
    assert package.lines.count("trial") == 2
    assert second.why_miss == "compiler changed"
    assert first.path != second.path


def test_the_same_version_elsewhere_is_the_same_key(package: Package, tmp_path: Path) -> None:
    digest = find_compiler().digest
    other = tmp_path / "other"
    package.program.parent.rename(other)
    (tmp_path / "below").mkdir()
    other.rename(tmp_path / "below" / "ziglang")
    with settings(cc=f"{tmp_path / 'below' / 'ziglang' / 'zig'} cc"):
        assert find_compiler().digest == digest


def test_the_preparation_is_told(package: Package, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "DELAY_S", 0.0)
    package.write(trial="/bin/sleep 1")
    told: list[str] = []
    found = threading.Event()

    def listener(work: progress.Work) -> None:
        told.append(work.text)
        found.set()

    progress.listen(listener)
    try:
        compile_units([kernel(1)])
        assert found.wait(10)
    finally:
        progress.unlisten(listener)
    assert any(zig.PHASE in text for text in told), told


def test_threads_prepare_it_once(package: Package) -> None:
    package.write(trial="/bin/sleep 0.3")
    threads = [threading.Thread(target=compile_units, args=([kernel(n)],)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert package.lines.count("trial") == 1


def test_a_preparation_that_fails(package: Package) -> None:
    package.write(trial="echo no room >&2; exit 3")
    for _ in range(2):  # it is tried again
        with pytest.raises(ToolchainError, match="cannot build a library") as caught:
            compile_units([kernel(1)])
        assert caught.value.code == "ML508"
        assert "no room" in str(caught.value)
    assert package.lines.count("trial") == 2


def test_a_package_without_its_program(package: Package) -> None:
    package.program.unlink()
    with pytest.raises(ToolchainError, match="no program that can be run") as caught:
        find_compiler()
    assert caught.value.code == "ML508"
    row = doctor_rows()[0]
    assert not row.found
    assert "--force-reinstall" in row.fix


def test_a_program_that_may_not_be_run(package: Package) -> None:
    package.program.chmod(0o644)
    if os.access(package.program, os.X_OK):
        pytest.skip("root may run it")
    with pytest.raises(ToolchainError, match="ML508"):
        find_compiler()


def test_without_any_compiler_both_ways_are_named(package: Package) -> None:
    package.program.unlink()
    (package.program.parent / "__init__.py").unlink()
    package.program.parent.rmdir()
    with pytest.raises(ToolchainError) as caught:
        find_compiler()
    assert caught.value.code == "ML501"
    assert caught.value.fix is not None
    assert "apt-get install gcc" in caught.value.fix
    assert "pip install 'maxlab[zig]'" in caught.value.fix


def test_the_doctor_says_which_it_is(package: Package) -> None:
    rows = {row.name: row for row in doctor_rows()}
    assert rows["C compiler"].found
    assert "of the package ziglang" in rows["C compiler"].detail
    assert "zig 0.17.1" in rows["C compiler"].detail
    assert rows["compiling"].found, rows["compiling"]
    assert rows["C headers"].found, rows["C headers"]

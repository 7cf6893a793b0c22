"""Notes of what compilers say of themselves: when they are asked, and when a note will do."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from maxlab.toolchain import compiler, find_compiler, versions
from maxlab.toolchain.artefacts import VersionKey, cache
from maxlab.toolchain.seals import seal
from tests.toolchain.small import settings

Asked = list[tuple[str, ...]]


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Asked]:
    """The commands that were run to ask for a version, with an empty cache."""
    found: Asked = []
    run = compiler.run

    def noting(command: tuple[str, ...], **how: object) -> compiler.Finished:
        found.append(tuple(command))
        return run(command, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(compiler, "run", noting)
    with settings(cache_dir=tmp_path / "cache"):
        yield found


def as_new_process() -> compiler.Compiler:
    """The compiler, found with nothing in memory."""
    compiler._find.cache_clear()
    compiler._marks.clear()
    cache()._known.clear()
    return find_compiler()


def real_gcc() -> Path:
    """A gcc whose driver has its version in itself."""
    place = shutil.which("gcc")
    if place is None or Path(place).read_bytes()[:4] != b"\x7fELF":
        pytest.skip("needs a gcc that is a program")
    return Path(os.path.realpath(place))


def copied(to: Path) -> Path:
    """A copy of gcc at ``to``, as old as a program that was installed."""
    shutil.copy2(real_gcc(), to)
    return to


def old(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let files that were just written count as old: times of change cannot be set."""
    monkeypatch.setattr(versions, "YOUNG_NS", 0)


def test_a_program_is_asked_once(asked: Asked) -> None:
    real_gcc()
    with settings(cc="gcc", cache_dir=cache().root):
        first = as_new_process()
        assert len(asked) == 1
        assert [as_new_process(), as_new_process()] == [first, first]
        assert len(asked) == 1
        cache().clear()
        assert as_new_process() == first
    assert len(asked) == 2


def another_time(program: Path) -> None:
    os.utime(program, ns=(1, 1))


def another_file(program: Path) -> None:
    copied(program.with_name("new")).replace(program)


def longer(program: Path) -> None:
    with program.open("ab") as file:
        file.write(b"\0")


@pytest.mark.parametrize("change", [another_time, another_file, longer])
def test_a_program_that_was_changed_is_asked_again(
    change: Callable[[Path], None],
    tmp_path: Path,
    asked: Asked,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    old(monkeypatch)
    program = copied(tmp_path / "x86_64-linux-gnu-gcc-12")
    with settings(cc=str(program), cache_dir=cache().root):
        first = as_new_process()
        assert as_new_process() == first
        assert len(asked) == 1
        change(program)
        assert as_new_process() == first
        assert len(asked) == 2


def script(folder: Path) -> str:
    made = folder / "gcc"
    made.write_text("#!/bin/sh\necho gcc 1.2.3\n")
    made.chmod(0o755)
    return str(made)


def with_arguments(folder: Path) -> str:
    return f"{copied(folder / 'gcc')} -m64"


def link_to_a_wrapper(folder: Path) -> str:
    """As ccache is installed: its links have the names of compilers."""
    copied(folder / "ccache")
    (folder / "gcc").symlink_to(folder / "ccache")
    return str(folder / "gcc")


@pytest.mark.parametrize("made", [script, with_arguments, link_to_a_wrapper])
def test_what_may_call_another_program_is_always_asked(
    made: Callable[[Path], str], tmp_path: Path, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    old(monkeypatch)
    with settings(cc=made(tmp_path), cache_dir=cache().root):
        first = as_new_process()
        assert as_new_process() == first
    assert len(asked) == 2


def test_no_note_is_made_of_words_that_the_program_does_not_have(
    tmp_path: Path, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    old(monkeypatch)
    program = str(copied(tmp_path / "gcc"))
    key = versions.key_of([program], program)
    assert key is not None
    versions.keep(key, program, versions.Told("gcc (Another 7.7.7) 7.7.7", "gcc"))
    assert versions.recall(key) is None
    versions.keep(key, program, versions.Told("gcc", "gcc"))  # no word to look for
    assert versions.recall(key) is None


def test_a_program_that_was_just_written_gets_no_note(tmp_path: Path, asked: Asked) -> None:
    program = copied(tmp_path / "gcc")
    assert versions.key_of([str(program)], str(program)) is None
    with settings(cc=str(program), cache_dir=cache().root):
        assert as_new_process() == as_new_process()
    assert len(asked) == 2


NOTES: dict[str, bytes] = {
    "empty": b"",
    "no version": b"gcc\n",
    "no family": b"gcc (Other) 1.0.0",
    "another family": b"zig\nzig 1.0.0",
    "two lines": b"gcc\ngcc 1.0.0\nmore",
    "escapes": b"gcc\ngcc \x1b[31m1.0.0",
    "no text": b"gcc\n\xff\xfe",
    "long": b"gcc\n" + b"1" * 2000,
}


@pytest.mark.parametrize("name", [*NOTES, "unsealed", "of another name"])
def test_a_note_that_is_none_is_not_believed(name: str, asked: Asked) -> None:
    real_gcc()
    with settings(cc="gcc", cache_dir=cache().root):
        first = as_new_process()
        (key,) = (
            VersionKey(place.name.partition(".")[0]) for place in cache().root.rglob("*.version")
        )
        place = cache().path(cache().root, key)
        place.unlink()
        place.write_bytes(NOTES.get(name, b"gcc\ngcc (Other) 1.0.0"))
        place.chmod(0o600)
        if name != "unsealed":
            seal(place, ["0.version" if name == "of another name" else key.filename()])
        assert as_new_process() == first
    assert len(asked) == 2


def test_a_cache_that_cannot_be_written_does_no_harm(
    tmp_path: Path, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_gcc()

    def full(*given: object) -> object:
        raise OSError(28, "No space left on device")

    with settings(cc="gcc", cache_dir=tmp_path / "other"):
        monkeypatch.setattr(type(cache()), "build", full)
        assert as_new_process() == as_new_process()
    assert len(asked) == 2


@pytest.mark.parametrize("path", ["", "{folder}", "{folder}/no:{folder}", ":{folder}", "/no"])
@pytest.mark.parametrize(
    "name", ["cc", "no", "folder", "text", "./cc", "{folder}/cc", "{folder}/no", "folder/", "a\0b"]
)
def test_programs_are_found_as_python_finds_them(
    name: str, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "text").write_text("no program")
    (tmp_path / "cc").write_text("#!/bin/sh\n")
    (tmp_path / "cc").chmod(0o755)
    wanted, folders = name.format(folder=tmp_path), path.format(folder=tmp_path)
    assert compiler._which(wanted, folders) == shutil.which(wanted, path=folders)

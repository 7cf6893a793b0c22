"""Files are read when they are regular ones, and replaced whole or not at all."""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import signal
import socket
import stat
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from maxlab import files
from maxlab.errors import FileError, MaxlabError, MissingFileError

ROOT = Path(__file__).resolve().parents[1]
OLD = b"what was there before"


def child(
    program: str, *arguments: object, timeout: float = 60
) -> subprocess.CompletedProcess[str]:
    """``program`` in a process of its own, which knows `files` and ends with 0."""
    head = "import os, resource, signal, sys\nfrom pathlib import Path\nfrom maxlab import files\n"
    return subprocess.run(
        [sys.executable, "-c", head + textwrap.dedent(program), *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


@contextmanager
def at_most(nbytes: int) -> Iterator[None]:
    """A disk on which no file grows beyond ``nbytes``."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextmanager
def small_disk(place: Path) -> Iterator[Path]:
    """A file system of 64 KiB at ``place``, until the block ends."""
    place.mkdir()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"tmpfs", os.fsencode(place), b"tmpfs", 0, b"size=64k"):
        pytest.skip(f"no file system can be mounted here: {os.strerror(ctypes.get_errno())}")
    try:
        yield place
    finally:
        libc.umount2(os.fsencode(place), 2)


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """A file with `OLD` in it."""
    target = tmp_path / "kept.txt"
    target.write_bytes(OLD)
    return target


def alone(target: Path) -> bool:
    """Whether nothing stands beside ``target``."""
    return [path.name for path in target.parent.iterdir()] == [target.name]


# ---------------------------------------------------------------- reading


def test_what_was_written_is_read(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    assert files.write_text(target, "grün\n") == target
    assert files.read_text(target) == "grün\n"
    assert files.read_bytes(str(target)) == "grün\n".encode()
    assert files.read_bytes(os.fsencode(target)) == "grün\n".encode()  # type: ignore[arg-type]
    with files.open_regular(target) as file:
        assert file.read(2) == b"gr"


def test_a_link_is_read_through(kept: Path) -> None:
    link = kept.with_name("link")
    link.symlink_to(kept)
    assert files.read_bytes(link) == OLD


@pytest.mark.parametrize("most", [0, 20, 21, 22, None])
def test_at_most_so_many_bytes_are_read(kept: Path, most: int | None) -> None:
    if most is None or most >= len(OLD):
        assert files.read_bytes(kept, most=most) == OLD
        return
    with pytest.raises(FileError, match=r"ML004.*\n.*fix") as caught:
        files.read_bytes(kept, "the note", most)
    assert f"the note {kept} is too large: 21 bytes, at most {most}" in str(caught.value)


def test_a_limit_costs_no_memory(kept: Path) -> None:
    done = child(
        """
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
        sys.stdout.write(files.read_text(sys.argv[1], most=1 << 40))
        """,
        kept,
    )
    assert (done.stdout, done.stderr) == (OLD.decode(), "")


def test_a_file_without_a_size_is_read_and_limited() -> None:
    """Files of /proc say that they have 0 bytes."""
    whole = files.read_bytes("/proc/self/status", most=1 << 20)
    assert whole.startswith(b"Name:")
    with pytest.raises(FileError, match="ML004"):
        files.read_bytes("/proc/self/status", most=10)


def fifo(place: Path) -> Path:
    os.mkfifo(place)
    return place


def folder(place: Path) -> Path:
    place.mkdir()
    return place


def listening(place: Path) -> Path:
    made = socket.socket(socket.AF_UNIX)
    here = os.getcwd()
    os.chdir(place.parent)  # the path of a socket may have 108 bytes
    try:
        made.bind(place.name)
    finally:
        os.chdir(here)
    made.close()
    return place


def link_to(target: str) -> Callable[[Path], Path]:
    def made(place: Path) -> Path:
        place.symlink_to(target)
        return place

    return made


IRREGULAR: dict[str, tuple[Callable[[Path], Path], str]] = {
    "pipe": (fifo, "it is a pipe"),
    "folder": (folder, "it is a folder"),
    "socket": (listening, "it is a socket"),
    "endless device": (link_to("/dev/zero"), "it is a device"),
    "null device": (link_to("/dev/null"), "it is a device"),
}


@pytest.mark.parametrize("kind", IRREGULAR)
def test_what_is_no_regular_file_is_neither_read_nor_written(kind: str, tmp_path: Path) -> None:
    make, words = IRREGULAR[kind]
    place = make(tmp_path / "odd")
    mode = place.lstat().st_mode
    with pytest.raises(FileError, match=rf"cannot be read: {words} \[ML001\]"):
        files.read_bytes(place)
    with pytest.raises(FileError, match=rf"cannot be written: {words} \[ML001\]"):
        files.write_bytes(place, b"new")
    assert place.lstat().st_mode == mode
    assert alone(place)


def test_what_is_not_there_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(MissingFileError, match="ML002") as caught:
        files.read_text(tmp_path / "no.txt", "the note")
    assert isinstance(caught.value, FileNotFoundError)
    assert caught.value.errno == errno.ENOENT
    assert str(caught.value) == (
        f"the note {tmp_path / 'no.txt'} cannot be read: no such file or directory [ML002]\n"
        "  fix: check the path"
    )


STRANGE = {
    "a loop of links": "loop",
    "a NUL": "a\0b",
    "half of a surrogate pair": "\ud800",
    "an empty name": "",
    "a long name": "n" * 300,
    "below a file": "kept.txt/below",
    "a file with a slash": "kept.txt/",
    "a folder that is not there": "none/there",
    "a new name with a slash": "none/",
}


@pytest.mark.parametrize("what", STRANGE)
def test_paths_that_lead_nowhere(what: str, kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(kept.parent)
    if what == "a loop of links":
        Path("loop").symlink_to("loop")
    before = sorted(os.listdir())
    with pytest.raises(FileError, match="ML002") as caught:
        files.read_bytes(STRANGE[what])
    str(caught.value).encode()  # can be printed
    assert "\0" not in str(caught.value)
    with pytest.raises(FileError, match="ML003") as caught:
        files.write_bytes(STRANGE[what], b"new")
    str(caught.value).encode()
    assert sorted(os.listdir()) == before
    assert kept.read_bytes() == OLD


@pytest.mark.parametrize("given", [None, 3, 1.5, [], True], ids=repr)
def test_what_is_no_path(given: object) -> None:
    for use in (
        lambda: files.read_bytes(given),  # type: ignore[arg-type]
        lambda: files.write_bytes(given, b""),  # type: ignore[arg-type]
        lambda: files.as_path(given),  # type: ignore[arg-type]
    ):
        with pytest.raises(TypeError, match="ML005") as caught:
            use()
        assert isinstance(caught.value, MaxlabError)


def test_text_is_utf_8(tmp_path: Path) -> None:
    target = tmp_path / "latin.txt"
    target.write_bytes(b"gr\xfcn")
    with pytest.raises(FileError, match="not UTF-8 text, from byte 2 on"):
        files.read_text(target)
    with pytest.raises(FileError, match="character 3 of its text is half of a surrogate pair"):
        files.write_text(target, "grü\udcfc")
    assert target.read_bytes() == b"gr\xfcn"


def test_a_pipe_that_takes_the_place_is_not_waited_for(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the question and opening, the file becomes a pipe."""
    open_ = os.open

    def late(path: str, flags: int, *more: int) -> int:
        kept.unlink()
        os.mkfifo(kept)
        return open_(path, flags, *more)

    monkeypatch.setattr(os, "open", late)
    signal.alarm(20)
    try:
        with pytest.raises(FileError, match="it is a pipe"):
            files.open_regular(kept)
    finally:
        signal.alarm(0)


# ---------------------------------------------------------------- writing


def test_the_target_changes_when_the_block_ends(kept: Path) -> None:
    with files.replacing(kept) as file:
        file.write(b"new")
        file.flush()
        assert kept.read_bytes() == OLD
    assert kept.read_bytes() == b"new"
    assert alone(kept)


def failing(target: Path, error: Exception) -> None:
    """Write to ``target``, and fail before the end."""
    with files.replacing(target) as file:
        file.write(b"new")
        raise error


def test_the_target_stays_when_the_block_fails(kept: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        failing(kept, ZeroDivisionError())
    assert kept.read_bytes() == OLD
    assert alone(kept)


def test_errors_of_the_block_stay_what_they_are(kept: Path) -> None:
    """Even those that a full disk could have raised, when it is another disk that is full."""
    mine = OSError(errno.ENOSPC, "another disk")
    with pytest.raises(OSError, match="another disk") as caught:
        failing(kept, mine)
    assert caught.value is mine
    assert alone(kept)


def test_writers_that_seek_can_write(kept: Path) -> None:
    with files.replacing(kept) as file:
        file.write(b"0123456789")
        file.seek(2)
        file.write(b"--")
        file.seek(0)
        assert file.read() == b"01--456789"
        file.truncate(6)
    assert kept.read_bytes() == b"01--45"


def test_a_link_stays_a_link(kept: Path) -> None:
    link = kept.with_name("link")
    link.symlink_to(kept.name)
    files.write_bytes(link, b"new")
    assert link.is_symlink()
    assert kept.read_bytes() == b"new"
    new = kept.with_name("new")
    dangling = kept.with_name("dangling")
    dangling.symlink_to(new.name)
    files.write_bytes(dangling, b"made")
    assert dangling.is_symlink()
    assert new.read_bytes() == b"made"


def test_the_folder_may_be_another_one_by_the_end(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(kept.parent)
    with files.replacing(kept.name) as file:
        file.write(b"new")
        os.chdir("/")
    assert kept.read_bytes() == b"new"


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002], ids=oct)
def test_permissions(umask: int, kept: Path) -> None:
    before = os.umask(umask)
    try:
        new = files.write_bytes(kept.with_name("new"), b"new")
        assert stat.S_IMODE(new.stat().st_mode) == 0o666 & ~umask
        for mode in (0o600, 0o640, 0o755):
            kept.chmod(mode)
            with files.replacing(kept) as file:
                assert not stat.S_IMODE(os.fstat(file.fileno()).st_mode) & ~mode
                file.write(b"new")
            assert stat.S_IMODE(kept.stat().st_mode) == mode
    finally:
        os.umask(before)


def test_the_umask_of_the_process_is_left_alone(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "umask", lambda mask: pytest.fail("it is set for all threads"))
    files.write_bytes(kept, b"new")
    files.write_bytes(kept.with_name("new"), b"new")


def test_somebody_elses_link_is_not_followed(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link under the very name of the new file: names cannot be guessed, and if they could…"""
    monkeypatch.setattr(os, "urandom", bytes)
    victim = kept.with_name("victim")
    victim.write_bytes(b"precious")
    trap = kept.with_name(f".maxlab-{bytes(8).hex()}.part")
    trap.symlink_to(victim)
    with pytest.raises(FileError, match="ML003"):
        files.write_bytes(kept, b"new")
    assert (victim.read_bytes(), kept.read_bytes()) == (b"precious", OLD)
    assert trap.is_symlink()


def test_threads_that_write_one_file_leave_one_of_their_texts(kept: Path) -> None:
    texts = [bytes([n]) * 100_000 for n in range(8)]
    threads = [threading.Thread(target=files.write_bytes, args=(kept, text)) for text in texts]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert kept.read_bytes() in (OLD, *texts)
    assert kept.read_bytes() in texts
    assert alone(kept)


# ---------------------------------------------------------------- what goes wrong meanwhile


def test_a_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        target = disk / "kept.txt"
        target.write_bytes(OLD)
        with pytest.raises(FileError, match=r"no space left on device \[ML003\]") as caught:
            files.write_bytes(target, bytes(1 << 20), "the note")
        assert caught.value.errno == errno.ENOSPC
        assert caught.value.fix == "free some space, or write to another disk"
        assert target.read_bytes() == OLD
        assert alone(target)
        files.write_bytes(target, bytes(1 << 12))  # the space of the failed one is free again
        assert target.stat().st_size == 1 << 12


def test_a_disk_that_fills_while_the_block_fails(kept: Path) -> None:
    """What failed first is told: closing the file fails too, since it has bytes to write."""
    with at_most(2), pytest.raises(ZeroDivisionError):
        failing(kept, ZeroDivisionError())
    assert kept.read_bytes() == OLD
    assert alone(kept)


@pytest.mark.parametrize("nbytes", [100, 10_000_000])
def test_a_file_that_may_not_grow_leaves_the_old_one(nbytes: int, kept: Path) -> None:
    with at_most(50), pytest.raises(FileError, match=r"file too large \[ML003\]"):
        files.write_bytes(kept, bytes(nbytes))
    assert kept.read_bytes() == OLD
    assert alone(kept)


def test_ctrl_c_leaves_the_old_file(kept: Path) -> None:
    done = child(
        """
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            with files.replacing(sys.argv[1]) as file:
                file.write(bytes(1 << 20))
                os.kill(os.getpid(), signal.SIGINT)
                file.write(bytes(1 << 20))
        except KeyboardInterrupt:
            print("stopped")
        """,
        kept,
    )
    assert (done.stdout, done.stderr) == ("stopped\n", "")
    assert kept.read_bytes() == OLD
    assert alone(kept)


def test_a_process_that_is_killed_leaves_the_old_file(kept: Path) -> None:
    done = child(
        """
        with files.replacing(sys.argv[1]) as file:
            file.write(bytes(1 << 20))
            file.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        """,
        kept,
    )
    assert done.returncode == -signal.SIGKILL
    assert kept.read_bytes() == OLD
    (left,) = (path for path in kept.parent.iterdir() if path != kept)
    assert left.name.startswith(".maxlab-")
    files.write_bytes(kept, b"new")  # what is left is in nobody's way
    assert kept.read_bytes() == b"new"


def as_nobody(program: str, place: Path) -> str:
    """What ``program`` prints in a process without the rights of root, in the folder ``place``."""
    if os.geteuid() == 0:
        drop = "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        for path in (place, *place.parents):
            if path.stat().st_uid == 0 and not path.stat().st_mode & 0o001:
                path.chmod(path.stat().st_mode | 0o011)  # so that it is reached at all
    else:
        drop = ""
    done = child(drop + f"os.chdir({str(place)!r})\n" + textwrap.dedent(program))
    assert done.stderr == ""
    return done.stdout


_TRY = """
try:
    files.write_bytes("kept.txt", b"new")
except files.FileError as error:
    print(error)
"""


def test_a_folder_that_may_not_be_written(kept: Path) -> None:
    """There is no place for the new file, though the old one may be written."""
    kept.chmod(0o666)
    kept.parent.chmod(0o555)
    try:
        said = as_nobody(_TRY, kept.parent)
    finally:
        kept.parent.chmod(0o755)
    assert "kept.txt cannot be written: permission denied [ML003]" in said
    assert "in a folder that exists and that you may write" in said
    assert kept.read_bytes() == OLD


def test_a_file_that_may_not_be_written(kept: Path) -> None:
    """A rename would pass over its permissions."""
    kept.chmod(0o444)
    kept.parent.chmod(0o777)
    said = as_nobody(_TRY, kept.parent)
    assert "kept.txt cannot be written: permission denied [ML003]" in said
    assert kept.read_bytes() == OLD
    assert alone(kept)


def test_the_name_beside_a_file() -> None:
    assert files.beside("a/b.py", ".npz") == Path("a/b.npz")
    assert files.beside("a/b", ".npz") == Path("a/b.npz")
    assert files.beside("a/b.npz", ".npz") == Path("a/b.npz.npz")
    for path in ("", ".", "..", "/", "a/.."):
        with pytest.raises(FileError, match="ML003"):
            files.beside(path, ".npz")

"""Where recordings lie: folders and files that are not maxlab's stay as they are."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from maxlab.diagnostics import Monitor
from maxlab.diagnostics.monitor import places
from maxlab.diagnostics.monitor.places import base_folder, me, remove_dead, session_owner
from maxlab.errors import DeviceError, MaxlabError
from tests.diagnostics.children import each, limited
from tests.diagnostics.monitoring import base as base

DAYS = 86_400


def mode(path: Path) -> int:
    """The permissions of ``path``."""
    return stat.S_IMODE(path.stat().st_mode)


def tree(folder: Path) -> dict[str, str]:
    """Everything below ``folder``, by its path: what a file holds, where a link leads."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink():
            found[str(path)] = f"-> {os.readlink(path)}"
        else:
            found[str(path)] = "a folder" if path.is_dir() else path.read_text()
    return found


def session(base: Path, pid: int, start: int = 1) -> Path:
    """The folder of a session of this machine whose owner is gone, as maxlab leaves it."""
    folder = places.session_folder(places.Identity(pid, start), base)
    places.make_session(folder)
    (folder / "samples-000001.mlrec").write_text("x")
    (folder / "marks-12-34-000001.mlrec").write_text("x")
    for name in ("lock", "starting", "monitor.log", "monitor.json"):
        (folder / name).touch()
    return folder


def aged(folder: Path, days: float) -> Path:
    """``folder``, and all in it, unchanged for so many days."""
    then = time.time() - days * DAYS
    for path in (*folder.iterdir(), folder):
        os.utime(path, (then, then), follow_symlinks=False)
    return folder


def of_another_boot(folder: Path) -> Path:
    """``folder`` as if another machine, or another start of this one, had made it."""
    there = folder.with_name("0" * 12 + folder.name[12:])
    folder.rename(there)
    marker = there / places.MARKER
    facts = json.loads(marker.read_text())
    marker.write_text(json.dumps({**facts, "folder": there.name, "boot": "0" * 32}))
    return there


# ---------------------------------------------------------------- what is not maxlab's


def test_folders_of_the_user_keep_their_files(base: Path) -> None:
    base.mkdir(mode=0o755)
    for name in ("run-2024-01", "thesis-1-2", "a-3-4", "b-5-6", "c-7-8"):
        (base / name).mkdir()
        (base / name / "chapter.txt").write_text("years of work")
        (base / name / "samples-000001.mlrec").write_text("a recording that was put here")
    before = tree(base)
    with Monitor.start(period_s=0.05) as monitor:
        mine = monitor.folder
    assert {path: was for path, was in tree(base).items() if str(mine) not in path} == before


def test_a_folder_within_a_folder_is_no_obstacle(base: Path) -> None:
    for number in range(5):
        (base / f"run-{number}-1" / "deeper").mkdir(parents=True)
    Monitor.start(period_s=0.05).stop()
    assert len(list(base.glob("run-*/deeper"))) == 5


def test_links_are_not_followed(base: Path, tmp_path: Path) -> None:
    """A link in place of a session's folder, a marker that is a link, and links within one."""
    base.mkdir()
    real = session(tmp_path, 900_000_001)
    (base / real.name).symlink_to(real)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "samples-000001.mlrec").write_text("mine")
    forged = base / places.session_folder(places.Identity(900_000_002, 1), base).name
    forged.mkdir()
    (forged / "samples-000001.mlrec").write_text("mine")
    (forged / places.MARKER).symlink_to(real / places.MARKER)
    linked = session(base, 900_000_003)
    (linked / "samples-000002.mlrec").symlink_to(elsewhere / "samples-000001.mlrec")
    before = tree(tmp_path)
    remove_dead(base, keep=0)
    assert tree(tmp_path) == before


@pytest.mark.parametrize(
    "name", ["notes.txt", "samples-1.mlrec.bak", "deeper", "samples-²²²²²².mlrec"]
)
def test_a_session_with_something_unknown_in_it_stays_whole(base: Path, name: str) -> None:
    base.mkdir()
    folder = session(base, 900_000_001)
    if name == "deeper":
        (folder / name).mkdir()
    else:
        (folder / name).write_text("of the user")
    before = tree(base)
    remove_dead(base, keep=0)
    assert tree(base) == before


def test_a_copied_marker_makes_no_other_folder_a_session(base: Path) -> None:
    base.mkdir()
    marker = session(base, 900_000_001) / places.MARKER
    other = base / places.session_folder(places.Identity(900_000_002, 1), base).name
    other.mkdir()
    (other / places.MARKER).write_bytes(marker.read_bytes())
    (other / "samples-000001.mlrec").write_text("mine")
    remove_dead(base, keep=0)
    assert (other / "samples-000001.mlrec").exists()
    assert not marker.exists()


@pytest.mark.parametrize(
    "content", ["", "x", "[]", "{}", "1" * 5000, "[" * 100_000, '{"format":"maxlab.session"}']
)
def test_a_marker_that_is_none_marks_nothing(base: Path, content: str) -> None:
    base.mkdir()
    folder = session(base, 900_000_001)
    (folder / places.MARKER).write_text(content)
    before = tree(base)
    remove_dead(base, keep=0)
    assert tree(base) == before


def test_pipes_in_the_folder_hold_nothing_up(base: Path) -> None:
    base.mkdir()
    name = places.session_folder(places.Identity(900_000_001, 1), base).name
    (base / name).mkdir()
    os.mkfifo(base / name / places.MARKER)
    assert limited('Monitor.start(period_s=0.05).stop(); print("fine")') == "fine\n"
    assert (base / name / places.MARKER).is_fifo()


# ---------------------------------------------------------------- what is old


def test_sessions_of_other_machines_go_when_they_are_old(base: Path) -> None:
    base.mkdir()
    young = of_another_boot(session(base, 1))
    old = aged(of_another_boot(session(base, 2)), 30)
    half = aged(of_another_boot(session(base, 3)), 30)
    (half / "samples-000001.mlrec").touch()  # a monitor there still writes
    remove_dead(base, keep=0)
    assert set(base.iterdir()) == {young, half}
    assert not old.exists()


def test_a_session_of_another_container_is_not_taken_for_dead(base: Path) -> None:
    """Containers of one machine share its boot, and count their processes each for itself."""
    base.mkdir()
    folder = session(base, 900_000_001)
    marker = folder / places.MARKER
    facts = json.loads(marker.read_text())
    marker.write_text(json.dumps({**facts, "processes": "0:1"}))
    remove_dead(base, keep=0)
    assert folder.exists()


def test_a_session_whose_monitor_is_still_at_work_stays(base: Path) -> None:
    """Its owner is gone, and its monitor has not ended yet."""
    base.mkdir()
    folder = session(base, 900_000_001)
    holder = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(f"""
            import sys
            from pathlib import Path
            from maxlab.diagnostics.monitor import places
            print(places.hold(Path({str(folder)!r})) is not None, flush=True)
            sys.stdin.read()
            """)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert holder.stdin is not None
    assert holder.stdout is not None
    with holder:
        assert holder.stdout.readline() == "True\n"
        remove_dead(base, keep=0)
        assert (folder / "samples-000001.mlrec").exists()
        holder.stdin.close()
        holder.wait(60)
        remove_dead(base, keep=0)
    assert not folder.exists()


def test_two_that_tidy_up_at_once_do_not_trip_each_other(base: Path) -> None:
    base.mkdir()
    for number in range(60):
        session(base, 900_000_001 + number)
    programs = [
        subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(f"""
                import sys
                from pathlib import Path
                from maxlab.diagnostics.monitor.places import remove_dead
                sys.stdin.readline()
                remove_dead(Path({str(base)!r}), keep=0)
                """)],
            stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for _ in range(2)
    ]  # fmt: skip
    for program in programs:
        assert program.stdin is not None
        program.stdin.write("\n")
        program.stdin.flush()
    assert [program.communicate(timeout=60)[1] for program in programs] == ["", ""]
    assert list(base.iterdir()) == []


# ---------------------------------------------------------------- the folder that was named


@pytest.mark.parametrize("permissions", [0o755, 0o770, 0o777])
def test_a_folder_that_was_named_keeps_its_permissions(base: Path, permissions: int) -> None:
    base.mkdir()
    base.chmod(permissions)
    with Monitor.start(period_s=0.05) as monitor:
        assert mode(monitor.folder) == 0o700
    assert mode(base) == permissions


def test_a_link_to_a_folder_may_be_named(base: Path, tmp_path: Path) -> None:
    disk = tmp_path / "large disk\nwith two lines"
    disk.mkdir(mode=0o755)
    base.symlink_to(disk)
    with Monitor.start(period_s=0.05):
        pass
    assert base.is_symlink()
    assert len(list(disk.iterdir())) == 1
    assert mode(disk) == 0o755


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_refused(base: Path) -> None:
    base.mkdir(mode=0o500)
    with pytest.raises(DeviceError, match="ML832"):
        Monitor.start()


@pytest.mark.parametrize("named", ["file", "below a file", "loop", "device", "nobody's home"])
def test_places_that_are_none(
    tmp_path: Path, named: str, monkeypatch: pytest.MonkeyPatch, base: Path
) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "loop").symlink_to("loop")
    place = {
        "file": str(tmp_path / "file"), "below a file": str(tmp_path / "file" / "deeper"),
        "loop": str(tmp_path / "loop"), "device": "/dev/null",
        "nobody's home": "~nobody-of-this-name/monitor",
    }[named]  # fmt: skip
    with monkeypatch.context() as patch:
        patch.setenv("MAXLAB_MONITOR_DIR", place)
        with pytest.raises(DeviceError, match="ML832"):
            Monitor.start()
    assert (tmp_path / "file").read_text() == "x"


def test_a_session_folder_that_is_a_link_is_refused(base: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o755)
    base.mkdir()
    Monitor().folder.symlink_to(elsewhere)
    with pytest.raises(DeviceError, match="ML832"):
        Monitor.start()
    assert list(elsewhere.iterdir()) == []
    assert mode(elsewhere) == 0o755
    Monitor().folder.unlink()


# ---------------------------------------------------------------- files that maxlab keeps


_MAKE = """
from maxlab.diagnostics.monitor.places import make_session

def put(kind, place, precious):
    place.unlink(missing_ok=True)
    {"a link": lambda: place.symlink_to(precious), "a pipe": lambda: os.mkfifo(place),
     "a device": lambda: place.symlink_to("/dev/zero"), "a folder": place.mkdir}[kind]()
"""
THINGS = ("a link", "a pipe", "a device", "a folder")


def test_private_files_are_not_opened_through_what_lies_in_their_place(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    programs = {
        f"{thing} for {name}": f"""
            from pathlib import Path
            os.environ["MAXLAB_MONITOR_DIR"] = {str(tmp_path / thing / name)!r}
            monitor = Monitor()
            make_session(monitor.folder)
            put({thing!r}, monitor.folder / {name!r}, {str(precious)!r})
            try:
                Monitor.start(period_s=0.05).stop()
                print("fine", monitor.pid)
            except MaxlabError as error:
                monitor.stop()
                print(error.code, monitor.pid)
            """
        for name in ("lock", "starting", "monitor.json", "monitor.log")
        for thing in THINGS
    }
    found = each(programs, _MAKE)
    allowed = {"fine None\n", "ML831 None\n", "ML832 None\n"}
    assert {case: said[-500:] for case, said in found.items() if said not in allowed} == {}
    assert precious.read_text() == "mine"


def test_segments_are_regular_files(base: Path) -> None:
    with Monitor.start(period_s=0.05) as monitor:
        pass
    kept = len(monitor.recording())
    (monitor.folder / "samples-²²²²²².mlrec").write_text("x")
    found = each(
        {
            thing: f"""
            from pathlib import Path
            folder = Path({str(monitor.folder)!r})
            for name in ("samples-000002.mlrec", "marks-1-2-000001.mlrec"):
                put({thing!r}, folder / name, "/etc/passwd")
            monitor = Monitor(marks.Identity({os.getpid()}, {me().start}))
            print(len(monitor.recording()))
            live = store.Store(monitor)
            live.read()
            print(live.samples)
            for name in ("samples-000002.mlrec", "marks-1-2-000001.mlrec"):
                (folder / name).rmdir() if thing == "a folder" else (folder / name).unlink()
            """.replace("thing ==", f"{thing!r} ==")
            for thing in THINGS
        },
        _MAKE,
        hang_s=10,
    )
    assert found == dict.fromkeys(THINGS, f"{kept}\n{kept}\n")


@pytest.mark.parametrize("text", ["²", "1" * 5000, "-1", "1e9"])
def test_a_parent_that_is_no_number_is_none(text: str) -> None:
    assert session_owner({"JPY_PARENT_PID": text}) == me()


def test_a_working_folder_that_is_gone(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    here = Path.cwd()
    os.chdir(gone)
    try:
        shutil.rmtree(gone)
        with pytest.raises(MaxlabError, match="ML832"):
            base_folder({"MAXLAB_MONITOR_DIR": "monitor"})
    finally:
        os.chdir(here)

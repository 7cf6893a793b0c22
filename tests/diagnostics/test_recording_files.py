"""Files of recordings, read and written: any content, any kind of file, bounded memory."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from maxlab.diagnostics import Monitor, Recording
from maxlab.errors import DocumentError, FileError, MaxlabError, MissingFileError
from maxlab.lab.dashboard.picture import draw
from maxlab.lab.dashboard.store import Store
from tests.diagnostics.children import each
from tests.diagnostics.monitoring import base as base

HEAD = {"format": "maxlab.recording", "version": 1, "run": "r", "period_ns": 10**9}
COLUMN = {"key": "a", "device": "host", "quantity": "cpu", "unit": "%", "label": "all"}


def line(*record: Any) -> bytes:
    """A record of the format."""
    return json.dumps(record, separators=(",", ":")).encode() + b"\n"


def columns(*keys: str) -> bytes:
    """The line that names columns."""
    return line("c", [{**COLUMN, "key": key} for key in keys])


GOOD = line("h", HEAD) + columns("a", "b") + line("s", 0, 5, [1, 2]) + line("s", 1, 6, [3, None])


# ---------------------------------------------------------------- what may be named

KINDS: dict[str, Callable[[Path], object]] = {
    "missing": lambda path: None,
    "a folder": Path.mkdir,
    "a loop": lambda path: path.symlink_to(path.name),
    "a pipe": os.mkfifo,
    "no end": lambda path: path.symlink_to("/dev/zero"),
    "nothing": lambda path: path.symlink_to("/dev/null"),
}


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    programs, expected = {}, {}
    for kind, make in KINDS.items():
        path = tmp_path / f"{kind}.mlrec"
        make(path)
        code = "ML002" if kind in ("missing", "a loop") else "ML001"
        expected[kind] = f"{code} True True\n" * 2
        programs[kind] = f"""
            for read in (Recording.load, lambda path: maxlab.dashboard(replay=path)):
                try:
                    read({str(path)!r})
                except FileError as error:
                    print(error.code, {str(path)!r} in error.what, bool(error.fix))
            """
    assert each(programs, megabytes=2000, hang_s=5) == expected


def test_a_missing_file_is_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(MissingFileError, match="ML002"):
        Recording.load(tmp_path / "none.mlrec")
    with pytest.raises(FileNotFoundError):
        Recording.load(tmp_path / "none.mlrec")
    with pytest.raises(FileError, match="ML002"):
        Recording.load("a\0b")


def test_links_to_recordings_are_followed(tmp_path: Path) -> None:
    (tmp_path / "real.mlrec").write_bytes(GOOD)
    (tmp_path / "link.mlrec").symlink_to("real.mlrec")
    assert len(Recording.load(tmp_path / "link.mlrec")) == 2


# ---------------------------------------------------------------- any content

CONTENTS: dict[str, bytes] = {
    "empty": b"",
    "x": b"x",
    "object": b"{}",
    "number": b"10" * 20,
    "long number": b"9" * 10_000,
    "nested": b"[" * 100_000,
    "nested lines": (b"[" * 100_000 + b"\n") * 3,
    "NaN": b"NaN\n",
    "zeros": bytes(200_000),
    "lone head": b'["h"]\n',
}


@pytest.mark.parametrize("name", list(CONTENTS))
def test_what_is_no_recording_names_its_file(tmp_path: Path, name: str) -> None:
    path = tmp_path / f"{name}.mlrec"
    path.write_bytes(CONTENTS[name])
    with pytest.raises(DocumentError, match="ML830") as caught:
        Recording.load(path)
    assert str(path) in caught.value.what
    assert caught.value.fix


HUGE = 10**400
DAMAGED: dict[str, bytes] = {
    "nested": b"[" * 100_000 + b"\n",
    "nested value": b'["s",2,7,' + b"[" * 50_000 + b"]" * 50_000 + b"]\n",
    "words for values": line("s", 2, 7, ["x", "y"]),
    "lists for values": line("s", 2, 7, [[1], {}]),
    "huge values": line("s", 2, 7, [HUGE, -HUGE]),
    "huge time": line("s", 2, 10**20, [1, 2]),
    "huge number": line("s", -(10**30), 7, [1, 2]),
    "time that is none": line("s", 2, float("nan"), [1, 2]),
    "huge period": line("h", {**HEAD, "period_ns": HUGE}),
    "period that is none": line("h", {**HEAD, "period_ns": "soon"}),
    "period NaN": line("h", {**HEAD, "period_ns": float("nan")}),
    "names that are none": line("h", {**HEAD, "names": [1]}),
    "clock that is none": line("h", {**HEAD, "wall_ns": "now", "mono_ns": [], "label": {}}),
    "huge clock": line("h", {**HEAD, "wall_ns": HUGE, "mono_ns": -HUGE}),
    "huge top": line("c", [{**COLUMN, "top": HUGE}]) + columns("a", "b"),
    "top NaN": line("c", [{**COLUMN, "top": float("nan")}]) + columns("a", "b"),
    "column twice": columns("a", "a") + line("s", 2, 7, [1, 2]) + columns("a", "b"),
    "huge mark": line("m", "i", 10**400, 10**400, "run", "n", 10**400, 1),
    "mark that takes back": line("m", "i", 5, -5, "run", "n", 1, 1),
    "huge memory": line("a", 5, 1, {"host": [10**400, 1]}),
    "late memory": line("a", 10**400, 1, {"host": [1, 1]}),
    "memory before memory": line("a", 9, 1, {"host": [1, 1]}) + line("a", 3, 1, {"host": [2, 1]}),
    "odd problems": line("p", 10**400, {"x": [1, {}]}),
    "odd processes": line("g", 10**400, {"nv0": "x", "nv1": [[1]]}),
    "odd end": line("e", 10**400, "stopped"),
    "half pairs": b'["m","\\ud800",5,5,"run","\\ud800",1,1]\n',
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", list(DAMAGED))
def test_damaged_lines_are_passed_over(tmp_path: Path, name: str) -> None:
    path = tmp_path / "a.mlrec"
    path.write_bytes(GOOD + DAMAGED[name] + line("s", 3, 8, [5, 6]))
    loaded = Recording.load(path)
    assert loaded["a"][loaded.times_ns < 7].tolist() == [1, 3]
    assert loaded.times_ns[-1] == 8
    assert "Recording(" in repr(loaded)
    assert loaded.gpus == []
    loaded.to_csv(tmp_path / "a.csv")
    store = Store(loaded, "a")
    body, _ = store.frame()
    json.dumps(body, allow_nan=False).encode()
    for start, end in ((0.0, 1.0), (float("nan"), 1e308), (-1e308, float("inf"))):
        store.detail(start, end)
    ET.fromstring(draw(store).encode())


def test_a_head_alone_is_a_recording_of_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.mlrec"
    path.write_bytes(line("h", HEAD))
    loaded = Recording.load(path)
    assert len(loaded) == 0
    assert loaded.to_csv(tmp_path / "a.csv").read_text().splitlines() == ["time [s]"]


# ---------------------------------------------------------------- memory


def _wide_then_long() -> Iterator[bytes]:
    yield line("h", HEAD)
    for part in range(40):
        yield columns(*(f"{part}.{n}" for n in range(250)))
    yield columns("a")
    for n in range(40_000):
        yield line("s", n, n, [0])


def _many_devices() -> Iterator[bytes]:
    yield GOOD
    for n in range(40_000):
        yield line("a", n, 1, {f"{n}": [1, 1]})
    for n in range(20_000):
        yield line("s", n, n, [0, 0])


def _of_one(record: Callable[[int], bytes], size: int = 700_000) -> Iterator[bytes]:
    yield GOOD
    n = count = 0
    while count < size:
        yield (text := record(n))
        n += 1
        count += len(text)


SHAPES: dict[str, Callable[[], Iterator[bytes]]] = {
    "wide then long": _wide_then_long,
    "many devices": _many_devices,
    "marks": lambda: _of_one(lambda n: line("m", f"{n}", n, n, "", "", 1, 1)),
    "marks of huge numbers": lambda: _of_one(lambda n: line("m", f"{n}", n, n, "", "", n, n)),
    "memory": lambda: _of_one(lambda n: line("a", n, n % 99, {"h": [n, n]})),
    "many processes": lambda: _of_one(lambda n: line("a", n, n, {"h": [n, n]})),
    "processes": lambda: _of_one(lambda n: line("g", n, {"ab"[n % 2]: []})),
    "problems": lambda: _of_one(lambda n: line("p", n, {"ab"[n % 2]: ""})),
    "ends": lambda: _of_one(lambda n: line("e", n, "")),
    "heads": lambda: _of_one(lambda n: line("h", {**HEAD, "run": f"{n}"})),
    "layouts": lambda: _of_one(lambda n: columns("ab"[n % 2]) + line("s", n, n, [0])),
    "empty layouts": lambda: _of_one(lambda n: columns() + columns("a")),
    "short samples": lambda: _of_one(lambda n: columns() * (n == 0) + line("s", n, n, [])),
    "zeros": lambda: _of_one(
        lambda n: columns(*map(str, range(2000))) * (n == 0) + line("s", n, n, [0] * 2000)
    ),
    "one line": lambda: iter([GOOD, b'["g",1,{"a":[' + b"{}," * 600_000 + b"{}]}]\n"]),
    "no line breaks": lambda: iter([GOOD, b"[0," * 700_000]),
}


REFUSED = ("wide then long", "many devices", "many processes")

_MEASURE = """
def peak():
    with open("/proc/self/status") as file:
        return int(file.read().split("VmHWM:")[1].split()[0]) * 1024

def use(path):
    try:
        view = maxlab.dashboard(replay=path)
        view._repr_mimebundle_()
        view._store.frame()
        Recording.load(path)
    except MaxlabError as error:
        return error.code
    return "fine"
"""


def test_memory_is_bounded_by_the_size_of_the_file(tmp_path: Path) -> None:
    """The peak, over what the process had before, is 64 MB and 20 times the file's size at most."""
    programs = {}
    for shape, pieces in SHAPES.items():
        path = tmp_path / f"{shape}.mlrec"
        with path.open("wb") as file:
            file.writelines(pieces())
        programs[shape] = f"before = peak(); print(use({str(path)!r}), peak() - before)"
    (tmp_path / "small.mlrec").write_bytes(GOOD)
    faults = []
    for shape, said in each(
        programs, f"{_MEASURE}\nuse({str(tmp_path / 'small.mlrec')!r})"
    ).items():
        size = (tmp_path / f"{shape}.mlrec").stat().st_size
        allowed = (64 << 20) + 20 * size
        how, _, grown = said.strip().rpartition(" ")
        if not grown.isdigit():
            faults.append(f"{shape}: {said[-300:]}")
            continue
        told = f"{shape}: {size / 1e6:.1f} MB, {how}, grew by {int(grown) / 1e6:.0f} MB"
        print(told)
        expected = "ML834" if shape in REFUSED else "fine"
        if int(grown) > allowed or how != expected:
            faults.append(told)
    assert not faults


def test_recordings_that_pack_well_still_load(tmp_path: Path) -> None:
    """An idle machine of 256 cores writes two bytes for each value; a GPU that comes later adds
    columns that the samples before lack."""
    keys = [f"cpu.{n}" for n in range(256)]
    path = tmp_path / "a.mlrec"
    with path.open("wb") as file:
        file.write(line("h", HEAD) + columns(*keys))
        file.writelines(line("s", n, n, [0] * 256) for n in range(2000))
        file.write(columns(*keys, *(f"nv0.{n}" for n in range(20))))
        file.writelines(line("s", n, n, [0] * 276) for n in range(2000, 4000))
    loaded = Recording.load(path)
    assert loaded.values.shape == (4000, 276)
    assert np.isnan(loaded["nv0.3"][:2000]).all()
    assert not loaded["nv0.3"][2000:].any()
    assert loaded.numbers.tolist() == list(range(4000))


def test_what_is_refused_says_how_much_it_would_take(tmp_path: Path) -> None:
    path = tmp_path / "a.mlrec"
    with path.open("wb") as file:
        file.writelines(_wide_then_long())
    with pytest.raises(DocumentError, match="ML834") as caught:
        Recording.load(path)
    assert str(path) in caught.value.what
    assert caught.value.fix


# ---------------------------------------------------------------- writing


def _writers(recording: Recording, monitor: Monitor) -> dict[str, Callable[[Path], Path]]:
    return {"save": monitor.save, "csv": recording.to_csv}


@pytest.mark.parametrize("writer", ["save", "csv"])
def test_written_files_replace_whole_or_not_at_all(
    tmp_path: Path, writer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Monitor.start(period_s=0.05) as monitor:
        pass
    recording = monitor.recording()
    write = _writers(recording, monitor)[writer]
    (tmp_path / "real").write_text("old")
    os.chmod(tmp_path / "real", 0o640)
    (tmp_path / "link").symlink_to("real")
    inode = (tmp_path / "real").stat().st_ino
    assert write(tmp_path / "link") == tmp_path / "link"
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").stat().st_ino != inode, "it was written in place"
    assert (tmp_path / "real").stat().st_mode & 0o777 == 0o640
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to("/dev/full")
    for name in ("pipe", "device", "."):
        with pytest.raises(FileError, match="ML001"):
            write(tmp_path / name)
    with pytest.raises(FileError, match="ML003"):
        write(tmp_path / "none" / "a")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    old = (tmp_path / "real").read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(FileError, match="ML003"):
            write(tmp_path / "real")
    assert (tmp_path / "real").read_bytes() == old
    assert not list(tmp_path.glob(".maxlab-*"))


def test_a_table_of_odd_names_is_written(tmp_path: Path) -> None:
    raw = GOOD.replace(b'"key":"a"', b'"key":"\\ud800,\\n\\""').replace(b"[1,2]", b"[Infinity,NaN]")
    path = Recording.from_bytes(raw).to_csv(tmp_path / "a.csv")
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    assert [len(row) for row in rows] == [3, 3, 3]


def test_a_label_of_any_characters_is_recorded(base: Path) -> None:
    with Monitor.start(period_s=0.05, label="half of a pair: \ud800") as monitor:
        pass
    assert monitor.recording().label.startswith("half of a pair: ")
    odd: Any = b"bytes"
    with pytest.raises(MaxlabError, match="ML835"):
        Monitor.start(label=odd)


def test_a_model_of_any_name_runs_while_it_is_recorded(base: Path) -> None:
    from maxlab import trace

    with Monitor.start(period_s=0.05) as monitor:
        assert trace.run_watcher is not None
        trace.run_watcher("half of a pair: \ud800", 1, 2)
        trace.run_watcher("long " * 1_000_000, 3, 4)
        found = monitor.recording().marks
    assert len(found) == 2
    assert monitor.folder.stat()
    assert sum(path.stat().st_size for path in monitor.folder.glob("marks-*")) < 10_000

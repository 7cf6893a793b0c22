"""The dashboard's Python side: what a store hands out, messages, pictures, a kernel."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pytest
from nbclient import NotebookClient

import maxlab
from maxlab.diagnostics import Monitor, Recording
from maxlab.diagnostics.monitor import marks
from maxlab.diagnostics.monitor.recording import Decoder
from maxlab.errors import DocumentError
from maxlab.lab.dashboard.store import MAX_ROWS, Detail, Frame, Store, thinned
from maxlab.lab.protocol import WIDGET_MIME
from tests.lab.conftest import FakeComm

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "notebooks" / "data" / "two_gpus.mlrec"

COLUMN = {"device": "host", "quantity": "cpu", "unit": "%", "label": "all", "top": 100.0}


@pytest.fixture(autouse=True)
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Recordings of this test only; whatever it started ends with it."""
    monkeypatch.setenv("MAXLAB_MONITOR_DIR", str(tmp_path / "monitor"))
    monkeypatch.delenv("JPY_PARENT_PID", raising=False)
    yield tmp_path / "monitor"
    marks.detach()
    Monitor().stop()


def line(*record: Any) -> bytes:
    """A record of the format."""
    return json.dumps(record).encode() + b"\n"


def recording(*records: Any, run: str = "r") -> bytes:
    """A recording with the columns ``a`` and ``b``."""
    head = {"format": "maxlab.recording", "version": 1, "run": run, "period_ns": 10**9}
    columns = [{"key": key, **COLUMN} for key in ("a", "b")]
    return line("h", head) + line("c", columns) + b"".join(line(*r) for r in records)


def unpacked(frame: Frame | Detail) -> tuple[Any, Any]:
    """Times and rows of a frame."""
    body, raw = frame
    count, width = body["count"], body["width"]
    assert len(raw) == count * 8 + count * width * 4
    return (
        np.frombuffer(raw, "<f8", count),
        np.frombuffer(raw, "<f4", offset=count * 8).reshape(count, width),
    )


# ---------------------------------------------------------------- store


def test_a_frame_holds_all_and_the_next_nothing() -> None:
    raw = recording(["s", 0, 10**9, [1, 2]], ["s", 1, 3 * 10**9, [3, None]])
    store = Store(Recording.from_bytes(raw), "a.mlrec")
    body, packed = store.frame()
    times, rows = unpacked((body, packed))
    assert times.tolist() == [0, 2]
    assert rows[0].tolist() == [1, 2]
    assert rows[1][0] == 3
    assert np.isnan(rows[1][1])
    assert body["reset"]
    assert [column["key"] for column in body["columns"]] == ["a", "b"]
    assert body["state"]["replay"]
    assert body["state"]["title"] == "a.mlrec"
    body, packed = store.frame(body["cursor"])
    assert not body["reset"]
    assert body["count"] == 0
    assert packed == b""


def test_a_cursor_of_something_else_begins_anew() -> None:
    store = Store(Recording.from_bytes(recording(["s", 0, 10**9, [1, 2]])))
    for cursor in ("", "x", "x:1:1", "0:0:0", ":::", "1"):
        body, _ = store.frame(cursor)
        assert body["reset"]
        assert body["count"] == 1


def test_runs_of_samples_are_parted() -> None:
    first = recording(["s", 0, 10**9, [1, 2]], ["e", 2 * 10**9, "stopped"])
    second = recording(["s", 0, 9 * 10**9, [5, 6]], run="q")
    body, _ = Store(Recording.from_bytes(first + second)).frame()
    assert body["breaks"] == [0.0, 8.0]
    assert body["state"]["ended"] == ""
    body, _ = Store(Recording.from_bytes(first)).frame()
    assert body["state"]["ended"] == "stopped"


def test_tensors_are_a_column_with_their_peaks() -> None:
    """What a kernel held between two samples shows, though it held none of it at either."""
    raw = recording(
        ["a", 0, 1, {"host": [5, 0]}],
        ["a", 10**9 + 1, 1, {"host": [900, 0]}],
        ["a", 10**9 + 2, 1, {"host": [7, 0]}],
        ["a", 10**9 + 3, 2, {"host": [100, 0]}],
        ["a", 2 * 10**9 + 1, 2, {}],
        *(["s", n, n * 10**9, [n, n]] for n in range(4)),
    )
    store = Store(Recording.from_bytes(raw))
    body, packed = store.frame()
    keys = [column["key"] for column in body["columns"]]
    _, rows = unpacked((body, packed))
    assert rows[:, keys.index("tensors.host")].tolist() == [5, 5, 1000, 107]


def test_tables_of_processes_are_sent_as_they_change() -> None:
    raw = recording(
        ["s", 0, 10**9, [1, 2]],
        ["g", 10**9, {"nv0": [[7, "a", 10]]}],
        ["g", 2 * 10**9, {"nv0": [[7, "a", 10]]}],
        ["g", 3 * 10**9, {"nv0": [[7, "a", 20]]}],
    )
    store = Store(Recording.from_bytes(raw))
    body, _ = store.frame()
    sent = json.loads(json.dumps(body["processes"]))
    assert sent == [[0.0, {"nv0": [[7, "a", 10]]}], [2.0, {"nv0": [[7, "a", 20]]}]]
    body, _ = store.frame(body["cursor"])
    assert body["processes"] == []


def test_thinned_rows_keep_every_peak() -> None:
    count = 50_000
    rows = np.zeros((count, 2), np.float32)
    rows[::997, 0] = np.arange(len(rows[::997])) + 1
    rows[:, 1] = np.nan
    times = np.arange(count, dtype=np.int64)
    few_times, few = thinned(times, rows, 1000)
    assert len(few) <= 1100
    assert set(rows[::997, 0].tolist()) <= {0.0, *few[:, 0].tolist()}
    assert np.all(np.isnan(few[:, 1]))
    assert np.all(np.diff(few_times) >= 0)


def test_a_long_recording_is_thinned_and_looked_at_closely() -> None:
    samples = [["s", n, n * 10**9, [n % 100, 1]] for n in range(3 * MAX_ROWS)]
    store = Store(Recording.from_bytes(recording(*samples)))
    body, packed = store.frame()
    assert body["thin"]
    assert body["count"] <= MAX_ROWS + 10
    detail, packed = store.detail(100.0, 120.0)
    times, rows = unpacked((detail, packed))
    assert times.tolist() == list(range(99, 122))
    assert rows[:, 0].tolist() == [n % 100 for n in range(99, 122)]


def test_records_that_are_not_as_they_should_be_are_passed_over() -> None:
    """Recordings come from elsewhere: nothing in one may raise, or be taken for something else."""
    raw = recording(
        ["s", 0, 10**9, [1, 2]],
        ["s", "x", 10**9, [1, 2]],
        ["s", 1, 2 * 10**9, [1]],
        ["s"],
        ["m", 1, 2],
        ["m", "id", 1, None, "cell", "x", "many", 3],
        ["a", 1, 2, {"host": "much"}],
        ["p", 1, [1]],
        ["c", [{"key": 3}]],
        ["h", {"format": "other"}],
        ["?", 1],
        [],
        {"a": 1},
    )
    found = Recording.from_bytes(raw + b"{\n\xff\xfe\nnull\n[1]\n" + b'["s",9')
    assert found.numbers.tolist() == [0]
    assert found.marks == []
    Store(found).frame()


def test_what_is_no_recording_is_refused(tmp_path: Path) -> None:
    for raw in (b"", b"hello", b'{"cells": []}', b"\x89PNG", recording()[:20]):
        with pytest.raises(DocumentError, match="ML830"):
            Recording.from_bytes(raw)
    later = recording().replace(b'"version": 1', b'"version": 2')
    with pytest.raises(DocumentError, match="later version"):
        Recording.from_bytes(later)
    path = tmp_path / "a.mlrec"
    path.write_text("hello")
    with pytest.raises(ValueError, match="ML830"):
        maxlab.dashboard(replay=path)
    with pytest.raises(OSError, match="none"):
        maxlab.dashboard(replay=tmp_path / "none.mlrec")


def test_records_may_arrive_in_any_pieces() -> None:
    raw = SAMPLE.read_bytes()
    whole = Recording.from_bytes(raw)
    decoder = Decoder()
    lines = raw.splitlines(keepends=True)
    for start in range(0, len(lines), 3):
        decoder.take(b"".join(lines[start : start + 3]))
    pieces = Recording(decoder)
    assert pieces.times_ns.tolist() == whole.times_ns.tolist()
    np.testing.assert_array_equal(pieces.values, whole.values)


# ---------------------------------------------------------------- widget


def test_a_page_that_watches_gets_all_and_then_what_is_new(kernel: list[FakeComm]) -> None:
    monitor = Monitor.start(period_s=0.05)
    view = maxlab.dashboard()
    assert repr(view) == "Dashboard(live)"
    (page,) = kernel
    page.say({"type": "watch", "cursor": ""})
    deadline = time.monotonic() + 30
    frames: list[dict[str, Any]] = []
    while len(frames) < 4 and time.monotonic() < deadline:
        frames += [content for content, _ in page.custom() if content["type"] == "frame"]
        time.sleep(0.05)
    assert frames[0]["reset"]
    for before, frame in itertools.pairwise(frames):
        assert frame["reset"] or frame["continues"] == before["cursor"]
    page.say({"type": "stop"})
    assert not monitor.is_running
    page.say({"type": "start", "period": 0.1})
    assert monitor.period_s == 0.1
    page.say({"type": "start", "period": 0.0})
    failures = [content for content, _ in page.custom() if content["type"] == "failed"]
    assert failures[0]["fault"]["code"] == "ML431"
    page.say({"type": "recording"})
    ((_, buffers),) = [c for c in page.custom() if c[0]["type"] == "recording"]
    assert len(Recording.from_bytes(buffers[0])) >= 1
    page.say({"type": "nonsense"})
    page.tell("nonsense")
    view.close()


def test_nobody_who_looks_is_sent_nothing(kernel: list[FakeComm]) -> None:
    with Monitor.start(period_s=0.02):
        maxlab.dashboard()
        (page,) = kernel
        page.custom()
        time.sleep(0.3)
        assert page.custom() == []


def test_making_a_dashboard_starts_nothing() -> None:
    maxlab.dashboard()
    assert not Monitor().is_running


def test_a_replay_is_a_widget_a_picture_and_a_text(kernel: list[FakeComm]) -> None:
    data = maxlab.dashboard(replay=SAMPLE)._repr_mimebundle_()
    recording_ = Recording.load(SAMPLE)
    count = len(recording_)
    assert data["text/plain"] == f"Dashboard(replay of 'two_gpus.mlrec', {count} samples)"
    assert "GPU utilisation" in data["image/svg+xml"]
    assert "simulated" in data["image/svg+xml"]
    assert WIDGET_MIME in data
    shown = recording_._repr_mimebundle_()
    assert shown["text/plain"] == f"Dashboard(replay, {count} samples)"


def test_a_picture_writes_no_markup_of_a_recording() -> None:
    raw = recording(["s", 0, 0, [1, 2]], ["s", 1, 10**9, [1, 2]])
    evil = raw.replace(b'"period_ns"', b'"label":"<script>","period_ns"')
    from maxlab.lab.dashboard.picture import draw

    assert "<script" not in draw(Store(Recording.from_bytes(evil), "<b>"))


# ---------------------------------------------------------------- in a kernel


def test_cells_are_marked_by_their_numbers(tmp_path: Path) -> None:
    cells = [
        "from maxlab.diagnostics import Monitor\nmonitor = Monitor.start(period_s=0.05)",
        "import time; time.sleep(0.1)",
        "1 / 0",
        """marks = monitor.recording().marks
monitor.stop()
[(m.name, m.dur_ns is None) for m in marks]""",
    ]
    made = [nbformat.v4.new_code_cell(c) for c in cells]  # type: ignore[no-untyped-call]
    made[2].metadata["tags"] = ["raises-exception"]
    book = nbformat.v4.new_notebook(cells=made)  # type: ignore[no-untyped-call]
    NotebookClient(
        book, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(ROOT)}}
    ).execute()
    (output,) = book.cells[3].outputs
    assert output["data"]["text/plain"] == (
        "[('In [1]', False), ('In [2]', False), ('In [3]', False), ('In [4]', True)]"
    )

"""Saved runs come back as they were, and files that are none are refused."""

from __future__ import annotations

import copy
import io
import json
import os
import random
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import maxlab
from maxlab.analysis.runs import SavedRun, archive, record
from maxlab.errors import DocumentError
from maxlab.lab.documents import checked_document
from maxlab.lab.protocol import GRAPH_MIME, PROTOCOL
from maxlab.lab.snapshot import take, unpack
from tests.analysis.runs.made import layered, profiled


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "one.mlprof"
    assert profiled(layered(3)).save(path) == path
    return path


def parts_of(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archived:
        return {name: archived.read(name) for name in archived.namelist()}


def rewritten(path: Path, parts: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archived:
        for name, raw in parts.items():
            archived.writestr(name, raw)
    return path


# ---------------------------------------------------------------- round trips


def test_a_saved_run_is_the_profile(tmp_path: Path) -> None:
    profile = profiled(layered(3), rows=7)
    profile.save(tmp_path / "one.mlprof", label="seven rows")
    run = maxlab.load_run(tmp_path / "one.mlprof")
    assert run.kernels == profile.kernels
    assert (run.label, run.name, run.device) == ("seven rows", "layered", "cpu")
    assert (run.runs, run.threads, run.dims) == (profile.runs, 1, {"batch": 7})
    assert (run.wall_ns, run.wall_ns_min, run.timed_ns) == (
        profile.wall_ns,
        profile.wall_ns_min,
        profile.timed_ns,
    )
    assert run.overhead == profile.overhead
    assert run.table() == profile.table()
    for name in ("kernel_samples_ns", "timed_samples_ns", "wall_samples_ns"):
        assert np.array_equal(getattr(run, name), getattr(profile, name)), name
    assert run.timeline.kernels == tuple(k.id for k in profile.kernels)
    assert run.machine == record(profile).machine
    assert run.options == "defaults"


def test_saving_again_makes_the_same_bytes(saved: Path, tmp_path: Path) -> None:
    run = maxlab.load_run(saved)
    run.save(tmp_path / "again.mlprof")
    assert (tmp_path / "again.mlprof").read_bytes() == saved.read_bytes()


def test_the_format_is_as_documented(saved: Path) -> None:
    """Another program reads a run with zip, JSON and .npy alone."""
    parts = parts_of(saved)
    assert set(parts) == {
        "run.json",
        "document.json",
        "kernel_ns.npy",
        "timed_ns.npy",
        "wall_ns.npy",
        "timeline.json",
    }
    head = json.loads(parts["run.json"])
    assert (head["format"], head["version"]) == ("maxlab.run", 1)
    assert list(head) == sorted(head)
    times = np.load(io.BytesIO(parts["kernel_ns.npy"]), allow_pickle=False)
    assert (times.dtype, times.shape) == (np.dtype("<i8"), (6, len(head["kernels"])))
    assert all(name in (archive.__doc__ or "") for name in parts)


def test_a_file_says_nothing_of_who_made_it(saved: Path) -> None:
    text = parts_of(saved)["run.json"].decode()
    assert os.uname().nodename not in text
    assert os.environ.get("USER", "nobody at all") not in text


def test_a_saved_run_is_drawn_like_its_profile(tmp_path: Path) -> None:
    profile = profiled(layered(3))
    run = record(profile)
    drawn = take(run).document
    live = take(profile, sources=True).document
    assert [n["id"] for n in drawn["nodes"]] == [n["id"] for n in live["nodes"]]
    assert drawn["profile"] == live["profile"]
    bundle = run._repr_mimebundle_()
    assert bundle["text/plain"] == repr(run)
    assert unpack(bundle[GRAPH_MIME])["kernels"] == json.loads(json.dumps(drawn["kernels"]))


def test_a_saved_run_is_a_page(saved: Path, tmp_path: Path) -> None:
    run = maxlab.load_run(saved)
    page = run.to_html(tmp_path / "page.html").read_text("utf-8")
    assert "<noscript><pre>layered on cpu" in page


def test_writing_that_fails_loses_nothing(saved: Path, tmp_path: Path) -> None:
    target = tmp_path / "kept.mlprof"
    target.write_bytes(saved.read_bytes())
    run = maxlab.load_run(saved)
    run.document = {"not": float("nan")}
    with pytest.raises(ValueError, match="JSON"):
        run.save(target)
    assert target.read_bytes() == saved.read_bytes()
    assert [p.name for p in tmp_path.iterdir()] == ["kept.mlprof"]


def test_later_fields_and_parts_are_passed_over(saved: Path, tmp_path: Path) -> None:
    parts = parts_of(saved)
    head = json.loads(parts["run.json"])
    head["weather"] = "fine"
    head["kernels"][0]["mood"] = [1, 2]
    parts["run.json"] = json.dumps(head).encode()
    parts["sky.json"] = b"{"
    run = maxlab.load_run(rewritten(tmp_path / "later.mlprof", parts))
    assert run.kernels == maxlab.load_run(saved).kernels


def test_a_file_may_be_without_a_timeline(saved: Path, tmp_path: Path) -> None:
    parts = parts_of(saved)
    del parts["timeline.json"]
    run = maxlab.load_run(rewritten(tmp_path / "bare.mlprof", parts))
    with pytest.raises(DocumentError, match="ML850"):
        _ = run.timeline


# ---------------------------------------------------------------- files that are none


def test_every_cut_is_refused(saved: Path, tmp_path: Path) -> None:
    whole = saved.read_bytes()
    target = tmp_path / "cut.mlprof"
    for length in range(0, len(whole), max(len(whole) // 150, 1)):
        target.write_bytes(whole[:length])
        with pytest.raises(DocumentError, match=r"ML84[01]"):
            maxlab.load_run(target)
        assert len(target.read_bytes()) == length


def test_damaged_bytes_are_refused_or_do_not_matter(saved: Path, tmp_path: Path) -> None:
    whole = saved.read_bytes()
    fine = maxlab.load_run(saved)
    target = tmp_path / "damaged.mlprof"
    chance = random.Random(0)
    refused = 0
    for _ in range(400):
        raw = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            raw[chance.randrange(len(raw))] = chance.randrange(256)
        target.write_bytes(raw)
        try:
            run = maxlab.load_run(target)
        except DocumentError:
            refused += 1
        else:  # bytes that no reader looks at, such as the time of a part
            assert run.kernels == fine.kernels
            assert run.document == fine.document
    assert refused > 300


def test_changed_json_is_refused_or_can_be_shown(saved: Path, tmp_path: Path) -> None:
    """Anything in the place of anything: what loads must also be drawn and compared."""
    parts = parts_of(saved)
    chance = random.Random(1)
    strange: list[Any] = [
        None, True, -1, 1e308, 10**400, "", "n1", [], {}, [[]], {"a": 1}, "\x00", float("1e-320"),
    ]  # fmt: skip
    refused = 0
    for turn in range(250):
        name = ("run.json", "document.json")[turn % 2]
        value = json.loads(parts[name])
        _disturb(value, chance, strange)
        target = rewritten(tmp_path / "odd.mlprof", {**parts, name: json.dumps(value).encode()})
        try:
            run = maxlab.load_run(target)
        except DocumentError:
            refused += 1
            continue
        assert run.table(rows=None)
        assert run._repr_mimebundle_(include={"text/plain", GRAPH_MIME, "image/svg+xml"})
        assert maxlab.diff(run, saved).table()
    assert refused > 100


def _disturb(value: Any, chance: random.Random, strange: list[Any]) -> None:
    """Put something strange in a place of ``value``, or take something out of it."""
    while True:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        if not keys:
            return
        key = chance.choice(keys)
        inner = value[key]
        if isinstance(inner, (dict, list)) and inner and chance.random() < 0.85:
            value = inner
        elif chance.random() < 0.2:
            del value[key]
            return
        else:
            value[key] = copy.deepcopy(chance.choice(strange))
            return


def _head(**changed: Any) -> Callable[[dict[str, bytes]], None]:
    def change(parts: dict[str, bytes]) -> None:
        head = json.loads(parts["run.json"]) | changed
        parts["run.json"] = json.dumps(head).encode()

    return change


def _without(name: str) -> Callable[[dict[str, bytes]], None]:
    def change(parts: dict[str, bytes]) -> None:
        del parts[name]

    return change


def _part(name: str, raw: bytes) -> Callable[[dict[str, bytes]], None]:
    return lambda parts: parts.__setitem__(name, raw)


def _npy(array: np.ndarray, **how: Any) -> bytes:
    content = io.BytesIO()
    np.lib.format.write_array(content, array, **how)
    return content.getvalue()


def _claiming(shape: str) -> bytes:
    header = f"{{'descr': '<i8', 'fortran_order': False, 'shape': {shape}}}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode()


CHANGES: dict[str, tuple[Callable[[dict[str, bytes]], None], str]] = {
    "no head": (_without("run.json"), "ML840"),
    "another format": (_head(format="maxlab.graph"), "ML840"),
    "a newer version": (_head(version=2), "ML842"),
    "a strange version": (_head(version=True), "ML841"),
    "no document": (_without("document.json"), "ML841"),
    "no times": (_without("kernel_ns.npy"), "ML841"),
    "deep JSON": (_part("document.json", b"[" * 200_000), "ML841"),
    "not a number": (_part("document.json", b'{"a": NaN}'), "ML841"),
    "no UTF-8": (_part("document.json", b"\xff\xfe"), "ML841"),
    "kernels of another graph": (_head(kernels=[]), "ML841"),
    "an empty array": (_part("wall_ns.npy", _npy(np.zeros(0, np.int64))), "ML841"),
    "floats": (_part("wall_ns.npy", _npy(np.ones(6))), "ML841"),
    "times below zero": (_part("wall_ns.npy", _npy(-np.ones(6, np.int64))), "ML841"),
    "objects": (
        _part("wall_ns.npy", _npy(np.array([{}], object), allow_pickle=True)),
        "ML841",
    ),
    "by column": (
        _part("kernel_ns.npy", _npy(np.asfortranarray(np.ones((6, 3), np.int64)))),
        "ML841",
    ),
    "a shape without data": (_part("wall_ns.npy", _claiming("(1000000000000,)")), "ML841"),
    "a shape below zero": (_part("wall_ns.npy", _claiming("(-1,)")), "ML841"),
    "a program as header": (_part("wall_ns.npy", _claiming("__import__('os')")), "ML841"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_parts_that_are_wrong_are_refused(name: str, saved: Path, tmp_path: Path) -> None:
    change, code = CHANGES[name]
    parts = parts_of(saved)
    change(parts)
    with pytest.raises(DocumentError) as caught:
        maxlab.load_run(rewritten(tmp_path / "wrong.mlprof", parts))
    assert caught.value.code == code


def test_a_bomb_is_refused_before_it_is_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bomb = rewritten(tmp_path / "bomb.mlprof", {"run.json": b"0" * 20_000_000})
    assert bomb.stat().st_size < 50_000
    monkeypatch.setattr(archive, "MOST_BYTES", 10_000_000)
    monkeypatch.setattr(zipfile.ZipFile, "open", lambda *_: pytest.fail("it was unpacked"))
    with pytest.raises(DocumentError, match="ML843"):
        maxlab.load_run(bomb)


def test_a_part_twice_is_refused(saved: Path, tmp_path: Path) -> None:
    target = tmp_path / "twice.mlprof"
    with zipfile.ZipFile(target, "w") as archived:
        for name, raw in parts_of(saved).items():
            archived.writestr(name, raw)
        with pytest.warns(UserWarning, match="Duplicate"):
            archived.writestr("run.json", b"{}")
    with pytest.raises(DocumentError, match="ML841"):
        maxlab.load_run(target)


def test_documents_are_checked_field_by_field() -> None:
    document = json.loads(json.dumps(take(profiled(layered(2))).document))
    assert checked_document(copy.deepcopy(document)) == document

    def refused(change: Callable[[Any], Any]) -> str:
        odd = copy.deepcopy(document)
        change(odd)
        with pytest.raises(DocumentError) as caught:
            checked_document(odd)
        return caught.value.what

    assert "scopes: it is missing" in refused(lambda d: d.pop("scopes"))
    assert "nodes[0].op: expected text, got 3" in refused(lambda d: d["nodes"][0].update(op=3))
    assert "names 'v999'" in refused(lambda d: d["nodes"][0].update(operands=["v999"]))
    assert "same" not in refused(lambda d: d["nodes"].append(d["nodes"][0]))
    assert "n999" in refused(lambda d: d["kernels"][0].update(nodes=["n999"]))
    assert 'expected "tensor" or' in refused(lambda d: d["values"][0].update(kind="thing"))
    assert "version 7" in refused(lambda d: d.update(version=7))


def test_saved_runs_have_no_model_behind_them(saved: Path) -> None:
    pytest.importorskip("anywidget")
    from maxlab.lab import GraphView

    view = GraphView(maxlab.load_run(saved))
    assert view.no_model
    assert not view.not_live
    sent: list[Any] = []
    view.send = lambda content, buffers=None: sent.append(content)
    asked = {"type": "ask", "protocol": PROTOCOL, "id": 4, "what": "runs", "args": {}}
    view._received(view, asked, [])
    assert sent[-1]["ok"] is False
    assert "ML806" in sent[-1]["error"]
    view._received(view, {"type": "profile", "protocol": PROTOCOL}, [])
    assert sent[-1]["status"] == "failed"
    view.close()


def test_what_is_no_run_cannot_be_recorded() -> None:
    with pytest.raises(TypeError, match="ML844"):
        record("one.mlprof")  # type: ignore[arg-type]
    run = record(profiled(layered(1)))
    assert record(run) is run
    assert isinstance(run, SavedRun)

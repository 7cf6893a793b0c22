"""Saved runs and recordings of the monitor: bytes changed, fields replaced, parts left out."""

from __future__ import annotations

import io
import json
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import maxlab
from maxlab.diagnostics import Recording
from tests.analysis.runs.made import layered, profiled
from tests.hostile.harness import Case, Family, mutated

Parts = dict[str, bytes]
HEAD = {"format": "maxlab.recording", "version": 1, "run": "r", "period_ns": 10**9}
COLUMN = {"device": "host", "quantity": "cpu", "unit": "%", "label": "all"}
RECORDS: list[Any] = [
    ["h", HEAD],
    ["c", [{**COLUMN, "key": key} for key in ("a", "b", "c")]],
    *(["s", turn, 10**9 * turn, [turn, None, turn / 3]] for turn in range(20)),
]
JSON_WEIRD: tuple[Any, ...] = (
    None, True, 0, -1, 1, 2**31, 2**63, -(2**63), 10**20, 10**400, 0.5, 1e308, float("nan"),
    float("inf"), "", "x", "\0", "..", "../x", "x" * 5000, [], {}, [[]], [None], {"a": []},
)  # fmt: skip
DEEP = b"[" * 100_000

_parts: Parts = {}


# ---------------------------------------------------------------- saved runs
def _ready() -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "run.mlprof"
        profiled(layered()).save(file)
        with zipfile.ZipFile(file) as archive:
            _parts.update({name: archive.read(name) for name in archive.namelist()})


def _packed(parts: Parts) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return content.getvalue()


def _use_run(path: Path) -> None:
    """Everything that a reader asks of a saved run."""
    run = maxlab.load_run(path)
    repr(run)
    run._repr_mimebundle_()
    maxlab.diff(run, run)


def _run(words: str, make: Callable[[], bytes]) -> Case:
    def use(folder: Path) -> None:
        file = folder / "run.mlprof"
        file.write_bytes(make())
        _use_run(file)

    return Case(f"a saved run {words}", use)


def _array(data: Any) -> bytes:
    content = io.BytesIO()
    np.save(content, data, allow_pickle=True)
    return content.getvalue()


def _changed_run(random: Random) -> Case:
    kind = random.randrange(4)
    if kind == 0:
        return _run("with changed bytes", lambda: mutated(_packed(_parts), random))
    name = random.choice(sorted(_parts))
    if kind == 1:
        return _run(
            f"with changed bytes in {name}",
            lambda: _packed({**_parts, name: mutated(_parts[name], random)}),
        )
    if kind == 2 or not name.endswith(".json"):
        shape = random.choice([(), (0,), (1,), (3, 3), (10**6,), (1, 10**6), (2, 2, 2)])
        dtype = random.choice(["<i8", "<f8", "<u1", "<M8[s]", "O"])
        return _run(
            f"with {dtype}{shape} in an array",
            lambda: _packed({**_parts, "kernel_ns.npy": _array(np.zeros(shape, dtype))}),
        )
    document = json.loads(_parts[name])
    where, value = replace_one(document, random)
    return _run(
        f"with {value!r:.60} at {name} {where}",
        lambda: _packed({**_parts, name: json.dumps(document).encode()}),
    )


def replace_one(document: Any, random: Random) -> tuple[str, Any]:
    """Put something weird in one place of a JSON value; the place and what was put there."""
    where, holder = "", document
    while True:
        keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        key = random.choice(keys)
        where += f"/{key}"
        inner = holder[key]
        if not isinstance(inner, dict | list) or not inner or random.random() < 0.25:
            value = random.choice(JSON_WEIRD)
            holder[key] = value
            return where, value
        holder = inner


RUN_SEEDS = [
    _run(f"that is {content[:20]!r}", lambda content=content: content)  # type: ignore[misc]
    for content in (b"", b"x", b"{}", b"PK", b"PK\x03\x04", DEEP, b"100000000000000000000")
]
RUN_SEEDS += [
    _run(
        f"with {name} = {content[:20]!r}",
        lambda name=name, content=content: _packed({**_parts, name: content}),  # type: ignore[misc]
    )
    for name in ("run.json", "document.json", "timeline.json")
    for content in (b"", b"x", b'"x"', b"{}", b"100000000000000000000", DEEP, b"[" + b"1," * 10**6)
]
RUN_SEEDS += [
    _run(
        f"whose {name} is {100 << 20} zeros, packed",
        lambda name=name: _packed({**_parts, name: bytes(100 << 20)}),  # type: ignore[misc]
    )
    for name in ("run.json", "kernel_ns.npy", "unknown")
]


# ---------------------------------------------------------------- recordings
def _use_recording(path: Path) -> None:
    recording = Recording.load(path)
    repr(recording)
    len(recording)
    for column in recording.columns:
        recording[column.key].sum()
    recording.to_csv(path.with_suffix(".csv"))


def _recording(words: str, content: bytes) -> Case:
    def use(folder: Path) -> None:
        file = folder / "a.mlrec"
        file.write_bytes(content)
        _use_recording(file)

    return Case(f"a recording {words}", use)


def _lines(records: list[Any]) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def _changed_recording(random: Random) -> Case:
    if random.random() < 0.4:
        return _recording("with changed bytes", mutated(_lines(RECORDS), random))
    records = json.loads(json.dumps(RECORDS))
    where, value = replace_one(records, random)
    return _recording(f"with {value!r:.60} at {where}", _lines(records))


RECORDING_SEEDS = [
    _recording(f"that is {content[:20]!r}", content)
    for content in (
        b"", b"x", b"{}", b"[]", b"100000000000000000000", DEEP, b"\x1f\x8b" + bytes(100),
        b'["h",{}]\n' * 1000, _lines(RECORDS)[:-1], b"null\n" * 10,
    )
]  # fmt: skip

FAMILIES = (
    Family("saved_runs", RUN_SEEDS, _changed_run, 4000, _ready, memory=256 << 20),
    Family("recordings", RECORDING_SEEDS, _changed_recording, 4000, memory=128 << 20),
)

"""Files of strangers: what a saved run may take to read, and what may stand in it."""

from __future__ import annotations

import copy
import json
import os
import random
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import maxlab
from maxlab.analysis.runs import SavedRun
from maxlab.analysis.trace_export import events_of
from maxlab.errors import DocumentError, FileError, MaxlabError
from maxlab.lab.folding import fold
from maxlab.lab.protocol import GRAPH_MIME
from maxlab.lab.text import listing
from tests.analysis.runs.bombs import BOMBS, FILES
from tests.analysis.runs.made import layered, profiled

ROOT = Path(__file__).resolve().parents[3]
MOST_CASES = 200
MOST_MB, MOST_TIMES = 64, 20
"""What reading a file may take: so many megabytes, and so many times its size."""


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = profiled(layered(2)).save(tmp_path_factory.mktemp("runs") / "one.mlprof")
    return path


def parts_of(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archived:
        return {name: archived.read(name) for name in archived.namelist()}


def rewritten(path: Path, parts: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archived:
        for name, raw in parts.items():
            archived.writestr(name, raw)
    return path


# ---------------------------------------------------------------- memory


@pytest.fixture(scope="module")
def taken(saved: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    done = subprocess.run(
        [
            sys.executable,
            *("-m", "tests.analysis.runs.bombs", str(saved)),
            str(tmp_path_factory.mktemp("bombs")),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {line["name"]: line for line in lines}


@pytest.mark.parametrize("bomb", [*BOMBS, *FILES])
def test_reading_takes_memory_for_what_is_there(
    bomb: str, taken: dict[str, dict[str, Any]]
) -> None:
    found = taken[bomb]
    assert found["mb"] <= MOST_MB + MOST_TIMES * found["file_mb"], found
    assert found["said"].startswith(("DocumentError ML84", "loaded")), found


def test_what_is_no_bomb_is_loaded(taken: dict[str, dict[str, Any]]) -> None:
    assert taken["parts"]["said"].startswith("loaded")
    for bomb in ("depth", "bzip2", "lzma"):
        assert taken[bomb]["said"] == "DocumentError ML841"


def many(run: SavedRun, times: int) -> SavedRun:
    """``run`` with all that it has, so many times."""
    head = {**run._head, "kernels": []}
    document = {**run.document}
    for name in ("nodes", "values", "kernels"):
        document[name] = []

    def other(text: str, turn: int) -> str:
        return f"{text}_{turn}"

    for turn in range(times):
        for kernel in run._head["kernels"]:
            nodes = [other(node, turn) for node in kernel["nodes"]]
            head["kernels"].append({**kernel, "id": other(kernel["id"], turn), "nodes": nodes})
        for node in run.document["nodes"]:
            wires = {k: [other(v, turn) for v in node[k]] for k in ("operands", "results")}
            document["nodes"].append({**node, "id": other(node["id"], turn), **wires})
        for value in run.document["values"]:
            document["values"].append({**value, "id": other(value["id"], turn)})
        for kernel in run.document["kernels"]:
            nodes = [other(node, turn) for node in kernel["nodes"]]
            changed = {"id": other(kernel["id"], turn), "nodes": nodes}
            document["kernels"].append({**kernel, **changed})
    document["inputs"] = [other(value, 0) for value in run.document["inputs"]]
    document["outputs"] = [other(value, 0) for value in run.document["outputs"]]
    document["profile"] = None
    samples = {
        "kernel_ns.npy": np.tile(run.kernel_samples_ns, times),
        "timed_ns.npy": run.timed_samples_ns,
        "wall_ns.npy": run.wall_samples_ns,
    }
    return SavedRun(head, document, samples)


def test_large_runs_are_saved_and_loaded(saved: Path, tmp_path: Path) -> None:
    """Kernels that are all alike are packed well, so such a file looks much like a bomb."""
    kernels = 5_000
    run = maxlab.load_run(saved)
    large = many(run, kernels // len(run.kernels))
    path = large.save(tmp_path / "large.mlprof")
    program = "import sys; from tests.analysis.runs import bombs; from pathlib import Path\n"
    program += "import maxlab; maxlab.load_run(sys.argv[2])\n"
    program += "print(bombs.json.dumps(bombs.tried(Path(sys.argv[1]))))"
    done = subprocess.run(
        [sys.executable, "-c", program, str(path), str(saved)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    found = json.loads(done.stdout)
    assert found["said"].startswith("loaded, ML850"), (found, done.stderr)
    assert found["mb"] <= MOST_MB + MOST_TIMES * found["file_mb"], found
    assert maxlab.load_run(path).kernels == large.kernels


# ---------------------------------------------------------------- what may stand in a file

CONTENTS = {
    "nothing": b"",
    "text": b"x",
    "an object": b"{}",
    "a number": b"1" * 20,
    "depth": b"[" * 100_000,
    "a ZIP's beginning": b"PK\x03\x04",
    "an empty ZIP": b"PK\x05\x06" + bytes(18),
}


@pytest.mark.parametrize("what", CONTENTS)
def test_contents_that_are_no_run(what: str, tmp_path: Path) -> None:
    path = tmp_path / "odd.mlprof"
    path.write_bytes(CONTENTS[what])
    with pytest.raises(DocumentError, match=r"ML84[01]") as caught:
        maxlab.load_run(path)
    assert "odd.mlprof" in str(caught.value)
    assert caught.value.fix


@pytest.mark.parametrize("part", ["run.json", "document.json", "timeline.json"])
@pytest.mark.parametrize("what", CONTENTS)
def test_parts_that_are_none(part: str, what: str, saved: Path, tmp_path: Path) -> None:
    parts = {**parts_of(saved), part: CONTENTS[what]}
    try:
        run = maxlab.load_run(rewritten(tmp_path / "odd.mlprof", parts))
    except DocumentError as error:
        found = error.code
    else:
        found = "loaded"
        assert part == "timeline.json"
        with pytest.raises(DocumentError, match="ML850"):
            _ = run.timeline
    assert found in ("ML840", "ML841", "loaded")


def test_places_that_are_no_file(saved: Path, tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    for path in (tmp_path / "none.mlprof", tmp_path, tmp_path / "loop", "a\0b", saved / "x", ""):
        with pytest.raises(FileError, match="ML00[12]"):
            maxlab.load_run(path)
    with pytest.raises(FileNotFoundError):
        maxlab.load_run(tmp_path / "none.mlprof")
    odd: Any
    for odd in (None, 3, b"x\0", []):
        with pytest.raises(MaxlabError):
            maxlab.load_run(odd)
        with pytest.raises(MaxlabError):
            maxlab.diff(odd, odd)


ODD: list[Any] = [
    None, "x", "", "\x00", "\ud800", "..", [], {}, [[]], {"a": 1}, ["x"], True, 1e308, -1, 0,
    10**400, 2**63, 10**18, float("nan"), float("inf"), 0.5,
]  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all fields in ``value``; of a list, those of its first item."""
    if path:
        yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value[:1])
    for key, one in inner:
        if isinstance(one, (dict, list)):
            yield from places(one, (*path, key))
        else:
            yield (*path, key)


def changed(value: Any, path: tuple[Any, ...], put: Any) -> Any:
    """``value`` with ``put`` at ``path``."""
    made = copy.copy(value)
    made[path[0]] = changed(value[path[0]], path[1:], put) if len(path) > 1 else put
    return made


def shown(run: SavedRun, saved: SavedRun) -> None:
    """All that is shown of a run."""
    assert run.table(rows=None)
    assert repr(run)
    assert listing(run.document)  # type: ignore[arg-type]
    assert fold(run.document).boxes is not None  # type: ignore[arg-type]
    assert run._repr_mimebundle_(include={"text/plain", GRAPH_MIME})
    for found in (maxlab.diff(run, saved), maxlab.diff(saved, run)):
        assert found.table(rows=None)
        assert repr(found)
        json.dumps(found.data())
        assert found._repr_mimebundle_(include={"text/plain", GRAPH_MIME})
    try:
        timeline = run.timeline
    except DocumentError:  # refused when it is asked for
        return
    assert repr(timeline)
    assert list(events_of(timeline))


@pytest.mark.parametrize("part", ["run.json", "document.json", "timeline.json"])
def test_anything_in_the_place_of_any_field(
    part: str, saved: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """A run is refused, or all that is shown of it is shown. A seeded sample, all with --all."""
    parts, fine = parts_of(saved), maxlab.load_run(saved)
    value = json.loads(parts[part])
    refused = loaded = 0
    wrong: list[str] = []
    cases = [(path, odd) for path in places(value) for odd in ODD]
    if not request.config.getoption("--all"):
        cases = random.Random(os.environ["MAXLAB_SAMPLE_SEED"]).sample(cases, MOST_CASES)
    for path, odd in cases:
        raw = json.dumps(changed(value, path, odd)).encode()
        target = rewritten(tmp_path / "odd.mlprof", {**parts, part: raw})
        try:
            run = maxlab.load_run(target)
        except DocumentError:
            refused += 1
            continue
        except Exception as error:
            wrong.append(f"load: {path} = {str(odd)[:20]!r}: {type(error).__name__} {error}")
            continue
        loaded += 1
        try:
            shown(run, fine)
        except Exception as error:
            wrong.append(f"show: {path} = {str(odd)[:20]!r}: {type(error).__name__} {error}")
    assert not wrong, "\n".join([f"{len(wrong)} of {refused + loaded}", *wrong[:40]])
    assert refused
    assert loaded


def test_a_loaded_run_is_saved_again(saved: Path, tmp_path: Path) -> None:
    """Whatever a file may hold can be written again, half of a surrogate pair too."""
    parts = parts_of(saved)
    head = json.loads(parts["run.json"])
    head["name"] = head["label"] = "\ud800"
    document = json.loads(parts["document.json"])
    document["name"] = "\ud800 \x00"
    changed = {"run.json": json.dumps(head), "document.json": json.dumps(document)}
    more = {name: text.encode() for name, text in changed.items()}
    run = maxlab.load_run(rewritten(tmp_path / "odd.mlprof", {**parts, **more}))
    again = maxlab.load_run(run.save(tmp_path / "again.mlprof"))
    assert (again.name, again.document["name"]) == ("\ud800", "\ud800 \x00")
    page = again.to_html(tmp_path / "page.html").read_text("utf-8")
    assert "\x00" not in page
    assert os.path.getsize(tmp_path / "page.html") > 1000

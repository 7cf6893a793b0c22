"""Queries: one table that Python and the page are held to, and random queries to both."""

from __future__ import annotations

import json
import os
import random
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from maxlab import engine
from maxlab.dtype import DType
from maxlab.errors import QueryError
from maxlab.graph import DeviceRef, Graph, TensorType, ops
from maxlab.lab import GraphView, protocol
from maxlab.lab.query import find_in

ROOT = Path(__file__).resolve().parents[2]
FILE = Path(__file__).with_name("queries.json")
TABLE: dict[str, Any] = json.loads(FILE.read_text("utf-8"))
MARKS: protocol.Marks = TABLE["marks"]


def answer(query: str, where: str) -> dict[str, Any]:
    """What a query gives, in the form of the table."""
    try:
        found = find_in(TABLE["documents"][where], query, MARKS if where == "model" else None)
    except QueryError as error:
        place = {} if error.place is None else {"place": error.place}
        return {"said": error.said, **place}
    return {"ids": found.ids}


@pytest.mark.parametrize("row", TABLE["rows"], ids=lambda row: str(row["query"]) or "empty")
def test_table(row: dict[str, Any]) -> None:
    expected = {key: value for key, value in row.items() if key not in ("query", "in")}
    assert answer(row["query"], row["in"]) == expected


def random_query(rng: random.Random, depth: int = 3) -> str:
    """A query of pieces of the table's rows, which now and then cannot be read."""
    pieces: list[str] = [row["query"] for row in TABLE["rows"] if row["in"] == "model"]
    kind = rng.random()
    if depth == 0 or kind < 0.35:
        piece = rng.choice(pieces)
        cut = rng.random() < 0.15
        return piece[: rng.randrange(len(piece) + 1)] if cut else piece
    one, two = random_query(rng, depth - 1), random_query(rng, depth - 1)
    if kind < 0.55:
        return f"{one} & {two}"
    if kind < 0.7:
        return f"{one}|{two}"
    if kind < 0.8:
        return f"!({one})"
    return f"({one}) {two}" if kind < 0.9 else f"{one} {two}"


def test_python_and_the_page_agree_on_random_queries(tmp_path: Path) -> None:
    vitest = ROOT / "extension" / "node_modules" / ".bin" / "vitest"
    if not vitest.exists():
        pytest.skip("the packages of the front end are not installed")
    rng = random.Random(18)
    queries = [random_query(rng) for _ in range(600)]
    rows = [{"query": query, "in": "model", **answer(query, "model")} for query in queries]
    assert sum("ids" in row for row in rows) > 200
    assert sum("said" in row for row in rows) > 50
    file = tmp_path / "random.json"
    file.write_text(json.dumps({**TABLE, "rows": rows}), "utf-8")
    done = subprocess.run(
        ["node", str(vitest), "run", "test/queries.spec.ts"],
        cwd=ROOT / "extension",
        env={**os.environ, "MAXLAB_QUERIES": str(file)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]


def small() -> Graph:
    x_type = TensorType(DType.float32, ["rows", 4], device=DeviceRef.CPU())
    with Graph("small", input_types=[x_type]) as graph:
        graph.output(ops.softmax(graph.inputs[0].tensor * 2))
    return graph


def test_graphs_models_profiles_and_views_find() -> None:
    graph = small()
    found = graph.find("op=/soft/")
    assert [op.op for op in found] == ["softmax"]
    assert found[0].time_ns is None
    assert "softmax" in repr(found)
    assert repr(graph.find("op=atanh")) == "0 ops found by 'op=atanh'"
    model = engine.InferenceSession().load(graph)
    assert model.find("op=softmax").ids == found.ids
    profile = model.profile(np.ones((3, 4), np.float32), runs=5)
    timed = profile.find("time>0 & op=softmax")
    assert timed.ids == found.ids
    [kernel] = [k for k in profile.kernels if found.ids[0] in k.nodes]
    # One kernel computes both operations: each takes a part of it, and says that it is an estimate.
    both = profile.find("time>0")
    assert [op.is_split for op in both] == [True] * len(kernel.nodes)
    assert sum(op.time_ns or 0 for op in both) == pytest.approx(kernel.ns, rel=1e-4)
    assert "≈" in repr(both)
    assert protocol.SPLIT_MODEL in repr(both)
    view = GraphView(profile)
    view.select(*view.find("op=softmax").ids)
    assert view.selection == found.ids


def test_errors_point_at_the_character() -> None:
    with pytest.raises(QueryError) as caught:
        small().find("op=mul & tme>1ms")
    assert (caught.value.code, caught.value.place) == ("ML910", 9)
    assert str(caught.value).splitlines()[1:3] == ["    op=mul & tme>1ms", "             ^"]
    assert "did you mean 'time'?" in str(caught.value)


def test_times_are_asked_of_what_was_profiled() -> None:
    with pytest.raises(QueryError) as caught:
        small().find("time>1ms")
    assert caught.value.code == "ML911"
    assert "model.profile" in str(caught.value)


@pytest.mark.parametrize(
    ("query", "hint"),
    [
        ("op=matmull", "no operation is called 'matmull'; did you mean op=matmul?"),
        ("dtype=flaot32", "no dtype is called 'flaot32'; did you mean dtype=float32"),
        ("rank=2 & op=softmx", "did you mean op=softmax"),
        ("op=wibblewobble", "no operation is called 'wibblewobble'"),
        ("scope=nowhere", "no scope is called 'nowhere'"),
        ("family=nowhere", "no family is called 'nowhere'"),
        ("op=matmul", None),
        ("op=matm*l", None),
        ("op~/matmull/", None),
        ("dtype=int8", None),
    ],
)
def test_a_value_that_nothing_can_have_is_named_with_what_is_near(
    query: str, hint: str | None
) -> None:
    graph = Graph("double", lambda x: x * 2, [TensorType(DType.float32, ["n"])])
    found = graph.find(query)
    assert len(found) == 0
    if hint is None:
        assert found.hint is None
    else:
        assert found.hint is not None
        assert hint in found.hint
        assert found.hint in repr(found)
    assert graph.find("op=mul").hint is None

"""Results that are tables leave Python's text as CSV and as a DataFrame."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import maxlab
from maxlab.analysis.advice import Advice
from maxlab.analysis.advice.action import Action
from maxlab.dtype import DType
from maxlab.engine import InferenceSession
from maxlab.graph import Graph, TensorType, ops
from maxlab.tabular import Tabular


def graph_types() -> list[TensorType]:
    return [TensorType(DType.float32, ["rows", 16])]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A result of each kind."""
    with Graph("tables", input_types=graph_types()) as graph:
        x = graph.inputs[0].tensor
        graph.output(ops.softmax(ops.tanh(x @ ops.constant(np.eye(16, dtype=np.float32)))))
    model = InferenceSession().load(graph)
    ones = np.ones((8, 16), np.float32)
    profile = model.profile(ones, runs=6)
    path = tmp_path_factory.mktemp("runs") / "saved.mlprof"
    profile.save(path)
    watch = maxlab.watch(model, "n1.max()")
    watch(ones)
    fuse = Action("fuse", "fuse", "Fuse them", "6 kernels", ("k0",), (), 10.5, 0.5, 9.0, 12.0, "x")
    return {
        "timeline": profile.timeline,
        "advice": Advice([fuse]),
        "watch": watch,
        "found": graph.find("op=tanh | op=softmax"),
        "profile": profile,
        "saved run": maxlab.load_run(path),
        "diff": maxlab.diff(profile, model.profile(ones, runs=6)),
        "difference": maxlab.diff(graph, Graph("less", ops.tanh, graph_types())),
        "sweep": maxlab.sweep(model, rows=[4, 8], runs=2),
        "memory": maxlab.memory(profile),
        "roofline": maxlab.roofline(profile),
        "compile report": maxlab.compile_report(model),
        "comparison": maxlab.compare(model, ones, all=True),
    }


KINDS = [
    "found", "profile", "saved run", "diff", "sweep", "memory", "roofline", "compile report",
    "comparison", "difference", "timeline", "advice", "watch",
]  # fmt: skip


def rows_of(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline="")))


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_as_csv(kind: str, results: dict[str, Any], tmp_path: Path) -> None:
    table = results[kind]
    assert isinstance(table, Tabular)
    text = table.to_csv()
    heads, *rows = rows_of(text)
    assert len(set(heads)) == len(heads)
    assert rows
    assert {len(row) for row in rows} == {len(heads)}
    assert table.to_csv(tmp_path / "table.csv") == tmp_path / "table.csv"
    assert (tmp_path / "table.csv").read_bytes() == text.encode()


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_as_a_dataframe(kind: str, results: dict[str, Any]) -> None:
    pytest.importorskip("pandas")
    heads, *rows = rows_of(results[kind].to_csv())
    frame = results[kind].to_dataframe()
    assert list(frame.columns) == heads
    assert len(frame) == len(rows)


def test_numbers_are_not_rounded(results: dict[str, Any]) -> None:
    profile = results["profile"]
    heads, *rows = rows_of(profile.to_csv())
    spent = [float(row[heads.index("time [ns]")]) for row in rows]
    assert spent == [kernel.ns for kernel in profile.kernels]
    assert rows_of(results["saved run"].to_csv()) == [heads, *rows]
    swept = rows_of(results["sweep"].to_csv())
    assert swept[0][0] == "rows"
    assert [row[0] for row in swept[1:] if row[2] == "one run"] == ["4", "8"]


def test_every_kind_that_is_drawn_from_a_document_is_a_table() -> None:
    kinds = {kind for kind in Tabular.__subclasses__() if kind.__module__.startswith("maxlab.")}
    while any(new := {sub for kind in kinds for sub in kind.__subclasses__()} - kinds):
        kinds |= new
    ends = {kind for kind in kinds if not kind.__subclasses__()}
    assert len(ends) >= 9
    for kind in ends:
        assert kind._records is not Tabular._records, kind
        assert kind._heads is not Tabular._heads, kind


def test_names_with_commas_and_quotes_stay_whole() -> None:
    class Odd(Tabular):
        def _heads(self) -> Any:
            return ("name", "value [B]")

        def _records(self) -> Any:
            return [('a "b", c', 1), ("two\nlines", None), ("∑", float("nan"))]

    text = Odd().to_csv()
    assert text.startswith('name,value [B]\r\n"a ""b"", c",1\r\n')
    assert rows_of(text)[1:] == [['a "b", c', "1"], ["two\nlines", ""], ["∑", "nan"]]


def test_the_fields_of_a_timeline_an_advice_and_a_watch(
    results: dict[str, Any],
) -> None:
    timeline = results["timeline"]
    heads, *rows = rows_of(timeline.to_csv())
    assert len(rows) == len(timeline)
    starts = [int(row[heads.index("start [ns]")]) for row in rows]
    assert starts == timeline.start_ns.tolist()
    assert {row[heads.index("kernel")] for row in rows} >= set(timeline.kernels)

    heads, row = rows_of(results["advice"].to_csv())
    assert row[heads.index("saves [ns]")] == "10.5"
    assert row[heads.index("kernels")] == "k0"

    watch = results["watch"]
    heads, row = rows_of(watch.to_csv())
    assert heads == ["run", "n1.max()"]
    assert float(row[1]) == float(watch.last["n1.max()"])

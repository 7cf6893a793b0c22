"""Sweeps measure every combination, and say how costs grow."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import maxlab
from maxlab.analysis.runs.sweep import Point, Sweep
from maxlab.dtype import DType
from maxlab.errors import ArgumentError, InputError
from maxlab.graph import Dim, Graph, TensorType, ops
from maxlab.lab.snapshot import take
from tests.analysis.runs.made import WIDTH, batch, layered, loaded


def two_dims() -> Graph:
    with Graph("outer", input_types=[TensorType(DType.float32, ["rows", "columns"])]) as graph:
        x = graph.inputs[0].tensor
        graph.output(ops.softmax(x), x @ ops.transpose(x, 0, 1))
    return graph


def test_every_size_is_measured() -> None:
    model = loaded(layered(2))
    found = maxlab.sweep(model, batch=[8, 1, 2, 8], runs=7)
    assert [point.sizes for point in found.points] == [{"batch": 1}, {"batch": 2}, {"batch": 8}]
    assert [k.id for k in found.kernels] == ["k0", "k1"]
    for point in found.points:
        assert point.kernel_ns.shape == (7, 2)
        assert point.wall_ns.shape == (7,)
    kernel = found.kernel("k1")
    assert (kernel.low_ns <= kernel.ns).all()
    assert (kernel.ns <= kernel.high_ns).all()
    assert set(kernel.nodes) == set(model.kernels["k1"].nodes)
    with pytest.raises(KeyError):
        found.kernel("k9")


def test_a_sweep_leaves_the_model_as_it_was() -> None:
    model = loaded(layered(1))
    last = model.profile(batch(), runs=2)
    revision = model.revision
    maxlab.sweep(model, batch=[1, 2], runs=2)
    assert model.last_profile is last
    assert model.revision == revision


def test_work_grows_as_it_must() -> None:
    found = maxlab.sweep(loaded(two_dims()), rows=[16, 32, 64], columns=[32, 64], runs=2)
    assert len(found.points) == 6
    [product] = [k for k in found.kernels if k.kind == "contract"]
    assert product.growth["rows"].flops == pytest.approx(2)
    assert product.growth["columns"].flops == pytest.approx(1)
    for kernel in found.kernels:
        if kernel is not product and kernel.growth["rows"].flops > 0:
            assert kernel.growth["rows"].flops == pytest.approx(1)


def test_powers_come_from_points_that_differ_in_one_dim() -> None:
    """Times that are known: 3 rows² columns, with one point far off."""
    model = loaded(two_dims())
    profile = model.profile(np.ones((4, 4), np.float32), runs=1)
    count = len(profile.kernels)
    points = []
    for rows in (2, 4, 8, 16):
        for columns in (3, 9, 27):
            ns = 3 * rows**2 * columns * (40 if (rows, columns) == (4, 9) else 1)
            work = np.full(count, rows * columns, np.float64)
            points.append(
                Point(
                    {"rows": rows, "columns": columns},
                    {"rows": rows, "columns": columns},
                    np.full(3, ns),
                    np.full((3, count), ns),
                    work,
                    2 * work,
                )
            )
    found = Sweep({"rows": (2, 4, 8, 16), "columns": (3, 9, 27)}, points, profile)
    growth = found.kernels[0].growth
    assert growth["rows"].time == pytest.approx(2, abs=1e-6)
    assert growth["columns"].time == pytest.approx(1, abs=1e-6)
    assert (growth["rows"].flops, growth["rows"].nbytes) == pytest.approx((1, 1))
    assert found.growth["rows"].time == pytest.approx(2, abs=1e-6)


def test_inputs_are_given_or_made() -> None:
    model = loaded(layered(1))
    asked: list[int] = []

    def inputs(batch: int) -> Any:
        asked.append(batch)
        return np.ones((batch, WIDTH), np.float32)

    maxlab.sweep(model, inputs, batch=[2, 3], runs=1)
    assert asked == [2, 3]
    assert repr(maxlab.sweep(model, {"batch": [2, 3]}, runs=1)).startswith("Sweep('layered', batch")


def test_indices_are_made_so_that_they_are_in_range() -> None:
    with Graph("rows", input_types=[TensorType(DType.int64, ["n"])]) as graph:
        table = ops.constant(np.ones((1, 4), np.float32), DType.float32)
        graph.output(ops.gather(table, graph.inputs[0].tensor, 0))
    found = maxlab.sweep(loaded(graph), n=[1, 5], runs=1)
    assert len(found.points) == 2


def test_dims_that_are_not_swept_come_from_the_newest_profile() -> None:
    model = loaded(two_dims())
    with pytest.raises(ArgumentError, match="the size of columns is not known"):
        maxlab.sweep(model, rows=[1, 2], runs=1)
    model.profile(np.ones((3, 5), np.float32), runs=1)
    found = maxlab.sweep(model, rows=[1, 2], runs=1)
    assert [dict(point.dims) for point in found.points] == [
        {"rows": 1, "columns": 5},
        {"rows": 2, "columns": 5},
    ]


@pytest.mark.parametrize(
    "sizes",
    [
        {},
        {"batches": [1]},
        {"batch": []},
        {"batch": [0]},
        {"batch": [1.5]},
        {"batch": 4},
        {"batch": ["4", None]},
        {"batch": range(1, 300)},
    ],
)
def test_sizes_that_cannot_be_swept_are_refused(sizes: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match="ML848"):
        maxlab.sweep(loaded(layered(1)), **sizes)


def test_only_models_are_swept() -> None:
    with pytest.raises(TypeError, match="ML848"):
        maxlab.sweep(layered(1), batch=[1])


def test_sizes_that_the_graph_does_not_allow_are_said() -> None:
    with Graph("even", input_types=[TensorType(DType.float32, ["n"])]) as graph:
        even = Dim("n") // 2 * 2
        graph.output(ops.rebind(graph.inputs[0].tensor, [even], "even").reshape((Dim("n") // 2, 2)))
    with pytest.raises(InputError):
        maxlab.sweep(loaded(graph), n=[4, 5], runs=1)


def test_a_sweep_is_text_and_a_view() -> None:
    found = maxlab.sweep(loaded(layered(2)), batch=list(range(1, 12)), runs=1)
    lines = found.table().splitlines()
    assert lines[0] == "layered on cpu, 1 thread"
    assert "batch =" in lines[2]
    sizes = lines[2].split()[2:-2]
    assert (sizes[0], sizes[-1]) == ("1", "11"), "the first and the last size are always there"
    assert len(sizes) < 11
    assert lines[3].split()[:2] == ["one", "run"]
    assert found.table(rows=1).splitlines()[-1] == "… 1 more"
    document: Any = take(found).document
    data = document["answers"]["runs"]
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    assert (data["kind"], data["dims"], len(data["points"])) == ("sweep", ["batch"], 11)
    assert all(len(k["ns"]) == 11 for k in data["kernels"])
    assert document["panel"] == "runs"

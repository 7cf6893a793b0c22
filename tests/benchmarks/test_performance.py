"""The comparison with peers: its workers, its numbers, and the page that is drawn from them."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.performance import graphs
from benchmarks.performance.bodies import BODIES, rounded
from benchmarks.performance.cold import WORKER
from benchmarks.performance.errors import apart, unit
from benchmarks.performance.page import PAGE, cell, columns, drawn, order, records, verdict
from benchmarks.performance.rows import COLD, PEERS, ROWS, Row
from benchmarks.performance.table import line, summary
from benchmarks.turns import Turns, Worker, ratio

MARK = "<!-- made with MAXLAB_WRITE_DOCS=1 by tests/benchmarks/test_performance.py -->\n"


def turns(*medians: int) -> Turns:
    """One turn of three runs for each of ``medians``, nanoseconds; the processor takes half."""
    return [[(m - 2, m // 2), (m, m // 2), (m + 2, m // 2)] for m in medians]


def test_the_page_is_up_to_date() -> None:
    head, mark, written = PAGE.read_text("utf-8").partition(MARK)
    assert mark
    if os.environ.get("MAXLAB_WRITE_DOCS"):
        PAGE.write_text(head + MARK + drawn(records()), "utf-8")
    else:
        assert written == drawn(records()), f"run MAXLAB_WRITE_DOCS=1 pytest {Path(__file__).name}"


def test_every_row_has_a_table_of_the_page() -> None:
    assert sorted(order()) == sorted([*ROWS, *(f"cold_{name}" for name in COLD)])


@pytest.mark.parametrize("row", ROWS.values(), ids=lambda row: row.name)
def test_rows_name_peers_that_exist(row: Row) -> None:
    assert row.peers[0] == "maxlab"
    assert {*row.peers} <= {*PEERS}
    assert (row.name in BODIES) == (row.kind == "body")


def test_first_numbers_are_of_rows_that_exist() -> None:
    assert {cold.row for cold in COLD.values()} <= {*BODIES, *ROWS}
    assert all({*cold.peers} <= {*PEERS} and cold.peers[0] == "maxlab" for cold in COLD.values())


# ---------------------------------------------------------------- what is computed
@pytest.mark.parametrize("name", ["softmax_gelu_64x2048", "mixed_200_ops"])
def test_graphs_compute_what_torch_does_in_float64(name: str) -> None:
    pytest.importorskip("torch", reason="torch not installed")
    from benchmarks.performance import with_torch

    found = graphs.arrays("maxlab", graphs.prepared("maxlab", name, 1)())
    told = apart(found, with_torch.exact(name), ROWS[name])
    assert 0 < told["relative"] < 3e-5


def test_networks_are_those_of_the_papers() -> None:
    """The numbers of parameters that torchvision has too."""
    pytest.importorskip("torch", reason="torch not installed")
    from benchmarks.performance.nets import mobilenet_v3_small, resnet18

    for make, count in ((resnet18, 11_689_512), (mobilenet_v3_small, 2_542_856)):
        assert sum(p.numel() for p in make().parameters()) == count


def test_rounding_to_bfloat16_is_that_of_ml_dtypes() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes not installed")
    x = np.random.default_rng(0).standard_normal(1000, np.float32)
    x[:2] = np.float32(1 + 2**-8), np.float32(1 + 3 * 2**-8)  # ties
    np.testing.assert_array_equal(rounded(x), x.astype(ml_dtypes.bfloat16).astype(np.float32))


# ---------------------------------------------------------------- what is told
def test_units_are_those_of_the_binade() -> None:
    x = np.array([1.0, 1.5, 0.999, 4.0, -3.0, 2.0**-140])
    wanted = [float(np.spacing(np.float32(abs(v)))) for v in x]
    np.testing.assert_array_equal(unit(x, 24), wanted)


def test_a_result_that_is_off_is_refused() -> None:
    row = ROWS["exp_1m"]
    exact = [np.linspace(0.0, 1.0, 5)]
    assert apart([exact[0].astype(np.float32)], exact, row)["ulp"] <= 0.5
    with pytest.raises(RuntimeError, match="off by 1.0e-03"):
        apart([exact[0] + 1e-3], exact, row)
    with pytest.raises(RuntimeError, match="off by nan"):
        apart([exact[0] * np.nan], exact, row)
    with pytest.raises(RuntimeError, match="are not"):
        apart([exact[0][:4]], exact, row)


def test_directions_are_compared_row_by_row() -> None:
    row = ROWS["minilm_8x64_int8"]
    exact = [np.eye(3)[:2]]
    near = [exact[0] * 2 + [[0, 0.02, 0], [0, 0, 0]]]
    told = apart(near, exact, row)
    assert told["cosine"] == pytest.approx(1 / np.hypot(1, 0.01))
    for wrong in (exact[0] + [[0, 0.1, 0], [0, 0, 0]], exact[0] * np.nan, -exact[0]):
        with pytest.raises(RuntimeError, match="as near as a cosine of"):
            apart([wrong], exact, row)


def test_a_ratio_has_the_spread_of_its_turns() -> None:
    assert ratio(turns(200, 200, 200), turns(100, 100, 100), 0) == [2.0, 2.0, 2.0]
    middle, low, high = ratio(turns(*range(150, 251, 10)), turns(100, 100), 0)
    assert low < middle == 2.0 < high


def test_a_row_tells_losses_as_plainly_as_wins() -> None:
    found = summary({"maxlab": turns(100, 100), "torch": turns(50, 50), "max": turns(300, 300)}, 1)
    assert found["maxlab"]["ratio"] is None
    assert [verdict(found[p]["ratio"]) for p in ("torch", "max")] == ["behind", "ahead"]
    assert verdict([1.1, 0.9, 1.3]) == "level"
    row = {
        "row": "exp_1m", "about": "exp", "threads": 1, "load": 0.0, "peers": found,
        "missing": {"openvino": "not | there"},
    }  # fmt: skip
    assert cell(row, "torch") == "**0.50 [0.50, 0.50]**"
    assert cell(row, "max") == "3.00 [3.00, 3.00]"
    assert cell(row, "openvino") == "not \\| there"
    assert "3.00 [3.00, 3.00]" in line(row)
    table = {
        "cpu": "A", "date": "2026-01-01", "flags": ["avx2"], "cpus": 2, "versions": {"max": "1"},
        "rows": [row],
    }  # fmt: skip
    text = drawn([table])
    assert "A, 1 thread: 1 of 1 rows" in text
    assert "| exp of 1 M, torch | **0.50 [0.50, 0.50]** |" in text
    later = {**row, "load": 1.0}
    assert columns([table, {**table, "rows": [later]}])["A", 1]["exp_1m"]["load"] == 1.0


# ---------------------------------------------------------------- workers
def test_a_worker_prepares_times_and_says_what_fails(tmp_path: Path) -> None:
    worker = Worker("maxlab", [sys.executable, str(WORKER), "maxlab", "1"])
    try:
        said: dict[str, Any] = worker.ask(60.0, prepare="dispatch", save=str(tmp_path / "a.npz"))
        assert said["count"] >= 3
        (found,) = np.load(tmp_path / "a.npz").values()
        np.testing.assert_array_equal(found, BODIES["dispatch"].inputs()[0] + 1)
        times = worker.turn("dispatch", 5, 0.0)
        assert len(times) == 5
        with pytest.raises(RuntimeError, match="KeyError: 'no_such_row'"):
            worker.ask(prepare="no_such_row", save=str(tmp_path / "b.npz"))
    finally:
        worker.close()


def test_a_worker_that_takes_too_long_is_ended() -> None:
    program = "import time; print('{}', flush=True); input(); time.sleep(60)"
    worker = Worker("slow", [sys.executable, "-c", program])
    with pytest.raises(RuntimeError, match=r"no answer after 0\.2 s"):
        worker.ask(0.2, case="x")
    assert worker.process.wait(10)
    worker.close()

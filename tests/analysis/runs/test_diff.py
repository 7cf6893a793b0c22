"""What a comparison says, on times that are known."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import maxlab
from maxlab.analysis.runs import Diff, SavedRun, diff, record
from maxlab.analysis.runs.gate import Limit, judge, parse_limit
from maxlab.compiler import Options
from maxlab.dtype import DType
from maxlab.errors import ArgumentError
from maxlab.lab.protocol import GRAPH_MIME
from maxlab.lab.snapshot import take, unpack
from tests.analysis.runs.made import batch, layered, loaded, profiled, with_times

KERNELS = 3


@pytest.fixture(scope="module")
def run() -> SavedRun:
    found = record(profiled(layered(KERNELS)))
    assert len(found.kernels) == KERNELS
    return found


def times(middles: list[float], runs: int = 24, noise: float = 0.01, seed: int = 0) -> Any:
    """Samples of kernels about ``middles``."""
    chance = np.random.default_rng(seed)
    return np.array(middles) * np.exp(noise * chance.normal(size=(runs, len(middles))))


BASE = [100_000.0, 50_000.0, 200_000.0]


def test_a_regression_is_named_and_the_rest_is_not(run: SavedRun) -> None:
    before = with_times(run, times(BASE, seed=1), label="old")
    after = with_times(run, times([100_000, 60_000, 200_000], seed=2), label="new")
    found = maxlab.diff(before, after)
    assert [c.state for c in found.changes] == ["same", "slower", "same"]
    [slower] = found.regressions
    assert slower.before == slower.after == ("k1",)
    assert slower.estimate.ratio == pytest.approx(1.2, rel=0.02)
    assert slower.estimate.low < 1.2 < slower.estimate.high
    assert slower.delta_ns == pytest.approx(10_000, rel=0.1)
    assert slower.nodes_after == run.kernels[1].nodes
    assert found.pairs[0].wall_state == "slower"
    assert re.fullmatch(r"Diff\(old → new: \+[234]\.\d%, slower\)", repr(found))


def test_noise_is_no_regression(run: SavedRun) -> None:
    before = with_times(run, times(BASE, noise=0.15, seed=3))
    after = with_times(run, times(BASE, noise=0.15, seed=4))
    found = maxlab.diff(before, after)
    assert not found.regressions
    assert {c.state for c in found.changes} <= {"unclear", "same"}
    assert "no difference shown" in found.table()


def test_text_says_what_is_known(run: SavedRun) -> None:
    before = with_times(run, times(BASE, seed=1), label="old")
    after = with_times(run, times([100_000, 60_000, 200_000], seed=2), label="new")
    text = maxlab.diff(before, after).table()
    lines = text.splitlines()
    assert lines[0] == "old → new: layered"
    assert lines[1].startswith("  one run ")
    assert lines[1].endswith("slower")
    [row] = [line for line in lines if line.startswith("k1 ")]
    assert row.endswith("slower")
    assert "+20." in row
    assert next(line for line in lines if line.startswith("k")).startswith("kernel")
    assert maxlab.diff(before, after).table(rows=1).splitlines()[-1].startswith("… 2 more")


def test_several_runs_on_a_side_count_once_each(run: SavedRun) -> None:
    def side(scale: float, seeds: range) -> list[SavedRun]:
        shifts = np.exp(0.05 * np.random.default_rng(seeds.start).normal(size=len(seeds)))
        return [
            with_times(run, times([scale * s * ns for ns in BASE], seed=seed))
            for seed, s in zip(seeds, shifts, strict=True)
        ]

    found = maxlab.diff(side(1, range(10, 14)), side(1, range(20, 24)))
    assert not found.regressions
    found = maxlab.diff(side(1, range(10, 14)), side(1.5, range(20, 24)))
    assert len(found.regressions) == KERNELS
    assert not any("one process" in note for note in found.pairs[0].notes)


def test_runs_of_a_side_must_repeat_each_other(run: SavedRun) -> None:
    other = record(profiled(layered(2)))
    with pytest.raises(ArgumentError, match="ML847"):
        maxlab.diff([run, other], run)
    longer = record(profiled(layered(KERNELS), rows=9))
    with pytest.raises(ArgumentError, match="ML847"):
        maxlab.diff([run, longer], run)


def test_a_new_op_is_new_and_shifts_nothing(run: SavedRun) -> None:
    after = record(profiled(layered(KERNELS, softmax_after=0)))
    found = maxlab.diff(run, after)
    [new] = [c for c in found.changes if not c.before]
    assert new.state == "new"
    names = {n["id"]: n["op"] for n in after.document["nodes"]}
    assert {names[node] for node in new.nodes_after} == {"softmax"}
    paired = [(c.before, c.after) for c in found.changes if c.before]
    assert paired == [(("k0",), ("k0",)), (("k1",), ("k2",)), (("k2",), ("k3",))]
    back = maxlab.diff(after, run)
    assert [c.state for c in back.changes if not c.after] == ["gone"]


def test_fusion_undone_is_compared_together(run: SavedRun) -> None:
    model = loaded(layered(KERNELS))
    apart = model.reload(options=Options(fuse=False)).profile(batch(), runs=6)
    found = maxlab.diff(model.profile(batch(), runs=6), apart)
    assert all(c.regrouped for c in found.changes)
    assert [c.before for c in found.changes] == [("k0",), ("k1",), ("k2",)]
    assert sum(len(c.after) for c in found.changes) == len(apart.kernels)
    assert any("fuse=False" in note for note in found.pairs[0].notes)
    total = sum(c.estimate.after_ns for c in found.changes)
    assert total == pytest.approx(apart.kernel_ns, rel=0.5)


def test_other_code_is_told_from_the_same(run: SavedRun) -> None:
    again = record(profiled(layered(KERNELS)))
    assert {c.code for c in maxlab.diff(run, again).changes} == {"same"}
    wide = record(profiled(layered(KERNELS, dtype=DType.float64), dtype=DType.float64))
    assert {c.code for c in maxlab.diff(run, wide).changes} == {"changed"}


def test_notes_name_what_differs(run: SavedRun) -> None:
    machine = {**run.machine, "cpu": "Abacus 3", "compiler": "gcc 99"}
    after = with_times(
        run, times(BASE), machine=machine, threads=7, dims={"batch": 99}, options="fuse=False"
    )
    notes = "\n".join(maxlab.diff(run, after).pairs[0].notes)
    for said in ("'Abacus 3' after", "'gcc 99'", "7 after", "batch = 99", "fuse=False"):
        assert said in notes


def test_kernels_that_did_not_change_tell_of_the_machine(run: SavedRun) -> None:
    before = with_times(run, times(BASE, seed=5))
    after = with_times(run, times([1.3 * ns for ns in BASE], seed=6))
    [note] = [n for n in maxlab.diff(before, after).pairs[0].notes if "machine" in n]
    assert note.startswith(f"{KERNELS} kernels with the same code and sizes changed by +")
    quiet = with_times(run, times(BASE, seed=7))
    assert not any("the machine" in n for n in maxlab.diff(before, quiet).pairs[0].notes)


def test_what_slows_all_kernels_alike_needs_several_processes(run: SavedRun) -> None:
    """One process each cannot tell a program from a machine that is slower by 10 %."""

    def side(scale: float, seeds: range) -> list[SavedRun]:
        return [with_times(run, times([scale * ns for ns in BASE], seed=n)) for n in seeds]

    alone = maxlab.diff(side(1, range(1)), side(1.1, range(8, 9)))
    assert alone.wall.ratio == pytest.approx(1.1, rel=0.02)
    assert alone.pairs[0].wall_state == "unclear"
    assert {c.state for c in alone.changes} == {"unclear"}
    assert any("may be the machine" in note for note in alone.pairs[0].notes)
    verdict = judge(alone, parse_limit("+5%"))
    assert (len(verdict.exceeded), len(verdict.unclear)) == (0, 1)
    several = maxlab.diff(side(1, range(4)), side(1.1, range(8, 12)))
    assert {c.state for c in several.changes} == {"slower"}
    assert several.pairs[0].wall_state == "slower"


def test_a_busy_machine_is_no_regression(run: SavedRun) -> None:
    """What slowed most of one side's own executions may have slowed all of the other's."""

    def side(scale: float, seed: int, label: str, busy: float = 1.0) -> SavedRun:
        found = with_times(run, times([scale * ns for ns in BASE], seed=seed), label=label)
        found.wall_samples_ns = found.wall_samples_ns * np.array([1.0, *[busy] * 23])
        return found

    quiet, same = side(1, 1, "quiet"), side(1, 2, "busy", busy=2.5)
    [pair] = maxlab.diff(quiet, same).pairs
    assert pair.wall.ratio > 2
    assert pair.wall_state == "unclear"
    [note] = [n for n in pair.notes if "busy during" in n]
    assert note.startswith("the machine was busy during busy (the fastest execution took ")
    assert note.endswith("only a larger change is called one")
    [pair] = maxlab.diff(quiet, side(1, 3, "still quiet")).pairs
    assert not any("busy" in n for n in pair.notes)


def test_one_run_shows_nothing(run: SavedRun) -> None:
    once = with_times(run, [BASE])
    found = maxlab.diff(once, with_times(run, [[3 * ns for ns in BASE]]))
    assert {c.state for c in found.changes} == {"few"}
    assert found.pairs[0].wall_state == "few"
    assert "too few runs to tell" in str(found)
    assert "%" not in str(found).partition("note:")[0]  # 3 times as long, of one run each
    assert any("no difference can be shown" in note for note in found.pairs[0].notes)


def test_more_than_two(run: SavedRun) -> None:
    runs = [
        with_times(run, times([BASE[0], scale * BASE[1], BASE[2]], seed=n), label=f"r{n}")
        for n, scale in enumerate((1, 1, 3))
    ]
    found = maxlab.diff(*runs)
    assert [pair.after.label for pair in found.pairs] == ["r1", "r2"]
    assert [pair.wall_state for pair in found.pairs] == ["same", "slower"]
    assert found.changes is found.pairs[-1].changes
    assert found.table().count("one run") == 2


def test_equal_labels_are_told_apart(run: SavedRun) -> None:
    assert [side.label for side in maxlab.diff(run, run).sides] == ["before", "after"]
    assert [side.label for side in maxlab.diff(run, run, run).sides] == [
        "layered 1",
        "layered 2",
        "layered 3",
    ]


def test_folders_and_paths_are_runs(run: SavedRun, tmp_path: Path) -> None:
    for side in ("old", "new"):
        (tmp_path / side).mkdir()
        for n in range(3):
            run.save(tmp_path / side / f"{n}.mlprof")
    found = maxlab.diff(tmp_path / "old", str(tmp_path / "new"))
    assert [(s.label, len(s.runs)) for s in found.sides] == [("old", 3), ("new", 3)]
    assert [p.wall_state for p in found.pairs] == ["same"]
    (tmp_path / "none").mkdir()
    with pytest.raises(ArgumentError, match="ML846"):
        maxlab.diff(tmp_path / "none", run)


@pytest.mark.parametrize("wrong", [{"confidence": 1.0}, {"margin": 0.0}, {"least": -0.1}])
def test_fractions_out_of_range_are_refused(run: SavedRun, wrong: dict[str, float]) -> None:
    with pytest.raises(ArgumentError, match="ML846"):
        maxlab.diff(run, run, **wrong)


# ---------------------------------------------------------------- views


def slower(run: SavedRun) -> Diff:
    return diff(
        with_times(run, times(BASE, seed=1), label="old"),
        with_times(run, times([100_000, 60_000, 200_000], seed=2), label="new"),
    )


def test_a_comparison_is_drawn_as_the_newest_graph(run: SavedRun) -> None:
    found = slower(run)
    document: Any = take(found).document
    assert document["panel"] == "runs"
    data = document["answers"]["runs"]
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    assert [side["label"] for side in data["sides"]] == ["old", "new"]
    [pair] = data["pairs"]
    assert pair["rows"][0]["state"] == "slower", "what changed comes first"
    known = {node["id"] for node in document["nodes"]}
    assert all(set(row["nodes"]) <= known for row in pair["rows"])
    packed = found._repr_mimebundle_(include={GRAPH_MIME})[GRAPH_MIME]
    assert unpack(packed)["answers"]["runs"] == data
    assert "<noscript><pre>old → new" in found.to_html()


def test_rows_of_all_pairs_name_ops_of_the_graph_that_is_drawn(run: SavedRun) -> None:
    middle = record(profiled(layered(KERNELS, softmax_after=0)))
    last = record(profiled(layered(KERNELS)))
    data = maxlab.diff(run, middle, last).data()
    known = {node["id"]: node["op"] for node in last.document["nodes"]}
    for pair in data["pairs"]:
        assert all(set(row["nodes"]) <= set(known) for row in pair["rows"])
    [new] = [row for row in data["pairs"][0]["rows"] if row["state"] == "new"]
    assert new["nodes"] == [], "the op is not in the graph that is drawn"


# ---------------------------------------------------------------- limits


def test_limits_are_judged_by_what_is_shown(run: SavedRun) -> None:
    found = slower(run)
    verdict = judge(found, parse_limit("kernel:+10%"))
    assert [text.split()[1] for text in verdict.exceeded] == ["k1"]
    assert judge(found, parse_limit("kernel:+30%")).exceeded == ()
    assert judge(found, parse_limit("+10%")) == type(verdict)(Limit("run", 0.1), (), ())
    assert judge(found, parse_limit("kernels:+2%")).exceeded


def test_what_is_within_noise_is_unclear(run: SavedRun) -> None:
    before = with_times(run, times(BASE, noise=0.3, runs=6, seed=1))
    after = with_times(run, times([1.06 * ns for ns in BASE], noise=0.3, runs=6, seed=9))
    found = maxlab.diff(before, after)
    assert found.wall.ratio > 1.02
    verdict = judge(found, parse_limit("+2%"))
    assert not verdict.exceeded
    assert len(verdict.unclear) == 1


@pytest.mark.parametrize("text", ["5", "-5%", "+5 ms", "run+5%", "all:+5%", "", "+%", "+1e3%"])
def test_what_is_no_limit_is_refused(text: str) -> None:
    with pytest.raises(ArgumentError, match="ML849"):
        parse_limit(text)

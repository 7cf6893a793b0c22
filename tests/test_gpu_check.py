"""``scripts/gpu_check`` and the GPU benchmarks, as far as a machine without a GPU can try them."""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.gpu import data, minilm
from benchmarks.gpu.case import Bench, Goal
from benchmarks.gpu.timing import TINY, Contender, Effort, Timer
from maxlab.driver.backend import Properties
from maxlab.dtype import DType
from scripts.gpu_checks import carry, main, report, stages
from scripts.gpu_checks.stage import Done, Machine, Stage, timed
from tests.driver_cuda.conftest import need_pycuda
from tests.driver_cuda.fake import harness

ROOT = Path(__file__).resolve().parents[1]
ONE_TEST = "tests/cuda/test_models.py::test_a_number_is_uploaded"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """This machine, with a minute left."""
    made = Machine(sys.executable, tmp_path, tmp_path, True, time.monotonic() + 60)
    made.env["PYTHONPATH"] = str(ROOT)
    return made


# ---------------------------------------------------------------- the whole of it
def test_a_dry_run_goes_through_every_stage(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "scripts" / "gpu_check"), "--dry-run"]
    command += ["--out", str(tmp_path), "--tests", ONE_TEST, "--groups", "bandwidth,overhead"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == main.EXIT_PASSED, done.stdout + done.stderr
    found = json.loads((tmp_path / "gpu-check-dry-run.json").read_text("utf-8"))
    assert found["simulated"]
    assert found["complete"]
    by_name = {stage["name"]: stage for stage in found["stages"]}
    assert list(by_name) == list(main.BUDGETS)
    assert {stage["status"] for stage in found["stages"]} == {"passed"}
    assert by_name["tests"]["facts"]["outcomes"]["passed"] == 1
    rows = by_name["benchmarks"]["facts"]["rows"]
    assert {"softmax", "layer_norm", "add"} <= {row["case"].split()[0] for row in rows}
    assert all(row["median_us"] > 0 and not row["error"] for row in rows)
    # Nothing that was simulated may look like a result.
    assert all(row["met"] is None for row in rows)
    page = (tmp_path / "gpu-check-dry-run.md").read_text("utf-8")
    assert "no number means anything" in page
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "gpu-check-dry-run.json",
        "gpu-check-dry-run.md",
    ]


def test_a_dry_run_is_not_written_as_a_result(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main.parse(["--dry-run", "--out", str(main.RESULTS)])
    assert "is no result" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main.parse(["--stages", "install,testing"])
    assert "there is no testing" in capsys.readouterr().err


def test_the_stages_fit_into_nine_minutes() -> None:
    assert sum(main.BUDGETS.values()) <= 9 * 60
    assert main.parse([]).minutes < 9
    assert sum(stages.GROUPS.values()) == pytest.approx(1.0)


def test_the_benchmarks_run_on_the_driver() -> None:
    """Events, recordings and cuBLASLt as on a GPU, against the fake driver and the stand-in."""
    need_pycuda()
    result = harness.run(
        "import sys\n"
        "from benchmarks.gpu.__main__ import main\n"
        "sys.exit(main(['products', 'attention', 'overhead', 'minilm', '--tiny']))\n",
        blas=True,
    )
    assert result.code == 0, result.out + result.err
    assert "cuBLASLt" in result.out
    assert result.report["graph launches"] > 0
    assert set(result.report["left"].values()) == {0}


# ---------------------------------------------------------------- stages
def test_a_stage_that_raises_does_not_stop_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    def work(stage: Stage) -> None:
        raise OSError("no disk")

    stage = timed("facts", work)
    assert (stage.status, stage.why) == ("failed", "OSError: no disk")
    assert "failed" in capsys.readouterr().out
    passed, absent = Stage("a"), Stage("b", "not run")
    assert main.status([passed]) == main.EXIT_PASSED
    assert main.status([passed, absent]) == main.EXIT_NOT_RUN
    assert main.status([absent, stage, passed]) == main.EXIT_FAILED


def test_a_command_is_stopped_with_its_children(machine: Machine) -> None:
    begin = time.monotonic()
    done = machine.run(["sh", "-c", "echo started; sleep 50 & sleep 50"], 1.0, log="sh.log")
    assert done.code is None
    assert time.monotonic() - begin < 20
    assert (machine.out / "sh.log").read_text() == "started\n"
    machine.deadline = time.monotonic()
    assert machine.run(["true"], 10).code is None


TESTS = """
import time
import pytest

@pytest.fixture
def gpu():
    return 1

def test_good(gpu): pass
def test_bad(gpu): assert gpu == 2, "planted"
def test_skipped(gpu): pytest.skip("no peer")
def test_host(): assert False, "it is not for a device"
@pytest.mark.parametrize("on_device", ["fake", "gpu"])
def test_both(on_device): assert on_device == "gpu"
"""


def test_device_tests_are_chosen_and_counted(machine: Machine, tmp_path: Path) -> None:
    file = tmp_path / "test_planted.py"
    file.write_text(TESTS)
    stage = Stage("tests")
    stages.tests(machine, stage, [str(file)], 60)
    assert stage.status == "failed"
    assert stage.facts["outcomes"] == {
        "passed": 2, "failed": 1, "skipped": 1, "not for a device": 2,
    }  # fmt: skip
    (failed,) = stage.facts["failed"]
    assert "test_bad" in failed["test"]
    assert "planted" in failed["why"]
    assert "no peer" in stage.facts["skipped"][0]


def test_a_process_that_dies_leaves_what_was_before_it(machine: Machine, tmp_path: Path) -> None:
    file = tmp_path / "test_dying.py"
    last = "    os.kill(os.getpid(), 9)\n"
    file.write_text(f"import os\n{TESTS}\ndef test_last(gpu):\n{last}def test_never(gpu): pass\n")
    stage = Stage("tests")
    stages.tests(machine, stage, [str(file)], 60)
    assert stage.status == "failed"
    assert "status -9, 4 of 6 tests done" in stage.why
    assert stage.facts["outcomes"]["passed"] == 2


CLEAN = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"
STRAY = "========= Invalid __global__ write of size 4 bytes\n========= ERROR SUMMARY: 32 errors\n"
RACES = "========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)\n"
NO_RACES = "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n"
REFUSED = "========= Error: Device not supported. Please refer to the documentation.\n"


def sanitized(**found: tuple[Done, Done | None]) -> Stage:
    """The stage after the tools said this."""
    stage = Stage("sanitizer")
    stages.judge(stage, found)
    return stage


def test_what_the_sanitizer_says() -> None:
    assert [stages.errors_of(t) for t in (CLEAN, STRAY, RACES, NO_RACES, REFUSED)] == [
        0, 32, 1, 0, None,
    ]  # fmt: skip
    saw_stray, saw_race = Done(stages.FOUND, STRAY, 1), Done(stages.FOUND, RACES, 1)
    clean = Done(0, CLEAN, 5)
    good = sanitized(memcheck=(saw_stray, clean), racecheck=(saw_race, Done(0, NO_RACES, 5)))
    assert good.status == "passed"
    bad = sanitized(memcheck=(saw_stray, Done(stages.FOUND, STRAY, 5)))
    assert bad.status == "failed"
    assert "errors: 32" in bad.why
    # Kernels may not pass under a tool that is not looking.
    blind = sanitized(memcheck=(Done(1, REFUSED, 1), None), racecheck=(saw_race, clean))
    assert blind.status == "not run"
    assert "Device not supported" in blind.why
    slow = sanitized(memcheck=(saw_stray, Done(None, "", 60)))
    assert slow.status == "failed"


def test_device_tests_import_nothing_that_is_not_carried(tmp_path: Path) -> None:
    """As on a machine that has Python, and what ``--pack`` has packed, and nothing else."""
    carried = {name.replace("-", "_") for name in (*carry.MAXLAB, *carry.PYCUDA_NEEDS)}
    modules = sorted(carried | {"_pytest", "pycuda"})
    program = f"""
import importlib.machinery, importlib.metadata, sys
ours = {modules!r}
ours += [m for m, d in importlib.metadata.packages_distributions().items()
         if {{x.lower().replace("-", "_") for x in d}} & set(ours)]
usual = importlib.machinery.PathFinder.find_spec
class Carried:  # what else is installed here is not found
    def find_spec(name, path=None, target=None):
        spec = usual(name, path, target)
        if spec and name.split(".")[0] not in ours and "site-packages" in (spec.origin or ""):
            return None
        return spec
at = sys.meta_path.index(importlib.machinery.PathFinder)
sys.meta_path[at] = Carried
import pytest
sys.exit(pytest.main(["-q", "-p", "pytest_timeout", "-p", "no:cacheprovider", "--collect-only",
                      *{list(stages.DEVICE_TESTS)!r}]))
"""
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]


def test_only_what_is_missing_is_installed(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage("install")
    carry.install(machine, stage, None, 30)
    assert stage.status == "passed", stage.why
    assert stage.facts["installed"] == {}
    monkeypatch.setitem(carry.MAXLAB, "numpy", "99")
    monkeypatch.setitem(carry.MAXLAB, "no-such-package", "1")
    stage = Stage("install")
    carry.install(machine, stage, None, 30)
    assert stage.status == "failed"
    assert "no-such-package" in stage.why
    assert "numpy" in stage.why
    assert carry.version_of("2.11.0+cu130") == (2, 11, 0)
    assert carry.version_of("1.0rc1") == (1, 0)


def test_the_report_shows_what_was_not_reached() -> None:
    row: dict[str, Any] = {
        "group": "product", "case": "8192", "name": "maxlab", "median_us": 1400.0, "q1_us": 1390.0,
        "q3_us": 1410.0, "rate": 780.0, "unit": "TFLOP/s", "than": "cuBLASLt", "ratio": 0.9,
        "goal": "≥ 0.97 × cuBLASLt", "met": False, "error": "", "note": "a | b",
    }  # fmt: skip
    text = "\n".join(report.times([row, {**row, "name": "torch", "error": "out of memory"}]))
    assert "**≥ 0.97 × cuBLASLt: not met**" in text
    for part in ("1.4 ms", "780.0 TFLOP/s", "a \\| b"):
        assert part in text
    assert "| torch | | | | | | out of memory |" in text
    machine = Machine("python", Path(), Path(), False, 0.0)
    facts = Stage("facts", facts={"nvidia-smi": {"name": "NVIDIA H200"}})
    assert report.stem(machine, [facts], dt.date(2026, 11, 20)) == "2026-11-20-nvidia-h200"
    page = report.markdown(machine, [facts], dt.datetime(2026, 11, 20, tzinfo=dt.UTC),
                           complete=False)  # fmt: skip
    assert page.startswith("# maxlab on NVIDIA H200, 2026-11-20\n")
    assert "cut short" in page


# ---------------------------------------------------------------- timing
class Clock:
    """A device whose clock goes on by what is launched."""

    properties = Properties("clock", "sm_90", 1, 0, False)

    def __init__(self) -> None:
        self.us = 0.0
        self.order: list[str] = []
        self.default_queue = self

    def call(self, work: Callable[[], Any]) -> Any:
        """Directly."""
        return work()

    def record(self, work: Callable[[Any], None]) -> Clock.Recording:
        """Its work is done when it is launched."""
        return Clock.Recording(work)

    def mark(self, *, timed: bool = False) -> Clock.Mark:
        """The time of now."""
        assert timed
        return Clock.Mark(self.us)

    def synchronize(self) -> None:
        """At once."""

    class Recording:
        def __init__(self, work: Callable[[Any], None]) -> None:
            self.launch = work

    class Mark:
        def __init__(self, us: float) -> None:
            self.us = us

        def synchronize(self) -> None:
            pass

        def ms_since(self, earlier: Clock.Mark) -> float:
            return (self.us - earlier.us) / 1e3


def test_times_are_of_one_run_and_contenders_take_turns() -> None:
    clock = Clock()

    def costing(us: float, name: str) -> Callable[[Any], None]:
        def launch(queue: Any) -> None:
            clock.us += us
            clock.order.append(name)

        return launch

    def broken(queue: Any) -> None:
        raise ValueError("no such kernel")

    effort = Effort(sample_ms=1.0, samples=5, total_ms=1e6, warm_ms=2.0)
    contenders = [
        Contender("two", [costing(2.0, "a0"), costing(4.0, "a1")]),
        Contender("slow", [costing(3000.0, "b")]),
        Contender("broken", [broken]),
    ]
    two, slow, none = Timer(clock, effort).compare(contenders)  # type: ignore[arg-type]
    assert two.median_us == pytest.approx(3.0)  # the mean of its two sets
    assert two.runs % 2 == 0
    assert two.runs * 3.0 >= 1000
    assert slow.samples_us == pytest.approx([3000.0] * 5)
    assert slow.runs == 1
    assert none.error == "ValueError: no such kernel"
    assert not none.samples_us
    timed_part = clock.order[-5 * 2 * (two.runs + 1) :]
    first = [name for n, name in enumerate(timed_part) if n == 0 or timed_part[n - 1][0] != name[0]]
    assert [name[0] for name in first] == list("ababab")  # ab ba ab ba ab, neighbours joined
    assert timed_part[:4] == ["a0", "a1", "a0", "a1"]


def test_goals_are_judged_by_rates_of_the_same_run() -> None:
    clock = Clock()

    def costing(us: float) -> Callable[[Any], None]:
        def launch(queue: Any) -> None:
            clock.us += us

        return launch

    def rows(tiny: bool) -> list[Any]:
        bench = Bench(None, Timer(clock, TINY), tiny)  # type: ignore[arg-type]
        return bench.compare(
            "g", "c", [Contender("maxlab", [costing(10.0)]), Contender("lib", [costing(9.0)])],
            work=9e9, unit="TFLOP/s", goals=[("maxlab", Goal("lib", 0.95))], each=10,
        )  # fmt: skip

    own, lib = rows(tiny=False)
    assert own.median_us == pytest.approx(1.0)
    assert own.rate == pytest.approx(9000.0)
    assert (own.than, own.met) == ("lib", False)
    assert own.ratio == pytest.approx(0.9)
    assert (lib.than, lib.goal) == ("maxlab", "")
    assert rows(tiny=True)[0].met is None


def test_wrong_results_are_not_timed() -> None:
    want = np.random.default_rng(0).standard_normal((50, 40))
    exact = want.astype(np.float32)
    assert data.check(exact, want, DType.float32, "x") < 1e-7
    rounded = (exact.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)  # what tf32 keeps
    with pytest.raises(data.WrongResultError, match="relative error"):
        data.check(rounded, want, DType.float32, "x")
    holes = exact.copy()
    holes[17, 3] = np.nan
    with pytest.raises(data.WrongResultError, match="not written"):
        data.check_rows(holes, lambda rows: want[rows], DType.float32, "x", rows=4)
    with pytest.raises(data.WrongResultError):
        data.check(holes, want, DType.float32, "x")
    assert list(data.sample(3, 100)[[0, -1]]) == [0, 99]
    assert data.number_of_sets(1 << 20, tiny=False) * (1 << 20) <= data.COLD_BYTES
    assert data.number_of_sets(1 << 30, tiny=False) == 1
    large = data.normal(0, ((1 << 22) + 5,), DType.float32)
    assert large[0] == large[(1 << 22) - 77]
    assert large.shape == ((1 << 22) + 5,)


@pytest.mark.oracle
def test_minilm_in_torch_is_the_tutorials() -> None:
    """The peer computes what the reference does, on the CPU."""
    import torch

    names = minilm.network(minilm.TINY_CONFIG)
    weights = {name: np.asarray(x) for name, x in names["minilm"].state_dict().items()}
    tokens = np.random.default_rng(0).integers(0, 50, (3, 9))
    mask = np.ones_like(tokens)
    mask[1, 4:] = 0
    there = {name: torch.from_numpy(array) for name, array in weights.items()}
    ids, kept = torch.from_numpy(tokens), torch.from_numpy(mask)
    got = minilm._torch(torch, minilm.TINY_CONFIG, there, ids, kept).numpy()
    want = minilm._reference(weights, minilm.TINY_CONFIG, tokens, mask)
    data.check(got, want, DType.float32, "MiniLM in torch")


def test_the_page_names_the_results_of_devices() -> None:
    """Whoever adds one says so there."""
    found = [p for p in main.RESULTS.glob("*.json") if "schema" in json.loads(p.read_text())]
    page = (ROOT / "docs" / "how-to" / "check-a-gpu.md").read_text("utf-8")
    assert found
    assert all(p.with_suffix(".md").name in page for p in found)
    assert not any(json.loads(p.read_text())["simulated"] for p in found)
    assert os.access(ROOT / "scripts" / "gpu_check", os.X_OK)

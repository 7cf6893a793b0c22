"""The stages between installing and reporting: facts, tests, sanitizer, benchmarks."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.gpu_checks import watch_file
from scripts.gpu_checks.stage import ROOT, Done, Machine, Stage, ended

DEVICE_TESTS = ("tests/cuda", "tests/driver_cuda/test_gpu.py")
DRY_TESTS = (
    "tests/cuda/test_ops.py::test_rows_of_every_width[33]",
    "tests/cuda/test_models.py::test_a_number_is_uploaded",
)
SHARDS = {
    "test_ops.py": 12, "test_products.py": 4, "test_options.py": 3, "test_hostile_products.py": 3,
}  # fmt: skip
"""Files whose tests are dealt out to so many processes."""
_TORCH = """
import json
try:
    import torch
    cuda = torch.cuda.is_available()
    print(json.dumps({"torch": torch.__version__, "torch.version.cuda": torch.version.cuda,
        "torch sees": torch.cuda.get_device_name() if cuda else "no GPU",
        "L2 bytes": torch.cuda.get_device_properties(0).L2_cache_size if cuda else None}))
except ImportError:
    print(json.dumps({"torch": "not installed"}))
"""
_COMPILER = """
from maxlab.toolchain.cuda_compiler import find_cuda_compiler
print(find_cuda_compiler().description)
"""
_QUERY = (
    "name", "driver_version", "memory.total", "compute_cap", "clocks.sm", "clocks.mem",
    "clocks.max.sm", "temperature.gpu", "power.draw", "power.limit", "ecc.mode.current",
    "utilization.gpu", "clocks_event_reasons.active",
)  # fmt: skip


# ---------------------------------------------------------------- facts
def facts(machine: Machine, stage: Stage) -> None:
    """What the numbers were measured on; it reads, and sets nothing."""
    found = stage.facts
    found["python"] = machine.run([machine.python, "-VV"], 20).output.strip()
    found["cpu cores"] = len(os.sched_getaffinity(0))
    found.update(commit(machine))
    found["nvidia-smi"] = smi(machine)
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    if Path(nvcc).exists():
        lines = machine.run([nvcc, "--version"], 20).output.strip().splitlines()
        found["nvcc"] = next((x for x in lines if "release" in x), "")
    torch = machine.run([machine.python, "-c", _TORCH], 90)
    if torch.code == 0:
        found.update(json.loads(torch.output.splitlines()[-1]))
    else:
        found["torch"] = f"cannot be imported: {ended(torch)}"
    compiler = machine.run([machine.python, "-c", _COMPILER], 60)
    if compiler.code == 0:
        found["maxlab compiles with"] = compiler.output.strip().splitlines()[-1]
    elif not machine.simulated:
        stage.fail("no CUDA compiler was found", compiler.output)
    if not machine.simulated and not found["nvidia-smi"]:
        stage.why = "nvidia-smi does not answer here"


def smi(machine: Machine) -> dict[str, str]:
    """Name, clocks, power and the rest as nvidia-smi says them; empty where it is not."""
    program = shutil.which("nvidia-smi")
    found: dict[str, str] = {}
    for field in _QUERY if program else ():  # one by one: a name it does not know ends a query
        done = machine.run(
            [str(program), "-i", "0", f"--query-gpu={field}", "--format=csv,noheader"], 20
        )
        if done.code == 0 and done.output.strip():
            found[field] = done.output.strip().splitlines()[0]
    return found


def commit(machine: Machine) -> dict[str, Any]:
    """The commit, and whether files differ from it; ``MAXLAB_COMMIT`` names it where the files came
    without their repository.
    """
    given = os.environ.get("MAXLAB_COMMIT")
    if given:
        return {"commit": given}
    head = machine.run(["git", "rev-parse", "HEAD"], 20) if shutil.which("git") else None
    if head is None or head.code != 0:
        return {"commit": "unknown"}
    changed = machine.run(["git", "status", "--porcelain"], 30).output.splitlines()
    return {"commit": head.output.strip(), "changed files": len(changed)}


# ---------------------------------------------------------------- tests
@dataclass(frozen=True)
class _Share:
    """Tests that one process runs."""

    target: str
    number: int
    of: int

    @property
    def name(self) -> str:
        """For its files."""
        plain = re.sub(r"\W+", "-", Path(self.target.split("::")[0]).stem)
        return f"tests-{plain}-{self.number}"


def tests(machine: Machine, stage: Stage, targets: Sequence[str], budget: float) -> None:
    """All device tests, not a sample, some processes side by side: a test that loses the device
    ends only its own process's hopes.
    """
    end = time.monotonic() + budget
    shares = list(_shares(targets))
    files = {share: machine.scratch / f"{share.name}-{n}.jsonl" for n, share in enumerate(shares)}
    for file in files.values():
        file.unlink(missing_ok=True)
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        ends = list(
            pool.map(lambda s: _pytest(machine, s, files[s], end - time.monotonic()), shares)
        )
    outcomes: Counter[str] = Counter()
    for share, done in zip(shares, ends, strict=True):
        found = watch_file.read(files[share])
        outcomes.update(line["outcome"] for line in found if "outcome" in line)
        outcomes["not for a device"] += sum(x["deselected"] for x in found if "deselected" in x)
        collected = sum(x["collected"] for x in found if "collected" in x)
        if done.code not in (0, 5):  # 5: none of them is for a device
            seen = len({line["test"] for line in found if "test" in line})
            stage.fail(f"{share.target}: {ended(done)}, {seen} of {collected} tests done")
            stage.log += done.output.splitlines()[-30:]
        for line in found:
            if line.get("outcome") == "failed":
                stage.facts.setdefault("failed", []).append(line)
            elif line.get("outcome") == "skipped":
                stage.facts.setdefault("skipped", []).append(f"{line['test']}: {line['why']}")
    for file in files.values():
        file.unlink(missing_ok=True)
    stage.facts["outcomes"] = dict(outcomes)
    passed = outcomes["passed"]
    if not passed and stage.status == "passed":
        stage.fail("not one test ran")
    elif stage.status == "passed":
        stage.why = f"{passed} tests passed, {outcomes['skipped']} skipped"


def _shares(targets: Sequence[str]) -> list[_Share]:
    found = []
    for target in targets:
        place = ROOT / target
        names = (
            [str(f.relative_to(ROOT)) for f in sorted(place.glob("test_*.py"))]
            if place.is_dir()
            else [target]
        )
        for name in names:
            of = SHARDS.get(Path(name).name, 1)
            found += [_Share(name, number, of) for number in range(of)]
    return found


def _pytest(machine: Machine, share: _Share, file: Path, budget: float) -> Done:
    # Plugins of other packages on that machine are not ours to be disturbed by.
    command = machine.module("pytest", "-q", "-p", "pytest_timeout", "-p", "no:cacheprovider")
    command += ["-p", "scripts.gpu_checks.watch", "--tb=short", "--maxfail=20", share.target]
    command += [] if machine.simulated else ["--all", "--timeout=60"]
    env = {
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "MAXLAB_REQUIRE_PYCUDA": "0" if machine.simulated else "1",
        "MAXLAB_CACHE_DIR": str(machine.scratch / "cache"),
        watch_file.FILE: str(file),
        watch_file.SHARE: f"{share.number}/{share.of}",
    }
    if not machine.simulated:
        env["MAXLAB_TEST_DEVICE"] = "cuda"
    return machine.run(command, budget, env=env)


# ---------------------------------------------------------------- compute-sanitizer
TOOLS = {"memcheck": "stray", "racecheck": "race"}
"""The tools, and the planted mistake that each must see."""
FOUND = 99
_SUMMARY = re.compile(r"(?:ERROR SUMMARY|RACECHECK SUMMARY): (\d+) (?:error|hazard)", re.IGNORECASE)


def sanitizer(machine: Machine, stage: Stage, budget: float) -> None:
    """Kernels of every kind under memcheck and racecheck, each of which must first see a planted
    mistake; on the simulator, under its own checks.
    """
    env = {"MAXLAB_CACHE_DIR": str(machine.scratch / "cache")}
    if machine.simulated:
        env |= {"MAXLAB_SIMULATOR": "1", "MAXLAB_SIMULATOR_CHECK": "1"}
    program = machine.module("scripts.gpu_checks.sanitized")
    few = ["--few"] if machine.simulated else []
    usual = machine.run([*program, *few], budget / 2, env=env)
    if usual.code != 0:  # also fills the cache, so that no tool waits for compilers
        stage.fail(f"the kernels by themselves: {ended(usual)}", usual.output)
        return
    if machine.simulated:
        for mistake in TOOLS.values():
            done = machine.run([*program, "--planted", mistake], budget / 2, env=env)
            if done.code != 1 or f"planted_{mistake}" not in done.output:
                stage.fail(f"the simulator did not see the planted {mistake}", done.output)
        stage.why = stage.why or "the simulator's checks; compute-sanitizer needs a GPU"
        return
    tool = find_sanitizer()
    if tool is None:
        stage.status, stage.why = "not run", "compute-sanitizer is not installed here"
        return
    stage.facts["version"] = machine.run([tool, "--version"], 20).output.strip().splitlines()[-1:]
    left = budget - usual.seconds

    def watched(name: str) -> tuple[Done, Done | None]:
        command = [tool, "--tool", name, "--error-exitcode", str(FOUND), "--print-limit", "20"]
        command += ["--report-api-errors", "no"] if name == "memcheck" else []
        planted = machine.run([*command, *program, "--planted", TOOLS[name]], left / 2, env=env)
        if planted.code != FOUND or not errors_of(planted.output):
            return planted, None
        time_left = left - planted.seconds
        return planted, machine.run([*command, *program], time_left, log=f"{name}.log", env=env)

    with ThreadPoolExecutor(len(TOOLS)) as pool:  # nothing is timed here
        found = list(pool.map(watched, TOOLS))
    judge(stage, dict(zip(TOOLS, found, strict=True)))


def judge(stage: Stage, found: Mapping[str, tuple[Done, Done | None]]) -> None:
    """What the tools saw: of the planted mistake, and, if they saw that, of the kernels."""
    blind = []
    for name, (planted, done) in found.items():
        if done is None:
            blind.append(f"{name} does not see the planted {TOOLS[name]}: {_last(planted.output)}")
            continue
        count = errors_of(done.output)
        stage.facts[name] = {"seconds": round(done.seconds, 1), "errors": count}
        if done.code != 0 or count != 0:
            stage.fail(f"{name}: {ended(done)}, errors: {count}", done.output)
    if blind and stage.status == "passed":
        stage.status = "not run"
        stage.why = "; ".join(blind)
    elif stage.status == "passed":
        stage.why = f"{' and '.join(found)} are clean, and saw the planted mistakes"


def find_sanitizer() -> str | None:
    """compute-sanitizer on the PATH or in a toolkit."""
    roots = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    places = [Path(root) / sub for root in roots if root for sub in ("bin", "compute-sanitizer")]
    found = shutil.which("compute-sanitizer")
    if found is None:
        programs = (place / "compute-sanitizer" for place in places)
        found = next((str(p) for p in programs if os.access(p, os.X_OK)), None)
    return found


def errors_of(output: str) -> int | None:
    """How many errors or hazards compute-sanitizer counted; None if it did not come to that."""
    counts = _SUMMARY.findall(output)
    return int(counts[-1]) if counts else None


def _last(output: str) -> str:
    lines = output.strip().splitlines()
    return lines[-1][:200] if lines else "it said nothing"


# ---------------------------------------------------------------- benchmarks
GROUPS = {
    "bandwidth": 0.22, "products": 0.38, "attention": 0.15, "overhead": 0.04, "minilm": 0.06,
    "compile": 0.15, "torch-compile": 0.0,
}  # fmt: skip
"""The groups of `benchmarks.gpu`, and the share of the time that each may take, if the ones before
needed all of theirs; what they leave is the next one's. The last one is torch's own: it gets what
is left, and fails nothing.
"""


def benchmarks(machine: Machine, stage: Stage, groups: Sequence[str], budget: float) -> None:
    """The benchmarks. The bandwidth comes first, since others are compared with it."""
    rows_file = machine.out / "rows.jsonl"
    rows_file.unlink(missing_ok=True)
    rows: list[dict[str, Any]] = []
    saved = 0.0
    stage.facts["before"] = smi(machine)
    for group in groups:
        share = GROUPS[group] * budget + saved
        command = machine.module("benchmarks.gpu", group, "--rows", str(rows_file))
        command += ["--simulator"] if machine.simulated else []
        env = {"MAXLAB_CACHE_DIR": str(machine.scratch / "cache")}
        done = machine.run(command, share, env=env)
        found = watch_file.read(rows_file)[len(rows) :]
        rows += found
        saved = max(0.0, share - done.seconds)
        wrong = [row for row in found if row["error"]]
        if group == "torch-compile":
            stage.facts[group] = ended(done)
        elif done.code is None:
            stage.fail(f"{group}: {ended(done)}, {len(found)} rows")
        elif done.code != 0 and wrong:
            stage.fail(f"{group}: {len(wrong)} of {len(found)} rows are errors")
            stage.log += [f"{row['case']} {row['name']}: {row['error']}" for row in wrong[:20]]
        elif done.code != 0 or not found:
            stage.fail(f"{group}: {ended(done)}", done.output)
    rows_file.unlink(missing_ok=True)
    stage.facts["after"] = smi(machine)
    stage.facts["rows"] = rows
    if stage.status == "passed":
        stage.why = f"{len(rows)} rows"

"""The command line of ``scripts/gpu_check``: packs, or runs the stages and writes the result."""

from __future__ import annotations

import argparse
import datetime as dt
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from scripts.gpu_checks import carry, report, stages
from scripts.gpu_checks.stage import ROOT, Machine, Stage, timed

RESULTS = ROOT / "benchmarks" / "results"
BUDGETS = {"install": 80.0, "facts": 30.0, "tests": 150.0, "sanitizer": 85.0, "benchmarks": 185.0}
"""The stages in their order, and the seconds that each may take: 530 together."""
EXIT_PASSED, EXIT_FAILED, EXIT_NOT_RUN = 0, 1, 3


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="scripts/gpu_check",
        description="Checks maxlab on a machine with an NVIDIA GPU; docs/how-to/check-a-gpu.md.",
        epilog="Status 0: all stages passed. 1: one failed. 3: none failed, and one could not be "
        "run on this machine. Goals that are not met are in the result and fail nothing.",
    )
    parser.add_argument("--pack", type=Path, metavar="FOLDER", help="with a network: fill it")
    parser.add_argument("--python", help="with --pack, a Python 3.12 to build PyCUDA's wheel for")
    parser.add_argument("--carried", type=Path, metavar="FOLDER", help="what --pack has filled")
    parser.add_argument("--dry-run", action="store_true", help="on the simulator, tiny sizes")
    parser.add_argument("--out", type=Path, help="for the result; $OUT, or benchmarks/results")
    parser.add_argument("--stages", help=f"some of {','.join(BUDGETS)}, separated by commas")
    parser.add_argument("--tests", nargs="+", help="the tests to run, as pytest takes them")
    parser.add_argument("--groups", help="of benchmarks: " + ",".join(stages.GROUPS))
    parser.add_argument("--minutes", type=float, default=8.9, help="for everything (%(default)s)")
    options = parser.parse_args(arguments)
    for value, known in ((options.stages, BUDGETS), (options.groups, stages.GROUPS)):
        unknown = [name for name in (value or "").split(",") if name and name not in known]
        if unknown:
            parser.error(f"there is no {', '.join(unknown)}; there are {', '.join(known)}")
    if options.dry_run and options.out and options.out.resolve() == RESULTS:
        parser.error("a dry run is no result, and does not go into benchmarks/results")
    return options


def main(arguments: list[str] | None = None) -> int:
    """The exit status; see ``--help``."""
    options = parse(arguments)
    if options.pack:
        return carry.pack(options.pack, options.python)
    begun = dt.datetime.now(dt.UTC)
    scratch = Path(tempfile.mkdtemp(prefix="maxlab-gpu-check-"))
    out = options.out or Path(os.environ.get("OUT") or (scratch if options.dry_run else RESULTS))
    out.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + options.minutes * 60
    machine = Machine(sys.executable, out, scratch, options.dry_run, deadline)
    if options.dry_run:
        machine.env["MAXLAB_SIMULATOR"] = "0"  # each stage asks for it itself
    wanted = (options.stages or ",".join(BUDGETS)).split(",")
    work = plan(machine, options)
    ended: list[Stage] = []
    try:
        for name in (name for name in BUDGETS if name in wanted):
            ended.append(timed(name, work[name]))
            page = report.write(machine, ended, begun, len(set(wanted)))
        print(page.read_text("utf-8"))
        print(f"written: {page} and {page.with_suffix('.json').name}", flush=True)
    finally:
        if out != scratch:
            shutil.rmtree(scratch, ignore_errors=True)
        else:
            for folder in (scratch / "site", scratch / "cache"):
                shutil.rmtree(folder, ignore_errors=True)
    return status(ended)


def plan(machine: Machine, options: argparse.Namespace) -> dict[str, Callable[[Stage], None]]:
    """What each stage does."""
    targets = options.tests or (stages.DRY_TESTS if machine.simulated else stages.DEVICE_TESTS)
    groups = (options.groups or ",".join(stages.GROUPS)).split(",")
    ordered = [group for group in stages.GROUPS if group in groups]
    seconds = BUDGETS
    return {
        "install": lambda s: carry.install(machine, s, options.carried, seconds["install"]),
        "facts": lambda s: stages.facts(machine, s),
        "tests": lambda s: stages.tests(machine, s, targets, seconds["tests"]),
        "sanitizer": lambda s: stages.sanitizer(machine, s, seconds["sanitizer"]),
        "benchmarks": lambda s: stages.benchmarks(machine, s, ordered, seconds["benchmarks"]),
    }


def status(ended: list[Stage]) -> int:
    """0 if all passed, 1 if one failed, 3 if none did and one was not run."""
    found = {stage.status for stage in ended}
    if "failed" in found:
        return EXIT_FAILED
    return EXIT_NOT_RUN if "not run" in found else EXIT_PASSED

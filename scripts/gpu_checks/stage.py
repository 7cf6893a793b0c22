"""A stage of the check: commands with a common deadline, their logs, and how they ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

ROOT = Path(__file__).resolve().parents[2]
TAIL = 60
"""Lines of a log that go into the result."""

Status = Literal["passed", "failed", "not run"]


@dataclass
class Stage:
    """How a stage ended.

    Attributes:
        status: ``"not run"`` if this machine cannot, or does not allow it: nothing was verified.
        why: a sentence for whoever reads the summary.
        seconds: it took so long.
        facts: what it found out.
        log: the ends of the logs of commands that failed.
    """

    name: str
    status: Status = "passed"
    why: str = ""
    seconds: float = 0.0
    facts: dict[str, Any] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)

    def fail(self, why: str, log: str = "") -> None:
        """Mark the stage as failed; the first reason is kept."""
        self.why = f"{self.why}; {why}" if self.status == "failed" else why
        self.status = "failed"
        if log:
            self.log += log.splitlines()[-TAIL:]


@dataclass(frozen=True)
class Done:
    """How a command ended; ``code`` is None if it ran past its time."""

    code: int | None
    output: str
    seconds: float


@dataclass
class Machine:
    """Where the stages run.

    Attributes:
        python: the interpreter that has, or gets, what maxlab needs.
        env: the environment of commands.
        out: the folder for results and logs.
        scratch: the folder for what is installed and compiled.
        simulated: a dry run: the simulator, tiny sizes, nothing that counts as a result.
        deadline: by `time.monotonic`; no command runs beyond it.
    """

    python: str
    out: Path
    scratch: Path
    simulated: bool
    deadline: float
    env: dict[str, str] = field(default_factory=lambda: dict(os.environ))

    def left(self, budget: float) -> float:
        """Seconds that a command may take: ``budget``, or what is left of everything."""
        return max(0.0, min(budget, self.deadline - time.monotonic()))

    def run(
        self,
        command: Sequence[str],
        budget: float,
        *,
        log: str = "",
        env: Mapping[str, str] | None = None,
    ) -> Done:
        """Run a command in the checkout, for at most ``budget`` seconds, with all its children.

        Args:
            log: the name of the file in ``out`` that keeps its output.
            env: added to the environment.
        """
        begin = time.monotonic()
        allowed = self.left(budget)
        if allowed <= 0:
            return Done(None, "no time was left\n", 0.0)
        process = subprocess.Popen(
            list(command), cwd=ROOT, env={**self.env, **(env or {})}, text=True, errors="replace",
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
        try:
            output, _ = process.communicate(timeout=allowed)
            code: int | None = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            code = None
        if log:
            (self.out / log).write_text(output, encoding="utf-8")
        return Done(code, output, time.monotonic() - begin)

    def module(self, name: str, *arguments: str) -> list[str]:
        """The command that runs a module of the checkout."""
        return [self.python, "-m", name, *arguments]


def ended(done: Done) -> str:
    """In words."""
    if done.code is None:
        return f"it was stopped after {done.seconds:.0f} s"
    return f"status {done.code}"


def timed(name: str, work: Callable[[Stage], None]) -> Stage:
    """The stage ``name``; what ``work`` raises makes it a failed one."""
    stage = Stage(name)
    begin = time.monotonic()
    print(f"== {name}", flush=True)
    try:
        work(stage)
    except Exception as error:
        stage.fail(f"{type(error).__name__}: {error}")
    stage.seconds = round(time.monotonic() - begin, 1)
    print(f"   {stage.status} in {stage.seconds} s. {stage.why}", flush=True)
    for line in stage.log[-12:]:
        print(f"   | {line}", file=sys.stderr, flush=True)
    return stage

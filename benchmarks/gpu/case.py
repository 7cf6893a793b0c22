"""What a group of benchmarks works with, and the rows it makes."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.gpu.timing import Contender, Timed, Timer
from maxlab.driver import Accelerator


@dataclass(frozen=True)
class Goal:
    """What a row should reach: a share of another rate, or a time.

    Attributes:
        than: the name of the row it is compared with, or of a ceiling.
        at_least: the ratio of the two rates.
        below_us: microseconds that it should stay below; then nothing is compared.
    """

    than: str = ""
    at_least: float = 0.0
    below_us: float | None = None

    @property
    def text(self) -> str:
        """As the report prints it."""
        if self.below_us is not None:
            return f"< {self.below_us:g} µs"
        return f"≥ {self.at_least:g} × {self.than}"


@dataclass
class Row:
    """One contender of one case; times in microseconds of one run.

    Attributes:
        rate: ``value`` of ``unit``, such as 4100 of ``"GB/s"``.
        ratio: of its rate to that of ``than``; above 1 it is faster.
        met: whether the goal is; None where there is none.
    """

    group: str
    case: str
    name: str
    median_us: float | None = None
    q1_us: float | None = None
    q3_us: float | None = None
    least_us: float | None = None
    samples: int = 0
    runs: int = 0
    rate: float | None = None
    unit: str = ""
    than: str = ""
    ratio: float | None = None
    goal: str = ""
    met: bool | None = None
    error: str = ""
    relative_error: float | None = None
    note: str = ""


@dataclass
class Bench:
    """A run of the benchmarks on one device.

    Attributes:
        device: what is measured.
        timer: by which clock, and with how much effort.
        tiny: sizes are small and nothing is a result: the simulator, or a test.
        ceilings: rates that were measured before, by name, such as ``"copy"`` in GB/s.
        out: where rows go as they are made, a line of JSON each.
    """

    device: Accelerator
    timer: Timer
    tiny: bool
    ceilings: dict[str, float] = field(default_factory=dict)
    out: Path | None = None
    rows: list[Row] = field(default_factory=list)

    @property
    def context(self) -> Any:
        """The opened device."""
        return self.device.context

    def add(self, row: Row) -> Row:
        """Keep ``row``, and write it down at once: a run that is cut short keeps what it has."""
        self.rows.append(row)
        if self.out is not None:
            with self.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(vars(row)) + "\n")
        print(show(row), flush=True)
        return row

    def compare(
        self,
        group: str,
        case: str,
        contenders: Sequence[Contender],
        *,
        work: float,
        unit: str,
        own: str = "maxlab",
        goals: Sequence[tuple[str, Goal]] = (),
        errors: Mapping[str, float] | None = None,
        each: int = 1,
    ) -> list[Row]:
        """The rows of a case, timed in turns.

        Args:
            work: bytes or operations of one run.
            unit: ``"GB/s"`` or ``"TFLOP/s"``; ``""`` for runs a microsecond, which is not shown.
            own: every other row's ratio says how fast this one is beside it.
            goals: contenders' names, and what they should reach.
            errors: relative errors that were found before.
            each: a run does the work so many times.
        """
        timed = self.timer.compare(contenders)
        for one in timed:
            one.samples_us = [us / each for us in one.samples_us]
        scale = {"GB/s": 1e-3, "TFLOP/s": 1e-6, "": 1.0}[unit]
        rates = {t.name: work / t.median_us * scale for t in timed if not t.error}
        made = []
        for one in timed:
            row = self._row(group, case, one, rates.get(one.name), unit)
            row.relative_error = (errors or {}).get(one.name)
            rate = rates.get(one.name)
            if rate is not None and one.name != own and own in rates:
                row.than, row.ratio = own, rate / rates[own]
            for name, goal in goals:
                if name == one.name:
                    self._judge(row, goal, rates)
            made.append(self.add(row))
        return made

    def _row(self, group: str, case: str, timed: Timed, rate: float | None, unit: str) -> Row:
        row = Row(group, case, timed.name, note=timed.note, error=timed.error, unit=unit)
        if not timed.error:
            row.median_us = timed.median_us
            row.q1_us, row.q3_us = timed.quartiles_us
            row.least_us = min(timed.samples_us)
            row.samples, row.runs = len(timed.samples_us), timed.runs
            row.rate = rate
        return row

    def _judge(self, row: Row, goal: Goal, rates: dict[str, float]) -> None:
        row.goal = goal.text
        if self.tiny or row.median_us is None:
            return
        if goal.below_us is not None:
            row.met = row.median_us < goal.below_us
            return
        other = rates.get(goal.than, self.ceilings.get(goal.than))
        if other is None or row.rate is None:
            return
        row.than, row.ratio = goal.than, row.rate / other
        row.met = row.ratio >= goal.at_least

    def guarded(
        self, group: str, case: str, work: Callable[[], object], name: str = "maxlab"
    ) -> None:
        """Do ``work``; what it raises becomes a row of ``name``, and the benchmarks go on."""
        try:
            work()
        except Exception as error:
            text = f"{type(error).__name__}: {error}".splitlines()[0][:300]
            self.add(Row(group, case, name, error=text))

    def failed(self) -> list[Row]:
        """Rows without a time, those of torch excepted: its failures are not ours."""
        return [row for row in self.rows if row.error and not row.name.startswith("torch")]


def show(row: Row) -> str:
    """``row`` as a line for the terminal."""
    place = f"{row.group:10} {row.case:34} {row.name:24}"
    if row.error:
        return f"{place} {row.error}"
    shown = f"{place} {micro(row.median_us)}"
    if row.rate is not None and row.unit:
        shown += f" {row.rate:9.1f} {row.unit}"
    if row.ratio is not None:
        shown += f"  {row.ratio:.2f} × {row.than}"
    if row.goal:
        shown += (
            f"  (goal {row.goal}: {'?' if row.met is None else 'met' if row.met else 'NOT MET'})"
        )
    return shown


def micro(us: float | None) -> str:
    """Microseconds with three digits that count."""
    if us is None or not math.isfinite(us):
        return ""
    if us >= 1000:
        return f"{us / 1000:.3g} ms" if us < 1e6 else f"{us / 1e6:.3g} s"
    return f"{us:.3g} µs"

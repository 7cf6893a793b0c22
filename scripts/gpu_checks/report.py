"""The result file: JSON with everything, Markdown for reading. It is written after every stage, so
that a run which is cut short leaves what it has found.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from scripts.gpu_checks.stage import Machine, Stage

SCHEMA = 1
_SHOWN = ("commit", "changed files", "python", "cpu cores", "nvcc", "maxlab compiles with",
          "torch", "torch.version.cuda", "torch sees", "L2 bytes")  # fmt: skip
_CARD = ("name", "driver_version", "memory.total", "compute_cap", "clocks.max.sm", "power.limit",
         "ecc.mode.current")  # fmt: skip


def stem(machine: Machine, stages: Sequence[Stage], today: dt.date) -> str:
    """The name of the result's files, without suffix: the date and the device."""
    if machine.simulated:
        return "gpu-check-dry-run"
    name = card(stages).get("name") or fact(stages, "torch sees") or "unknown-gpu"
    plain = re.sub(r"[^a-z0-9]+", "-", str(name).lower()).strip("-")
    return f"{today.isoformat()}-{plain}"


def write(machine: Machine, stages: Sequence[Stage], begun: dt.datetime, wanted: int) -> Path:
    """The Markdown file; the JSON file lies beside it.

    Args:
        wanted: how many stages there will be.
    """
    place = machine.out / stem(machine, stages, begun.date())
    whole = {
        "schema": SCHEMA,
        "begun": begun.isoformat(timespec="seconds"),
        "simulated": machine.simulated,
        "complete": len(stages) == wanted,
        "stages": [asdict(stage) for stage in stages],
    }
    text = markdown(machine, stages, begun, complete=len(stages) == wanted)
    place.with_name(f"{place.name}.json").write_text(json.dumps(whole, indent=1) + "\n", "utf-8")
    page = place.with_name(f"{place.name}.md")
    page.write_text(text, "utf-8")
    return page


def markdown(
    machine: Machine, stages: Sequence[Stage], begun: dt.datetime, *, complete: bool
) -> str:
    """The readable summary."""
    there = card(stages)
    title = "the simulator" if machine.simulated else there.get("name", "an unknown GPU")
    lines = [f"# maxlab on {title}, {begun.date().isoformat()}", ""]
    if machine.simulated:
        lines += ["A dry run: nothing here was seen on a device, and no number means anything.", ""]
    if not complete:
        lines += ["The run was cut short: the stages below are all that it came to.", ""]
    lines += ["| what | |", "|---|---|"]
    lines += [f"| {key} | {there[key]} |" for key in _CARD if key in there]
    lines += [f"| {key} | {value} |" for key in _SHOWN if (value := fact(stages, key)) is not None]
    lines += ["", "| stage | result | seconds | |", "|---|---|---:|---|"]
    lines += [f"| {s.name} | {s.status} | {s.seconds} | {_cell(s.why)} |" for s in stages]
    for stage in stages:
        lines += _failures(stage)
    rows = fact(stages, "rows") or []
    if rows:
        lines += ["", "## Times", "", _EXPLAINED, ""]
        lines += times(rows)
    return "\n".join(lines) + "\n"


_EXPLAINED = """\
Medians of the device's clock, quartiles behind them; the contenders of a case took turns. A ratio
says how many times as fast a row is as the other it names. Only ratios of one file can be compared.
Goals that were not met are in bold; a goal without a verdict had nothing to be compared with."""


def times(rows: Sequence[dict[str, Any]]) -> list[str]:
    """The tables, one a group."""
    lines: list[str] = []
    for group in dict.fromkeys(row["group"] for row in rows):
        lines += [
            f"### {group}", "",
            "| case | who | median | quartiles | rate | ratio | goal | |",
            "|---|---|---:|---:|---:|---:|---|---|",
        ]  # fmt: skip
        for row in rows:
            if row["group"] == group:
                lines.append(_line(row))
        lines.append("")
    return lines


def _line(row: dict[str, Any]) -> str:
    if row["error"]:
        return f"| {row['case']} | {row['name']} | | | | | | {_cell(row['error'])} |"
    goal = row["goal"]
    if goal and row["met"] is not None:
        goal = f"{goal}: met" if row["met"] else f"**{goal}: not met**"
    unit, scale = ("ms", 1e3) if row["median_us"] >= 1000 else ("µs", 1.0)
    middle, low, high = (row[key] / scale if row[key] is not None else None
                         for key in ("median_us", "q1_us", "q3_us"))  # fmt: skip
    rate = f"{row['rate']:.1f} {row['unit']}" if row["unit"] and row["rate"] else ""
    ratio = f"{row['ratio']:.2f} × {row['than']}" if row["ratio"] is not None else ""
    spread = f"{low:.3g} – {high:.3g}" if low is not None and high is not None else ""
    return (
        f"| {row['case']} | {row['name']} | {middle:.4g} {unit} | {spread} | {rate} | {ratio} "
        f"| {goal} | {_cell(row['note'])} |"
    )


def _failures(stage: Stage) -> list[str]:
    failed = stage.facts.get("failed", [])
    lines = [f"- `{one['test']}`" for one in failed[:40]]
    if len(failed) > 40:
        lines.append(f"- and {len(failed) - 40} more, in the JSON file")
    if stage.log:
        lines += ["", "```", *stage.log[-30:], "```"]
    return ["", f"## What failed: {stage.name}", "", *lines] if lines else []


def fact(stages: Sequence[Stage], key: str) -> Any:
    """What a stage found under ``key``; None if none did."""
    return next((stage.facts[key] for stage in stages if key in stage.facts), None)


def card(stages: Sequence[Stage]) -> dict[str, str]:
    """What nvidia-smi said."""
    return fact(stages, "nvidia-smi") or {}


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")

"""What was found, kept as JSON for the next run and as a table for readers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from scripts.exhaustive.cases import UnaryCase, unary_cases
from scripts.exhaustive.judge import Finding

NAME = "unary-2^32"
ALL = 1 << 32
_HEAD = """# Every unary op on every float32 number

Written by `scripts/unary_exhaustive`: the kernels that maxlab generates, loaded and executed on
all 2^32 inputs.

{machine}

An ulp is the spacing of float32 at the exact result, and not less than 2^-149; what is correctly
rounded is at most 0.5 off. *Steps* are the numbers between a result and the correctly rounded one.
*Other* counts results of another kind than the exact one: a NaN, an infinity, a sign of zero.
Functions are compared with double precision, and with long double where the error is among the
largest (*rechecked*; the two were at most *apart* ulps apart). Ops without a bound are exact:
every result has the bits of the reference's, but for the payload of a NaN.

| op | bound | worst (ulps) | at | steps | other | rechecked | apart | inputs | CPU seconds |
|---|---:|---:|---|---:|---:|---:|---:|---:|---:|
"""


def number(bits: int) -> str:
    """The float32 of ``bits``, so that it can be read back."""
    return str(np.array(bits, np.uint32).view(np.float32)[()])


class Book:
    """The results in one folder.

    ``unary-2^32.json`` has, for every op, the digest of its kernel and the ranges that were run.
    """

    def __init__(self, folder: Path, machine: dict[str, str]) -> None:
        self.folder = folder
        self.path = folder / f"{NAME}.json"
        kept = json.loads(self.path.read_text()) if self.path.exists() else {}
        self.machine = machine
        self.ops: dict[str, dict[str, Any]] = kept.get("ops", {})

    def has(self, case: UnaryCase, kernel: str, low: int, high: int) -> bool:
        """Whether all of this range was run with this kernel."""
        entry = self.ops.get(case.name)
        if entry is None or entry["kernel"] != kernel:
            return False
        at = low
        for start, stop in sorted((part["low"], part["high"]) for part in entry["parts"]):
            if start <= at < stop:
                at = stop
        return bool(at >= high)

    def add(self, case: UnaryCase, kernel: str, low: int, high: int, found: Finding) -> None:
        """Keep what was found, and forget what was found of another kernel."""
        entry = self.ops.get(case.name)
        if entry is None or entry["kernel"] != kernel:
            entry = self.ops[case.name] = {"kernel": kernel, "parts": []}
        entry |= self.machine
        entry["parts"] = [p for p in entry["parts"] if not (low <= p["low"] and p["high"] <= high)]
        entry["parts"].append({"low": low, "high": high, **found.as_json()})
        self.write()

    def total(self, name: str) -> Finding:
        """What was found of one op; parts that overlap are counted twice."""
        total = Finding()
        for part in self.ops[name]["parts"]:
            total.add(Finding(**{k: v for k, v in part.items() if k not in ("low", "high")}))
        return total

    def broken(self) -> list[str]:
        """The bounds that do not hold, in words."""
        lines = []
        for case in unary_cases():
            if case.name not in self.ops:
                continue
            found = self.total(case.name)
            if found.ulps > case.limit:
                where = number(found.ulps_at)
                lines.append(f"{case.name}: {found.ulps:.4f} ulps at {where}, not {case.limit}")
            if found.steps > case.row.ulps:
                where = number(found.steps_at)
                lines.append(f"{case.name}: {found.steps} steps at {where}, not {case.row.ulps}")
            if found.special:
                where = number(found.special_at)
                lines.append(f"{case.name}: {found.special} results of another kind, as at {where}")
        return lines

    def write(self) -> None:
        """Write both files."""
        self.folder.mkdir(parents=True, exist_ok=True)
        kept = {"inputs": ALL, "ops": self.ops}
        self.path.write_text(json.dumps(kept, indent=1) + "\n")
        rows = []
        for case in unary_cases():
            if case.name not in self.ops:
                continue
            f = self.total(case.name)
            share = "all" if f.inputs == ALL else f"{f.inputs / ALL:.1%}"
            math = ["", "", "", ""] if case.exact else [
                f"{case.limit:g}", f"{f.ulps:.4f}", f"`{number(f.ulps_at)}`", str(f.steps),
            ]  # fmt: skip
            more = ["", ""] if case.exact else [str(f.rechecked), f"{f.loose:.1g}"]
            cells = [f"`{case.name}`", *math, str(f.special), *more, share, f"{f.seconds:.0f}"]
            rows.append("| " + " | ".join(cells) + " |\n")
        about = sorted({f"{e['date']}, {e['cpu']}, {e['compiler']}." for e in self.ops.values()})
        text = _HEAD.format(machine="\n".join(about)) + "".join(rows)
        (self.folder / f"{NAME}.md").write_text(text)

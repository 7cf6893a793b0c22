"""The numbers of ``benchmarks.performance``: of the turns of a row, and in words."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any

from benchmarks.turns import Turns, flat, ratio


def summary(turns: Mapping[str, Turns], which: int) -> dict[str, dict[str, Any]]:
    """What the turns of a row say of each peer: microseconds by the clock, of the processor, and
    the ratio to maxlab; of the processor where ``which`` is 1."""
    own = turns.get("maxlab")
    found: dict[str, dict[str, Any]] = {}
    for peer, each in turns.items():
        told: dict[str, Any] = {}
        for name, of in (("wall_us", 0), ("cpu_us", 1)):
            times = [t / 1e3 for t in flat(each, of)]
            parts = statistics.quantiles(times, n=4) if len(times) > 1 else times * 3
            told[name] = [float(f"{t:.5g}") for t in parts]
        told["min_us"] = float(f"{min(flat(each, 0)) / 1e3:.5g}")
        told["runs"] = len(flat(each, 0))
        made = ratio(each, own, which) if own and peer != "maxlab" else None
        told["ratio"] = made and [float(f"{r:.4g}") for r in made]
        found[peer] = told
    return found


def time_text(us: float) -> str:
    """A time in the unit that fits it."""
    if us >= 1e6:
        return f"{us / 1e6:.2f} s"
    return f"{us / 1e3:.2f} ms" if us >= 1000 else f"{us:.1f} µs"


def line(row: Mapping[str, Any]) -> str:
    """The numbers of a row for a terminal, a line a peer."""
    which = "cpu_us" if row["threads"] == 1 else "wall_us"
    lines = [f"{row['row']}: {row['about']}; threads {row['threads']}, load {row['load']:.1f}"]
    for peer, found in row["peers"].items():
        low, middle, high = map(time_text, found[which])
        text = f"  {peer:14} {middle:>10} [{low}, {high}]"
        if found["ratio"]:
            text += "  {:.2f} [{:.2f}, {:.2f}]".format(*found["ratio"])
        if "error" in found:
            error = found["error"]
            text += f"  off by {error['relative']:.1e} of the largest"
            text += f", {error['ulp']:.2f} ulp" if "ulp" in error else ""
            text += f", cosine {error['cosine']:.5f}" if "cosine" in error else ""
        lines.append(text)
    lines += [f"  {peer:14} {why}" for peer, why in row["missing"].items()]
    return "\n".join(lines)


def facts_of(record: Mapping[str, Any]) -> str:
    """The machine of a record, and the versions of the peers."""
    peers = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
    return (
        f"{record['date']}: {record['cpu']} ({' '.join(record['flags'])}), {record['cpus']} CPUs, "
        f"{record['rounds']} rounds; {peers}"
    )

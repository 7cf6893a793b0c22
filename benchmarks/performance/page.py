"""The page ``docs/performance.md``, drawn from the tables in ``benchmarks/results``.

One column a processor and number of threads. Of two tables of the same processor the later one
counts, row by row, by date and then by name: ``…-before`` comes before the same name without it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.cores import in_words
from benchmarks.performance.rows import COLD, ROWS
from benchmarks.performance.table import time_text

RESULTS = Path(__file__).resolve().parents[1] / "results"
PAGE = RESULTS.parents[1] / "docs" / "performance.md"
NAMES = {
    "torch": "torch", "torch_compile": "torch.compile", "onnxruntime": "ONNX Runtime",
    "openvino": "OpenVINO", "llama_cpp": "llama.cpp", "max": "MAX",
}  # fmt: skip
GROUPS = {
    "Products": ("matmul", "gemv", "bf16", "int8", "attention"),
    "Functions, norms and reductions": (
        "tanh", "softmax", "layer", "exp", "gelu", "erf", "sum", "max", "mean", "add",
    ),
    "Calls": ("mixed", "dispatch"),
    "Networks": ("mlp", "conv", "resnet", "mobilenet", "unet"),
    "Text": ("minilm", "prefill", "decode"),
    "First numbers": ("cold",),
}  # fmt: skip
"""The tables of the page, and how the names of their rows begin."""
SHARED_NS = 100
"""Nanoseconds that a line of the cache takes at most between cores that share one."""
Column = tuple[str, int]
"""A processor, and a number of threads."""
Found = dict[Column, dict[str, dict[str, Any]]]
"""The rows of each column by name."""


def records(folder: Path = RESULTS) -> list[dict[str, Any]]:
    """The tables in ``folder``, the earliest first."""
    return [json.loads(p.read_text("utf-8")) for p in sorted(folder.glob("*-performance*.json"))]


def columns(tables: Iterable[Mapping[str, Any]]) -> Found:
    """The rows of all tables by column; later ones take the place of earlier ones. A row is called
    what it is called now."""
    found: Found = {}
    for table in tables:
        for row in table["rows"]:
            of = found.setdefault((table["cpu"], row["threads"]), {})
            known = ROWS.get(row["row"])
            about = row["about"] if known is None else known.about
            of[row["row"]] = {**row, "about": about, "date": table["date"]}
    return found


def verdict(ratio: list[float]) -> str:
    """``"ahead"``, ``"level"`` where the interval holds 1, or ``"behind"``."""
    _, low, high = ratio
    return "level" if low <= 1 <= high else "ahead" if low > 1 else "behind"


def ratio_text(ratio: list[float]) -> str:
    """A ratio with its interval; bold where maxlab is behind."""
    text = "{:.2f} [{:.2f}, {:.2f}]".format(*ratio)
    return f"**{text}**" if verdict(ratio) == "behind" else text


def error_text(told: Mapping[str, Any]) -> str:
    """How far a result is off; empty where it was not compared."""
    error = told.get("error")
    if not error or not error["abs"]:
        return ""
    return f"; {error['ulp']:.2g} ulp" if "ulp" in error else f"; off {error['abs']:.0e}"


def cell(row: Mapping[str, Any], peer: str) -> str:
    """What a table says of a peer: of maxlab its time, of others the ratio."""
    told = row["peers"].get(peer)
    if told is None:
        return _short(row["missing"].get(peer, ""))
    which = "cpu_us" if row["threads"] == 1 else "wall_us"
    low, middle, high = map(time_text, told[which])
    if told["ratio"] is None:
        return f"{middle} [{low}, {high}]{error_text(told)}"
    return f"{ratio_text(told['ratio'])}{error_text(told)}"


def _short(why: str) -> str:
    return why.removeprefix("LookupError: ").replace("|", "\\|")[:80]


def order() -> list[str]:
    """All rows, in the order of the page."""
    names = [*ROWS, *(f"cold_{name}" for name in COLD)]
    return [n for starts in GROUPS.values() for n in names if n.startswith(starts)]


def group(starts: tuple[str, ...], found: Found) -> Iterator[str]:
    """The lines of one table."""
    heads = [f"{name}, {threads} thread{'s' * (threads > 1)}" for name, threads in found]
    yield f"| | | {' | '.join(heads)} |"
    yield f"|---|---|{'---:|' * len(heads)}"
    for name in (n for n in order() if n.startswith(starts)):
        rows = [of.get(name) for of in found.values()]
        about = next((row["about"] for row in rows if row), "")
        if not about:
            continue
        for peer in ("maxlab", *NAMES):
            cells = [cell(row, peer) if row else "" for row in rows]
            if any(cells):
                said = about if peer == "maxlab" else ""
                yield f"| {said} | {NAMES.get(peer, peer)} | {' | '.join(cells)} |"


def counted(found: Found) -> Iterator[str]:
    """Of each column and peer, how often maxlab is ahead, level and behind."""
    yield "| | beside | ahead | level | behind |"
    yield "|---|---|---:|---:|---:|"
    for (name, threads), rows in found.items():
        for peer, shown in NAMES.items():
            ratios = [r["peers"][peer]["ratio"] for r in rows.values() if peer in r["peers"]]
            said = [verdict(ratio) for ratio in ratios if ratio]
            if said:
                counts = " | ".join(str(said.count(w)) for w in ("ahead", "level", "behind"))
                yield f"| {name}, {threads} | {shown} | {counts} |"


def behind(found: Found) -> Iterator[str]:
    """Where maxlab is slower than its fastest peer, the furthest behind first."""
    for (name, threads), rows in found.items():
        losses = []
        for row in rows.values():
            ratios = {p: t["ratio"] for p, t in row["peers"].items() if t["ratio"]}
            if not ratios:
                continue
            peer = min(ratios, key=lambda p: ratios[p][0])
            if verdict(ratios[peer]) == "behind":
                losses.append((ratios[peer], f"{row['about']}, {NAMES[peer]}{_cores(row)}"))
        yield f"{name}, {threads} thread{'s' * (threads > 1)}: {len(losses)} of {len(rows)} rows."
        yield ""
        yield "| row and its fastest peer | peer / maxlab |"
        yield "|---|---:|"
        yield from (f"| {about} | {ratio_text(r)} |" for r, about in sorted(losses))
        yield ""


def _cores(row: Mapping[str, Any]) -> str:
    """That the cores shared no cache while the row was timed; empty where they did."""
    apart = row.get("exchange_ns") or 0
    return f"; cores {apart:.0f} ns apart" if apart > SHARED_NS else ""


def drawn(tables: list[dict[str, Any]]) -> str:
    """The part of the page that is made of tables, as Markdown."""
    found = columns(tables)
    lines = ["## Machines", ""]
    for cpu, flags, cpus, versions in machines(tables):
        lines.append(f"- {cpu}, {cpus} CPUs: {flags}. {versions}.")
    lines += ["", "## In short", "", *counted(found), "", "## Behind", "", *behind(found)]
    for title, starts in GROUPS.items():
        lines += [f"## {title}", "", *group(starts, found), ""]
    return "\n".join(lines).rstrip() + "\n"


def machines(tables: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str, int, str]]:
    """Of each processor its name, what it can do, how many the machine had, and the dates and
    versions of its tables."""
    last = {table["cpu"]: table for table in tables}
    for cpu, table in last.items():
        told = in_words([row["exchange_ns"] for row in table["rows"] if "exchange_ns" in row])
        peers = ", ".join(f"{NAMES[p]} {v}" for p, v in table["versions"].items())
        yield (
            cpu,
            ", ".join(f"`{f}`" for f in table["flags"]),
            table["cpus"],
            f"Measured {table['date']} beside {peers}" + (f"; {told}" if told else ""),
        )

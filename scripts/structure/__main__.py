"""Counts what ties the code together, and compares the counts with a table of what is allowed.

    python -m scripts.structure               print the numbers; fail when one exceeds the table
    python -m scripts.structure --list NAME   print where the number NAME comes from
    python -m scripts.structure --json        print numbers, sites and cycles as JSON
    python -m scripts.structure --write       write the numbers that shrank into the table

A count may be what ``limits.json`` says, and less. A change that makes it smaller writes the new
number there, so that it never grows again. ``first`` in the table is the first output.

- ``module_cycles`` and ``modules_in_cycles``: see ``modules``;
- ``op_pairs`` and ``op_pairs_outside_matchers``: see ``op_names``; the matchers of patterns, whose
  work it is to know ops by name, are listed in the table;
- ``plan_callables``: see ``plans``;
- ``model_classes`` and ``engine_private_uses``: see ``engine_names``;
- ``device_kinds``: see ``device_kinds``;
- ``long_observers``: see ``observers``;
- ``c_in_strings``: see ``c_texts``;
- ``assertions``, ``fallbacks``, ``non_null``, ``deep_classes``, ``validators``: see ``typescript``;
- ``first_words`` and ``long_functions``: see ``words``.

``public_docstrings`` (see ``words``) may not shrink below what the table says. The ``tokens`` of
the two languages (see ``size``) have no limit: they are printed beside the first ones.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from scripts.structure import (  # noqa: E402 - after the path
    c_texts,
    device_kinds,
    engine_names,
    observers,
    op_names,
    plans,
    size,
    typescript,
    words,
)
from scripts.structure.modules import ImportGraph  # noqa: E402

LIMITS = Path(__file__).with_name("limits.json")
OUTSIDE = ("tests", "benchmarks", "scripts")
"""Folders of Python beside the package."""


def sites(table: dict[str, Any]) -> dict[str, list[str]]:
    """By the name of each counter: the places that it counts, in words.

    Args:
        table: What ``limits.json`` holds.
    """
    graph = ImportGraph(ROOT / "maxlab")
    pairs = op_names.pairs(graph, op_names.rows_of(ROOT))
    said = {pair: f"maxlab/{pair[0]}:{line} {pair[1]}" for pair, line in pairs.items()}
    matchers = set(table["matchers"])
    found = {
        "module_cycles": [_cycle(graph, group) for group in graph.cycles],
        "modules_in_cycles": [name for group in graph.cycles for name in group],
        "op_pairs": list(said.values()),
        "op_pairs_outside_matchers": [
            text for (file, _), text in said.items() if file not in matchers
        ],
        "plan_callables": plans.sites(),
        "model_classes": engine_names.model_classes(graph),
        "engine_private_uses": engine_names.private_uses(graph, [ROOT / name for name in OUTSIDE]),
        "device_kinds": device_kinds.sites(graph),
        "long_observers": observers.sites(graph, table["watchers"]),
        "c_in_strings": c_texts.sites(ROOT),
        "first_words": words.first_words(graph),
        "long_functions": words.long_functions(graph),
        "public_docstrings": words.public_docstrings(graph),
    }
    read = typescript.counted(ROOT / "extension", table["non_null_helpers"], table["primitives"])
    for name, places in read.items():
        found[name] = [f"extension/src/{file}:{line} {text}" for file, line, text in places]
    return found


def _cycle(graph: ImportGraph, group: list[str]) -> str:
    arcs = "".join(f"\n    {arc}" for arc in graph.inside(group))
    return f"{len(group)} modules: {', '.join(group)}{arcs}"


def compared(
    counts: dict[str, int],
    limits: dict[str, int],
    sizes: list[int],
    floors: dict[str, int] | None = None,
) -> tuple[list[str], bool]:
    """One line for each counter, and whether all are within their limits.

    Args:
        counts: The numbers by name.
        limits: The largest number that each may be.
        sizes: How many modules each cycle has.
        floors: The smallest number that a counter may be, of those that may only grow.
    """
    lines, fits = [], True
    for name, count in counts.items():
        floor = (floors or {}).get(name)
        if floor is not None:
            fits = fits and count >= floor
            low = "" if count >= floor else f"  FAILED: fewer than {floor}"
            lines.append(f"{name:28}{count:5}{low}")
            continue
        limit = limits[name]
        line = f"{name:28}{count:5}"
        if name == "module_cycles" and sizes:
            line += f"  of {', '.join(map(str, sizes))} modules"
        if count > limit:
            fits = False
            line += f"  FAILED: more than {limit}; see --list {name}"
        elif count < limit:
            line += f"  (less than {limit}: write {count} into scripts/structure/limits.json)"
        lines.append(line)
    return lines, fits


def main(arguments: list[str] | None = None) -> int:
    """Print what was asked for; 1 when a number exceeds its limit."""
    parser = argparse.ArgumentParser(prog="python -m scripts.structure")
    parser.add_argument("--list", metavar="NAME", help="the sites of one counter")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--write", action="store_true", help="write the numbers that shrank")
    options = parser.parse_args(arguments)
    table = json.loads(LIMITS.read_text("utf-8"))
    found = sites(table)
    counts = {name: len(places) for name, places in found.items()}
    if options.list:
        if options.list not in found:
            parser.error(f"no counter {options.list!r}; there are {', '.join(found)}")
        print("\n".join(found[options.list]))
        return 0
    sizes = [int(text.split()[0]) for text in found["module_cycles"]]
    lines, fits = compared(counts, table["limits"], sizes, table["floors"])
    tokens = size.by_folder(ROOT / "maxlab", ROOT / "extension")
    for name, first in table["first_tokens"].items():
        now = sum(count for folder, count in tokens.items() if folder.startswith(name))
        lines.append(f"tokens of {name:18}{now:8}  (first {first}, {now / first - 1:+.1%})")
    if options.write:
        limits = {name: min(counts[name], limit) for name, limit in table["limits"].items()}
        LIMITS.write_text(json.dumps({**table, "limits": limits}, indent=2) + "\n", "utf-8")
    print(
        json.dumps({"counts": counts, "sites": found, "tokens": tokens}, indent=1)
        if options.json
        else "\n".join(lines)
    )
    return 0 if fits else 1


if __name__ == "__main__":
    sys.exit(main())

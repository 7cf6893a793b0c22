"""Runs hostile families: ``python -m tests.hostile [FAMILY[:FIRST[:END]] ...]``.

Prints a line a family, and each case that is not good. With ``--json``, prints all outcomes of the
named families as one list of ``[case, outcome, what it said]``.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

from tests.hostile.families import FAMILIES
from tests.hostile.harness import Family, Outcome, run, table


def chosen(text: str) -> tuple[Family, range]:
    """The family and the numbers of its cases that ``NAME[:FIRST[:END]]`` means."""
    name, *bounds = text.split(":")
    family = next((family for family in FAMILIES if family.name == name), None)
    if family is None:
        raise SystemExit(f"there is no family {name}: {', '.join(f.name for f in FAMILIES)}")
    first = int(bounds[0]) if bounds else 0
    end = int(bounds[1]) if len(bounds) > 1 else family.count
    return family, range(first, min(end, family.count))


def main() -> int:
    """0 when every case was good, else 1; with ``--json`` always 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("families", nargs="*", metavar="FAMILY[:FIRST[:END]]")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    every: list[Outcome] = []
    for text in options.families or [family.name for family in FAMILIES]:
        family, numbers = chosen(text)
        begun = time.monotonic()
        outcomes = run(family, numbers)
        every += outcomes
        if not options.json:
            print(f"{table(family.name, outcomes)} ({time.monotonic() - begun:.1f} s)", flush=True)
            for outcome in outcomes:
                if not outcome.is_good:
                    print(outcome, flush=True)
    if options.json:
        json.dump([(o.case, o.outcome, o.said) for o in every], sys.stdout)
        return 0
    return int(any(not outcome.is_good for outcome in every))


if __name__ == "__main__":
    sys.exit(main())

"""How far nodes move when one operation is put into a graph: ``python -m benchmarks.movement``.

    python -m benchmarks.movement [--json FILE]

The layout is that of the front end, run by Node.js as its tests are. ``extension/test/movement.ts``
has the definition: at ten places, spread evenly, an operation is put on all edges that leave one;
each time the new layout follows the same first one. Told are distances on the canvas in widths of a
node: the mean over all items and inserts, the mean of the worst insert, and the farthest that one
item went. ``placed`` is the farthest that an item went that people had put somewhere, in units of
the canvas. The numbers are the same on every machine.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from pathlib import Path
from typing import Any

EXTENSION = Path(__file__).resolve().parents[1] / "extension"


def measured() -> dict[str, dict[str, float]]:
    """The movement in each graph, by its name."""
    command = ["node_modules/.bin/vitest", "run", "--reporter=json", "test/movement.spec.ts"]
    ran = subprocess.run(command, cwd=EXTENSION, capture_output=True, text=True, check=False)
    told: Any = json.loads(ran.stdout[ran.stdout.index("{") :])
    return {
        one["title"]: {key: round(value, 3) for key, value in one["meta"]["movement"].items()}
        for file in told["testResults"]
        for one in file["assertionResults"]
    }


def main() -> None:
    """Prints a table, and writes the numbers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="where the numbers go")
    args = parser.parse_args()
    found = measured()
    print(f"{'graph':<48}{'mean':>8}{'worst':>8}{'most':>8}{'placed':>9}")
    for graph, numbers in found.items():
        columns = [f"{numbers[key]:>8.2f}" for key in ("mean", "worst", "most")]
        print(f"{graph:<48}{''.join(columns)}{numbers['placed']:>9.1f}")
    if args.json is not None:
        args.json.write_text(json.dumps(found, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()

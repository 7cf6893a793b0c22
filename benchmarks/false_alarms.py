"""How often a comparison of runs is wrong: the same program against itself.

    python -m benchmarks.false_alarms [--case minilm_1x16] [--processes 12] [--runs 20]

Each run is a process of its own, one after the other, saved as ``.mlprof``. Compared are

- ``single``: each process with the one that came after it, as if the code had changed between them;
- ``several``: the processes in turns, every other one on a side.

Told is the fraction of comparisons that call a difference, for whole runs and for kernels; every
one is a false alarm. ``expected`` is what the confidence of 95 % allows.

Written as JSON to standard output.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from maxlab.analysis.runs import Pair, diff

CHILD = """
import sys
from benchmarks.profile_overhead import CASES
from maxlab import engine
model, inputs = CASES[sys.argv[1]](engine.InferenceSession(num_threads=int(sys.argv[3])))
model.profile(*inputs, runs=int(sys.argv[4])).save(sys.argv[2])
"""


def alarms(pairs: list[Pair]) -> dict[str, Any]:
    """How many of ``pairs`` and of their kernels are called different, and how wide intervals
    are."""
    changes = [change for pair in pairs for change in pair.changes]
    called = [pair for pair in pairs if pair.wall_state in ("slower", "faster")]
    widths = sorted(pair.wall.high / pair.wall.low - 1 for pair in pairs if pair.wall.low > 0)
    return {
        "comparisons": len(pairs),
        "runs_called": round(len(called) / len(pairs), 4),
        "runs_largest_called": max((abs(p.wall.ratio - 1) for p in called), default=0.0),
        "kernels": len(changes),
        "kernels_called": round(
            sum(change.state in ("slower", "faster") for change in changes) / len(changes), 4
        ),
        "interval_width_median": widths[len(widths) // 2] if widths else None,
    }


def main() -> None:
    """Run the processes, and print how their comparisons end."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--case", default="minilm_1x16")
    parser.add_argument("--processes", type=int, default=12)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{n:02}.mlprof" for n in range(options.processes)]
        for path in paths:
            arguments = [options.case, str(path), str(options.threads), str(options.runs)]
            command = [sys.executable, "-c", CHILD, *arguments]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        single = [diff(a, b).pairs[0] for a, b in itertools.pairwise(paths)]
        several = [diff(paths[::2], paths[1::2]).pairs[0]]
        size = sum(path.stat().st_size for path in paths) / len(paths)
    result = {
        "case": options.case,
        "threads": options.threads,
        "runs": options.runs,
        "load": os.getloadavg()[0],
        "expected": 0.05,
        "bytes_of_a_file": round(size),
        "single": alarms(single),
        "several": alarms(several),
    }
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()

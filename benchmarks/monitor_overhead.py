"""What the monitor costs: CPU seconds of its process for each second that it records.

    python -m benchmarks.monitor_overhead [--seconds 60] [--period 1.0] [--gpus 0]

The start of the interpreter is told apart from the recording. ``--gpus`` records GPUs that are
simulated by the tests' stand-in for NVML, so that the calls through the binding are counted; a real
driver's own work is not. Written as JSON to standard output.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

_PROGRAM = """
import json, sys, time
import psutil
from maxlab.diagnostics import Monitor

period_s, seconds = float(sys.argv[1]), float(sys.argv[2])
with Monitor.start(period_s=period_s) as monitor:
    process = psutil.Process(monitor.pid)
    def spent():
        times = process.cpu_times()
        return times.user + times.system
    started_s = spent()
    began = time.monotonic()
    time.sleep(seconds)
    wall_s = time.monotonic() - began
    used_s = spent() - started_s
    rss = process.memory_info().rss
samples = len(monitor.recording())
print(json.dumps({"start_cpu_s": started_s, "wall_s": wall_s, "cpu_s": used_s, "samples": samples,
                  "rss_bytes": rss, "columns": len(monitor.recording().columns)}))
"""


def main() -> None:
    """Measure, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--period", type=float, default=1.0)
    parser.add_argument("--gpus", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "MAXLAB_MONITOR_DIR": f"{folder}/monitor"}
        if options.gpus:
            from tests.diagnostics.simulated import build_library, environment, gpus_at

            gpus = Path(folder) / "gpus.txt"
            gpus.write_text(gpus_at(10.0, options.gpus) + "\n")
            env |= environment(build_library(Path(folder) / "lib"), gpus)
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM, str(options.period), str(options.seconds)],
            env=env,
            stdout=subprocess.PIPE,
            check=True,
        )
    found = json.loads(done.stdout)
    found["share_of_a_core"] = found["cpu_s"] / found["wall_s"]
    found |= {"period_s": options.period, "gpus": options.gpus, "cores": os.cpu_count()}
    found |= {"machine": platform.machine(), "python": platform.python_version()}
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()

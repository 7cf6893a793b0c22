"""Times maxlab on a GPU beside torch and NVIDIA's libraries: ``python -m benchmarks.gpu``.

All numbers are medians by the device's clock over recordings (`benchmarks.gpu.timing`), every
result is compared with float64 before its time is taken, and the contenders of a case take turns.
Compare ratios of one run. On the simulator (``--simulator``) sizes are tiny and every line of the
program runs, but the numbers say nothing, and no result can be written.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.gpu import attention, bandwidth, compile_time, minilm, overhead, peers, products
from benchmarks.gpu.case import Bench
from benchmarks.gpu.timing import FULL, TINY, Timer
from maxlab import driver

GROUPS: dict[str, Callable[[Bench], None]] = {
    "bandwidth": bandwidth.run,
    "products": products.run,
    "attention": attention.run,
    "overhead": overhead.run,
    "minilm": minilm.run,
    "compile": compile_time.run,
    "torch-compile": minilm.run_beside_torch_compile,
}


def main(arguments: list[str] | None = None) -> int:
    """0 if every case of maxlab gave a time; whether goals are met is in the rows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("groups", nargs="*", choices=[*GROUPS, []], help="all if none is named")
    parser.add_argument("--simulator", action="store_true", help="tiny sizes, to try the program")
    parser.add_argument("--tiny", action="store_true", help="tiny sizes, on whatever device")
    parser.add_argument("--rows", type=Path, help="append a line of JSON for each row")
    options = parser.parse_args(arguments)
    if options.simulator:
        driver.use_simulator()
    device = driver.Accelerator()
    tiny = options.tiny or device.simulated
    bench = Bench(device, Timer(device.context, TINY if tiny else FULL), tiny, out=options.rows)
    print(f"{device.context.properties.name}{', simulated: numbers mean nothing' if tiny else ''}")
    if peers.torch_on_a_gpu() is None:
        print(f"without torch: {peers.why_no_torch()}")
    for name in options.groups or GROUPS:
        begin = time.perf_counter()
        bench.guarded(name, "all", lambda name=name: GROUPS[name](bench))  # type: ignore[misc]
        print(f"-- {name}: {time.perf_counter() - begin:.1f} s", flush=True)
    wrong = bench.failed()
    print(json.dumps({"rows": len(bench.rows), "errors": len(wrong)}))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

"""Times opening a large weight file without a kernel: ``python -m benchmarks.open_file [--gb 10]
[--tensors 8000] [--json FILE]``.

A sparse safetensors file is written, whose tensors take so many GB and no room on the disk. A
Jupyter server answers what the page in JupyterLab asks when the file is double-clicked: its list of
tensors (in a server that has just started, then again and again), a picture of a tensor, and its
statistics. The same file with one tensor of the whole size is asked for a picture and statistics
too. A row has the first answer and the median of the others.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import statistics
import struct
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.browser.server import LabServer, start_lab


def write_sparse(path: Path, nbytes: int, tensors: int) -> None:
    """A file of ``tensors`` bfloat16 matrices that take about ``nbytes``, all holes."""
    width = 1024
    rows = nbytes // tensors // (2 * width)
    each = rows * width * 2
    header = {
        f"model.layers.{n // 16}.block.{n % 16}.weight": {
            "dtype": "BF16",
            "shape": [rows, width],
            "data_offsets": [n * each, (n + 1) * each],
        }
        for n in range(tensors)
    }
    raw = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(raw)) + raw)
    os.truncate(path, 8 + len(raw) + tensors * each)


def ask(server: LabServer, name: str, **asked: Any) -> tuple[float, bytes]:
    """Seconds until an answer is there, and the answer."""
    url = f"{server.url}/maxlab/files/{name}?{urllib.parse.urlencode(asked)}"
    request = urllib.request.Request(url, headers={"Authorization": f"token {server.token}"})
    started = time.perf_counter()
    with urllib.request.urlopen(request, timeout=120) as reply:
        body = reply.read()
    return time.perf_counter() - started, body


def measure(server: LabServer, path: str, rounds: int) -> dict[str, list[float]]:
    """Seconds of each question, asked so often."""
    times: dict[str, list[float]] = {"tensors": [], "picture": [], "statistics": []}
    for _ in range(rounds):
        took, body = ask(server, "header", path=path)
        times["tensors"].append(took)
        stamp = json.loads(body)["stamp"]
        asked = {"path": path, "stamp": stamp, "tensor": 0}
        times["picture"].append(ask(server, "slice", **asked, rows=0, columns=1, at="0,0")[0])
        times["statistics"].append(ask(server, "facts", **asked)[0])
    return times


def main() -> None:
    """Measure, print the table, write the JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gb", type=float, default=10)
    parser.add_argument("--tensors", type=int, default=8000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    load = [os.getloadavg()[0]]
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "root"
        root.mkdir()
        nbytes = int(options.gb * 1e9)
        write_sparse(root / "many.safetensors", nbytes, options.tensors)
        write_sparse(root / "one.safetensors", nbytes, 1)
        server = start_lab(root, Path(folder))
        try:
            found = {
                name: measure(server, f"{name}.safetensors", options.rounds)
                for name in ("many", "one")
            }
        finally:
            server.stop()
    load.append(os.getloadavg()[0])
    print("| tensors | question | first, ms | median of the others, ms |")
    print("|---:|---|---:|---:|")
    for name, count in (("many", options.tensors), ("one", 1)):
        for question, times in found[name].items():
            first, others = times[0] * 1e3, statistics.median(times[1:]) * 1e3
            print(f"| {count} | {question} | {first:.0f} | {others:.1f} |")
    print(f"\n{options.gb:g} GB; load before and after: {load[0]:.1f}, {load[1]:.1f}")
    if options.json:
        record = {
            "date": dt.datetime.now(dt.UTC).date().isoformat(),
            "gb": options.gb,
            "tensors": options.tensors,
            "load": load,
            "seconds": found,
        }
        options.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()

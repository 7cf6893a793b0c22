"""Times the timeline panel in headless Chromium: ``python -m benchmarks.timeline_view [--slices N]
[--tracks N] [--json FILE]``.

A small graph with a profile and a timeline of N slices, as a saved page carries them, is written as
a page of its own and opened offline. The panel is opened; then its window is panned and zoomed with
the pointer at four zooms, from everything (hundreds of slices a pixel) to single slices. A row has
the median, the 95th percentile and the longest frame. Frames come with the screen's refresh, so
that 16.7 ms is the least a frame can take. ``select`` and ``search`` are the times from a key to
the frame that shows all slices of a kernel outlined, or all that a word finds. There is no GPU:
Chromium draws in software.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import re
import statistics
import sys
import tempfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.view import ARGUMENTS, CHROMIUM

FRAMES = 90
MOVE = """async ([kind, frames]) => {
  const stage = document.querySelector('.jp-MaxLab-timelineStage');
  const box = stage.getBoundingClientRect();
  const x0 = box.left + box.width / 2, y0 = box.top + box.height / 2;
  const at = (type, x) => stage.dispatchEvent(new PointerEvent(type, {bubbles: true, pointerId: 1,
    isPrimary: true, button: 0, buttons: 1, clientX: x, clientY: y0}));
  const turn = n => stage.dispatchEvent(new WheelEvent('wheel', {bubbles: true, cancelable: true,
    ctrlKey: true, deltaY: n % 30 < 15 ? -60 : 60, clientX: x0, clientY: y0}));
  const times = [];
  if (kind === 'pan') at('pointerdown', x0);
  let last = performance.now();
  for (let n = 1; n <= frames; n++) {
    if (kind === 'pan') at('pointermove', x0 + 300 * Math.sin(n / 9)); else turn(n);
    await new Promise(requestAnimationFrame);
    const now = performance.now();
    times.push(now - last);
    last = now;
  }
  if (kind === 'pan') at('pointerup', x0);
  return times.slice(5);
}"""

KEY = """async ([kind, text]) => {
  const stage = document.querySelector('.jp-MaxLab-timelineStage');
  const search = document.querySelector('.jp-MaxLab-timeline input[type=search]');
  const start = performance.now();
  if (kind === 'select') {
    stage.dispatchEvent(new KeyboardEvent('keydown', {key: text, bubbles: true}));
  } else {
    search.value = text;
    search.dispatchEvent(new Event('input'));
  }
  await new Promise(requestAnimationFrame);
  await new Promise(requestAnimationFrame);
  return performance.now() - start;
}"""


def timeline(slices: int, tracks: int, kernels: list[str]) -> dict[str, Any]:
    """An answer to the question "timeline": runs of ``kernels`` on threads, and nested calls."""
    random = np.random.default_rng(0)
    threads = max(tracks - 1, 1)
    each = slices // tracks
    columns: dict[str, list[np.ndarray[Any, Any]]] = {
        name: [] for name in ("start", "dur", "track", "name", "kernel", "depth")
    }

    def add(
        track: int, start: np.ndarray[Any, Any], dur: np.ndarray[Any, Any], kernel: Any, depth: Any
    ) -> None:
        count = len(start)
        columns["start"].append(start)
        columns["dur"].append(dur)
        columns["track"].append(np.full(count, track))
        columns["kernel"].append(np.broadcast_to(kernel, count))
        columns["name"].append(np.where(np.broadcast_to(kernel, count) < 0, 0, kernel) + 0)
        columns["depth"].append(np.broadcast_to(depth, count))

    for thread in range(threads):
        dur = random.lognormal(8, 1.2, each).astype(np.int64)
        gap = random.integers(50, 800, each)
        start = np.cumsum(dur + gap) - dur
        add(thread, start, dur, np.arange(each) % len(kernels), 0)
    # Calls in calls, as a Python profiler gives them: each level has half as many.
    end = int(columns["start"][0][-1])
    left = slices - threads * each
    for depth in range(6):
        count = max(1, left >> (6 - depth))
        start = np.linspace(0, end, count, endpoint=False).astype(np.int64)
        add(tracks - 1, start, np.full(count, int(end / count * 0.9)), -1, depth)
    names = [f"kernel {kernel}" for kernel in kernels]
    kinds = [{"name": f"thread {n}", "kind": "thread", "process": "cpu"} for n in range(threads)]
    kinds.append({"name": "calls", "kind": "python", "process": "Python"})
    return {
        "version": 1,
        "unit": "ns",
        "device": "cpu",
        "simulated": False,
        "t0": 0,
        "n": sum(len(part) for part in columns["start"]),
        "tracks": kinds,
        "names": names,
        "kernels": kernels,
        "columns": {name: np.concatenate(parts).tolist() for name, parts in columns.items()},
    }


def write_page(folder: Path, slices: int, tracks: int) -> tuple[Path, int]:
    """A page of a profiled model with a timeline of about ``slices`` slices, and how many."""
    from maxlab import engine
    from maxlab.dtype import DType
    from maxlab.graph import Graph, TensorType, ops

    with Graph("timeline", input_types=[TensorType(DType.float32, ["rows", 64])]) as graph:
        x = graph.inputs[0].tensor
        for _ in range(8):
            x = ops.softmax(ops.tanh(x) * 2)
        graph.output(x)
    model = engine.InferenceSession(num_threads=1).load(graph)
    profile = model.profile(np.ones((32, 64), np.float32), runs=3)
    page = folder / "timeline.html"
    profile.to_html(page)
    text = page.read_text()
    carried = re.search(r'(<script[^>]*id="maxlab-graph"[^>]*>)(.*?)(</script>)', text, re.DOTALL)
    assert carried is not None
    if "octet-stream" in carried[1]:
        document = json.loads(zlib.decompress(base64.b64decode(carried[2])))
    else:
        document = json.loads(carried[2])
    made = timeline(slices, tracks, [kernel.id for kernel in profile.kernels])
    document.setdefault("answers", {})["timeline"] = made
    script = json.dumps(document, separators=(",", ":")).replace("<", "\\u003c")
    page.write_text(
        text[: carried.start()]
        + f'<script type="application/json" id="maxlab-graph">{script}</script>'
        + text[carried.end() :]
    )
    return page, made["n"]


def row(times: list[float]) -> dict[str, float]:
    """Median, 95th percentile and longest."""
    return {
        "median_ms": statistics.median(times),
        "p95_ms": statistics.quantiles(times, n=20)[-1],
        "longest_ms": max(times),
    }


def measure(slices: int, tracks: int) -> dict[str, Any]:
    """The frame times of panning and zooming, in milliseconds."""
    from playwright.sync_api import sync_playwright

    page_file, count = write_page(Path(tempfile.mkdtemp()), slices, tracks)
    rows: dict[str, Any] = {"slices": count, "tracks": tracks}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(page_file.as_uri())
        page.wait_for_function("window.__maxlabTest?.views.length > 0")
        page.evaluate("window.__maxlabTest.views[0].layoutDone()")
        rows["open_ms"] = page.evaluate(
            """async () => {
              const start = performance.now();
              window.__maxlabTest.views[0].execute('panel-timeline');
              const room = () => document.querySelector('.jp-MaxLab-timeline');
              while (room()?.getAttribute('aria-busy') !== 'false')
                await new Promise(requestAnimationFrame);
              await new Promise(requestAnimationFrame);
              return performance.now() - start;
            }"""
        )
        page.focus(".jp-MaxLab-timelineStage")
        steps = {"all": 0, "1/8": 6, "1/1000": 14, "single slices": 16}
        for name, zooms in steps.items():
            for _ in range(zooms):
                page.keyboard.press("+")
            page.wait_for_timeout(500)
            for kind in ("pan", "zoom"):
                rows[f"{kind}, {name}"] = row(page.evaluate(MOVE, [kind, FRAMES]))
        page.keyboard.press("f")
        page.keyboard.press("ArrowRight")
        page.wait_for_timeout(500)
        rows["select_ms"] = page.evaluate(KEY, ["select", "Enter"])
        page.wait_for_timeout(500)
        rows["search_ms"] = page.evaluate(KEY, ["search", "kernel"])
        browser.close()
    return rows


def main() -> None:
    """Measure, print, and write the JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--slices", type=int, default=1_000_000)
    parser.add_argument("--tracks", type=int, default=17)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = measure(options.slices, options.tracks)
    print(
        f"{rows['slices']:,} slices on {rows['tracks']} tracks; open {rows['open_ms']:.0f} ms, "
        f"select {rows['select_ms']:.0f} ms, search {rows['search_ms']:.0f} ms"
    )
    for name, found in rows.items():
        if isinstance(found, dict):
            print(
                f"{name}: {found['median_ms']:.1f} ms a frame, 95 % below {found['p95_ms']:.1f} ms,"
                f" longest {found['longest_ms']:.1f} ms"
            )
    print(f"load {os.getloadavg()[0]:.1f}")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()

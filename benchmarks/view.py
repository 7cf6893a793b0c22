"""Times the graph view in headless Chromium: ``python -m benchmarks.view [--ops N] [--json FILE]``.

A chain of residual blocks, N operations without scopes, so that nothing folds, is written as a page
of its own, opened offline, laid out, panned at two zooms, and searched: a query is typed, and the
time is that from a letter to the list with what it finds. A row has the median and the 95th
percentile. Frames come with the screen's refresh, so that 16.7 ms is the least a frame can take.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

CHROMIUM = os.environ.get("MAXLAB_CHROMIUM", "/usr/bin/chromium")
ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
PAN = """async () => {
  const view = window.__maxlabTest.views[0];
  const box = view.element.querySelector('canvas').getBoundingClientRect();
  const target = view.element.querySelector('.jp-MaxLab-stage') ?? view.element;
  const at = (type, x, y) => target.dispatchEvent(new PointerEvent(type,
    {bubbles: true, pointerId: 1, isPrimary: true, button: 0, buttons: 1, clientX: x, clientY: y}));
  const x0 = box.left + box.width / 2, y0 = box.top + box.height / 2;
  const times = [];
  at('pointerdown', x0, y0);
  let last = performance.now();
  for (let n = 1; n <= 90; n++) {
    at('pointermove', x0 + 150 * Math.sin(n / 9), y0 + 120 * Math.cos(n / 11));
    await new Promise(requestAnimationFrame);
    const now = performance.now();
    times.push(now - last);
    last = now;
  }
  at('pointerup', x0, y0);
  return times.slice(5);
}"""

QUERY = "op=mul & shape=[rows, 64] | tanh"
"""Typed letter by letter: a word, a comparison, a list and an alternative."""

TYPE = """async (query) => {
  const input = window.__maxlabTest.views[0].element.querySelector('.jp-MaxLab-searchInput');
  const times = [];
  input.focus();
  for (const round of [0, 1, 2]) {
    for (let n = 1; n <= query.length; n++) {
      await new Promise(done => requestAnimationFrame(() => setTimeout(done)));
      const began = performance.now();
      input.value = query.slice(0, n);
      input.dispatchEvent(new InputEvent('input', { bubbles: true }));
      // Until the frame that shows it is made: behind the next one.
      await new Promise(done => requestAnimationFrame(() => setTimeout(done)));
      times.push(performance.now() - began);
    }
  }
  return times;
}"""


def large_graph(count: int) -> Any:
    """A graph of about ``count`` operations in the user's order, without modules."""
    from maxlab.dtype import DType
    from maxlab.graph import Graph, TensorType, ops

    with Graph("large", input_types=[TensorType(DType.float32, ["rows", 64])]) as graph:
        x = graph.inputs[0].tensor
        skip = x
        for number in range(count // 5):
            y = ops.tanh(x + skip)
            z = ops.sigmoid(x)
            x, skip = y * z + skip, y if number % 3 else z
        graph.output(x)
    return graph


def measure(count: int) -> dict[str, Any]:
    """The layout time and the frame times of panning, in milliseconds."""
    from playwright.sync_api import sync_playwright

    folder = Path(tempfile.mkdtemp())
    graph = large_graph(count)
    page_file = folder / "large.html"
    graph.to_html(page_file)
    rows: dict[str, Any] = {"ops": len(graph.function.ops)}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        page = browser.new_page(viewport={"width": 1200, "height": 800})
        page.goto(page_file.as_uri())
        page.wait_for_function("window.__maxlabTest?.views.length > 0")
        page.evaluate("window.__maxlabTest.views[0].layoutDone()")
        rows["layout_ms"] = page.evaluate("window.__maxlabTest.views[0].layoutMs")
        for name, command in (("fit", "fit"), ("1:1", "actual-size")):
            page.evaluate(f"window.__maxlabTest.views[0].execute('{command}')")
            page.wait_for_timeout(700)
            times = page.evaluate(PAN)
            rows[f"pan at {name}"] = {
                "median_ms": statistics.median(times),
                "p95_ms": statistics.quantiles(times, n=20)[-1],
            }
        page.evaluate("window.__maxlabTest.views[0].execute('search')")
        times = page.evaluate(TYPE, QUERY)
        rows["found"] = page.locator(".jp-MaxLab-searchCount").inner_text()
        rows["typing a query"] = {
            "median_ms": statistics.median(times),
            "p95_ms": statistics.quantiles(times, n=20)[-1],
        }
        browser.close()
    return rows


def main() -> None:
    """Measure, print, and write the JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ops", type=int, default=10_000)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = measure(options.ops)
    print(f"{rows['ops']} operations; layout {rows['layout_ms']:.0f} ms (wall, in its worker)")
    for name, row in rows.items():
        if isinstance(row, dict):
            print(f"{name}: {row['median_ms']:.1f} ms each, 95 % below {row['p95_ms']:.1f} ms")
    print(f"{QUERY!r} finds {rows['found']}")
    print(f"load {os.getloadavg()[0]:.1f}")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()

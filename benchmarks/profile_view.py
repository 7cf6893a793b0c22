"""Times how fast a profile appears on a graph: ``python -m benchmarks.profile_view [--ops N]``.

A graph of N operations without scopes, so that all of it is drawn, is shown in headless Chromium;
then the same graph arrives with a profile. A row has the milliseconds from the arrival of its text
to the frame that shows the heat, and to the frame where everything has its final place: the median
of some repetitions, and the slowest.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.view import ARGUMENTS, CHROMIUM, large_graph

ARRIVE = """async ([plain, profiled]) => {
  const view = window.__maxlabTest.graphViews[0];
  const frame = () => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
  view.setDocument(plain);
  await view.layoutDone();
  await frame();
  const start = performance.now();
  view.setDocument(profiled);
  await frame();
  const heat = view.stage.isHeat && view.stage.picture.heat.size > 0;
  const shown = performance.now() - start;
  await view.layoutDone();
  await frame();
  return [heat, shown, performance.now() - start];
}"""


def measure(count: int, repetitions: int = 9) -> dict[str, Any]:
    """Milliseconds until the heat is drawn, and until all is in place."""
    import numpy as np
    from playwright.sync_api import sync_playwright

    from maxlab import engine
    from maxlab.lab.snapshot import take

    graph = large_graph(count)
    model = engine.InferenceSession().load(graph)
    plain = take(model).json
    profile = model.profile(np.ones((8, 64), np.float32), runs=3)
    start = time.perf_counter()
    profiled = take(profile).json
    rows: dict[str, Any] = {
        "ops": len(graph.function.ops),
        "kernels": len(profile.kernels),
        "document_ms": (time.perf_counter() - start) * 1e3,
        "document_characters": len(profiled),
    }
    page_file = Path(tempfile.mkdtemp()) / "large.html"
    graph.to_html(page_file)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        page = browser.new_page(viewport={"width": 1200, "height": 800})
        page.goto(page_file.as_uri())
        page.wait_for_function("window.__maxlabTest?.views.length > 0")
        page.evaluate("window.__maxlabTest.views[0].layoutDone()")
        found = [page.evaluate(ARRIVE, [plain, profiled]) for _ in range(repetitions)]
        browser.close()
    rows["heat_at_once"] = all(heat for heat, _, _ in found)
    for name, index in (("shown_ms", 1), ("in_place_ms", 2)):
        times = [row[index] for row in found]
        rows[name] = {"median": statistics.median(times), "slowest": max(times)}
    return rows


def main() -> None:
    """Measure, print, and write the JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ops", type=int, default=2_000)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = measure(options.ops)
    print(f"{rows['ops']} operations, {rows['kernels']} kernels; the document takes Python")
    print(f"{rows['document_ms']:.0f} ms and has {rows['document_characters']:,} characters")
    for name in ("shown_ms", "in_place_ms"):
        row = rows[name]
        print(f"{name}: {row['median']:.0f}, slowest {row['slowest']:.0f}")
    print(f"heat in the first frame: {rows['heat_at_once']}; load {os.getloadavg()[0]:.1f}")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()

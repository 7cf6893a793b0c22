"""The output of a notebook for a tensor: its numbers, how they are spread, and the graph that made
it.

=======================  ===========================================================================
``text/plain``           the numbers as ``repr`` has them
``text/html``            the numbers, dtype, shape and device, and a histogram
``…jupyter.widget-view`` the same, with a button that draws the graph, when a kernel stands behind
=======================  ===========================================================================
"""

from __future__ import annotations

import html
from collections.abc import Collection
from typing import Any

import numpy as np

from maxlab.driver import printing
from maxlab.experimental.programs import graph_made_by
from maxlab.experimental.recording import made_by
from maxlab.experimental.tensor import Tensor
from maxlab.lab.mime import has_kernel, view_data, wish
from maxlab.lab.protocol import WIDGET_MIME

BARS = 24
MOST_READ = 1 << 22
"""Elements that a histogram counts; of a larger tensor it is those at equal distances."""


def mimebundle(
    tensor: Tensor, include: Collection[str] | None, exclude: Collection[str] | None
) -> dict[str, Any]:
    """The MIME bundle of ``tensor``, which is computed if it was not.

    Args:
        tensor: What to show.
        include: MIME types to make; all when left out.
        exclude: MIME types to leave out.
    """
    wanted = wish(include, exclude)
    data: dict[str, Any] = {}
    text = repr(tensor)
    if wanted("text/plain"):
        data["text/plain"] = text
    if not tensor.has_elements:
        return data
    page = page_of(tensor) if wanted("text/html") or wanted(WIDGET_MIME) else ""
    if wanted("text/html"):
        data["text/html"] = page
    if wanted(WIDGET_MIME) and has_kernel():
        data[WIDGET_MIME] = view_data(_widget(tensor, page))
    return data


def page_of(tensor: Tensor) -> str:
    """``tensor`` as HTML: its numbers, what it is, and its histogram."""
    memory = tensor.realize.tensor.driver_tensor
    numbers = (
        '<div role="region" aria-label="elements" tabindex="0" '
        f'style="max-height:16em;overflow:auto">{printing.page(memory)}</div>'
    )
    return numbers + histogram(tensor)


def histogram(tensor: Tensor) -> str:
    """How the elements of ``tensor`` are spread, as HTML; empty of a tensor of fewer than two."""
    count = tensor.num_elements()
    if count < 2:
        return ""
    array = tensor.numpy().reshape(-1)
    step = -(-count // MOST_READ)
    numbers = np.asarray(array[::step], np.float64)
    finite = numbers[np.isfinite(numbers)]
    others = {
        "NaN": int(np.isnan(numbers).sum()),
        "+inf": int(np.isposinf(numbers).sum()),
        "-inf": int(np.isneginf(numbers).sum()),
    }
    said = [f"{number} {name}" for name, number in others.items() if number]
    if step > 1:
        said.append(f"of every {step}th element")
    if not finite.size:
        return _block("", ", ".join(said))
    low, high = float(finite.min()), float(finite.max())
    said[:0] = [f"{low:.4g} … {high:.4g}", f"mean {float(finite.mean()):.4g}"]
    return _block(_bars(finite, low, high), ", ".join(said))


def _bars(finite: np.ndarray[Any, Any], low: float, high: float) -> str:
    if low == high:
        return ""
    with np.errstate(over="ignore"):
        width = high - low
    scale = 1.0 if np.isfinite(width) else 0.5  # a range that is wider than the greatest number
    counts, edges = np.histogram(finite * scale, BARS, (low * scale, high * scale))
    most = int(counts.max())
    bars = "".join(
        f'<div title="{edges[n] / scale:.4g} … {edges[n + 1] / scale:.4g}: {count}" '
        f'style="flex:1;background:var(--jp-brand-color1,#1976d2);'
        f'height:{0 if not count else max(2, round(40 * count / most))}px"></div>'
        for n, count in enumerate(counts.tolist())
    )
    label = f"histogram from {low:.4g} to {high:.4g}: " + ", ".join(map(str, counts.tolist()))
    return (
        f'<div role="img" aria-label="{html.escape(label)}" style="display:flex;'
        f'align-items:flex-end;gap:1px;height:42px;max-width:300px">{bars}</div>'
    )


def _block(bars: str, said: str) -> str:
    words = f'<small style="opacity:.7">{html.escape(said)}</small>'
    return f'<div class="maxlab-histogram" style="margin-top:4px">{bars}{words}</div>'


def _widget(tensor: Tensor, page: str) -> Any:
    """The page with a button below that draws the graph. It keeps neither the tensor nor its
    memory."""
    import ipywidgets

    made = made_by(tensor)
    shown = ipywidgets.HTML(page)
    if made is None:
        return shown
    button = ipywidgets.Button(
        description="Draw the graph",
        icon="project-diagram",
        tooltip="Draw the operations that made this tensor, with their lines",
    )
    box = ipywidgets.VBox([shown, button])

    def draw(_: Any) -> None:
        from maxlab.lab.widget import GraphView

        button.disabled = True
        box.children = (shown, GraphView(graph_made_by(made)))

    button.on_click(draw)
    return box


__all__ = ["histogram", "mimebundle", "page_of"]

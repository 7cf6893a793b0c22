"""A recording as a still picture, for pages that run no script, such as a saved notebook."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any
from xml.sax.saxutils import escape

import numpy as np
import numpy.typing as npt

from maxlab.diagnostics.monitor.line_format import Column
from maxlab.lab import mime
from maxlab.lab.dashboard.store import Store, thinned
from maxlab.lab.protocol import WIDGET_MIME

_TITLES = {
    "utilization": "GPU utilisation",
    "memory": "GPU memory",
    "power": "Power",
    "temperature": "Temperature",
    "clock": "Clocks",
    "pcie": "PCIe",
    "nvlink": "NVLink",
    "cpu": "CPU",
    "host_memory": "Host memory",
    "disk": "Disk",
    "network": "Network",
}
_COLORS = ("#3b6fd4", "#b4632a", "#1f8a58", "#9a4fb5", "#1b8a99", "#7a7a20", "#b8434e", "#6a5bd0")
_WIDTH, _HEIGHT, _GAP, _HEAD = 400, 74, 18, 22
_POINTS = 400


def bundle_of(
    store: Store,
    plain_text: str,
    view: Callable[[], Any],
    include: Collection[str] | None,
    exclude: Collection[str] | None,
) -> dict[str, Any]:
    """The MIME bundle of a dashboard; ``view`` makes the widget, when a kernel can stand behind it.

    Args:
        store: what is shown.
        plain_text: the ``text/plain``, the same in every run.
        view: makes the widget.
        include: MIME types to make; all when left out.
        exclude: MIME types to leave out.
    """
    wanted = mime.wish(include, exclude)
    data: dict[str, Any] = {}
    if wanted("text/plain"):
        data["text/plain"] = plain_text
    if wanted("image/svg+xml") and store.samples:
        data["image/svg+xml"] = draw(store)
    if wanted(WIDGET_MIME) and mime.has_kernel():
        data[WIDGET_MIME] = mime.view_data(view(), 0)
    return data


def draw(store: Store) -> str:
    """An SVG of the charts of ``store``: a line for each column, in two rows of charts."""
    columns, times, rows, state = store.snapshot()
    rows[~np.isfinite(rows)] = np.nan
    if len(times) > _POINTS:
        times, rows = thinned(times, rows, _POINTS)
    groups: dict[str, list[int]] = {}
    for place, column in enumerate(columns):
        if column.quantity in _TITLES and not np.all(np.isnan(rows[:, place])):
            groups.setdefault(column.quantity, []).append(place)
    charts = [
        _chart(n, _TITLES[quantity], [columns[p] for p in groups[quantity]], times,
               rows[:, groups[quantity]])
        for n, quantity in enumerate(q for q in _TITLES if q in groups)
    ]  # fmt: skip
    width = 2 * _WIDTH + 3 * _GAP
    height = _HEAD + _GAP + -(-len(charts) // 2) * (_HEIGHT + _HEAD + _GAP)
    seconds = (times[-1] - times[0]) / 1e9
    label = f" ({state['label']})" if state["label"] else ""
    title = _escaped(f"{state['title'] or 'Diagnostics'}{label}: {seconds:.0f} s")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'role="img" aria-label="{title}" font-family="sans-serif" font-size="11">'
        f'<rect width="{width}" height="{height}" rx="6" fill="#fff" stroke="#d9dce3"/>'
        f'<text x="{_GAP}" y="{_GAP + 4}" font-size="13" font-weight="600" fill="#232733">{title}'
        f"</text>{''.join(charts)}</svg>"
    )


def _chart(
    number: int,
    title: str,
    columns: list[Column],
    times: npt.NDArray[np.int64],
    rows: npt.NDArray[np.float32],
) -> str:
    x = _GAP + (number % 2) * (_WIDTH + _GAP)
    y = _HEAD + _GAP + (number // 2) * (_HEIGHT + _HEAD + _GAP)
    unit = columns[0].unit
    most = float(np.nanmax(rows))
    tops = [column.top for column in columns if column.top is not None]
    top = max(tops) if unit == "%" and tops else max(most * 1.05, 1e-9)
    span = max(float(times[-1] - times[0]), 1.0)
    lines = [
        (
            f'<g transform="translate({x},{y})">'
            f'<text y="12" font-weight="600" fill="#232733">{title}</text>'
            f'<text x="{_WIDTH}" y="12" text-anchor="end" fill="#5b6170">'
            f"most: {_escaped(_amount(most, unit))}</text>"
            f'<rect y="{_HEAD - 4}" width="{_WIDTH}" height="{_HEIGHT}" fill="#f6f7fa"/>'
        )
    ]
    for place, column in enumerate(columns[:8]):
        pieces: list[str] = []
        is_open = False
        for time_ns, value in zip(times, rows[:, place], strict=True):
            if np.isnan(value):
                is_open = False
                continue
            px = float(time_ns - times[0]) / span * _WIDTH
            py = _HEAD - 4 + _HEIGHT * (1 - min(max(float(value) / top, 0.0), 1.0))
            if column.average and is_open:
                # A mean holds for its window: a step, not a slope.
                pieces.append(f"V{py:.1f}" if not pieces else f"H{px:.1f}V{py:.1f}")
            else:
                pieces.append(f"{'L' if is_open else 'M'}{px:.1f} {py:.1f}")
            is_open = True
        name = _escaped(f"{column.device} {column.label}")
        color = _COLORS[place % len(_COLORS)]
        path = "".join(pieces)
        lines.append(
            f'<path d="{path}" fill="none" stroke="{color}" stroke-width="1.4"><title>{name}'
            "</title></path>"
        )
    return "".join(lines) + "</g>"


def _escaped(text: str) -> str:
    """``text`` as a part of the picture; XML has no way to write most control characters."""
    return escape("".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text))


def _amount(value: float, unit: str) -> str:
    if unit == "B":
        return f"{value / 2**30:.2f} GiB"
    if unit in ("B/s", "Hz"):
        return f"{value / 1e9:.2f} G{unit}"
    return f"{value:.0f} {unit}"

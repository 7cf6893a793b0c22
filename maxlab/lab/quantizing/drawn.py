"""The error and the times of a layer side by side, as bars of HTML."""

from __future__ import annotations

from collections.abc import Sequence

from maxlab.analysis.quantizing import Layer
from maxlab.engine.times import time_text

WIDTH = 150
"""CSS pixels of the longest bar."""
_ERROR, _FLOAT, _INT8 = "#b5533c", "#8a94a6", "#3f7fbf"


class Scale:
    """Ends of the bars: the largest error and the longest time of ``layers``."""

    def __init__(self, layers: Sequence[Layer]) -> None:
        self.error = max((x.error for x in layers if x.error is not None), default=0.0)
        times = [ns for x in layers for ns in (x.before_ns, x.after_ns) if ns is not None]
        self.ns = max(times, default=0.0)


def bars(layer: Layer, scale: Scale) -> str:
    """The bars of ``layer``: its error in bytes, and its time in floats above that of now."""
    parts = []
    if layer.error is not None:
        text = f"{100 * layer.error:.2g} %" + (" in int8" if layer.is_kept else "")
        parts.append(_column([_bar(layer.error, scale.error, _ERROR, text, "error")]))
    if layer.before_ns is not None and layer.after_ns is not None:
        now = _FLOAT if layer.is_kept else _INT8
        parts.append(
            _column(
                [
                    _bar(layer.before_ns, scale.ns, _FLOAT, time_text(layer.before_ns), "float"),
                    _bar(layer.after_ns, scale.ns, now, time_text(layer.after_ns), "now"),
                ]
            )
        )
    style = "display:flex;gap:24px;line-height:14px;font-size:11px;align-items:center"
    return f'<div style="{style}">{"".join(parts)}</div>'


def _column(lines: Sequence[str]) -> str:
    return f'<div style="width:{WIDTH + 100}px">{"".join(lines)}</div>'


def _bar(value: float, most: float, colour: str, text: str, what: str) -> str:
    width = round(WIDTH * min(value / most, 1.0)) if most else 0
    bar = f'<span style="background:{colour};width:{width}px;height:9px;flex:none"></span>'
    return (
        f'<div style="display:flex;gap:4px;align-items:center" title="{what}: {text}">{bar}'
        f"<span>{what} {text}</span></div>"
    )


__all__ = ["Scale", "bars"]

"""How a notebook shows an object of maxlab: the forms of ``mime``, with a live view behind them."""

from __future__ import annotations

import sys
from typing import Any

from maxlab.diagnostics.monitor import Monitor, Recording
from maxlab.graph import Graph
from maxlab.lab import overlays, reruns
from maxlab.lab.mime import bundle_of, plain
from maxlab.lab.snapshot import take


def mimebundle(obj: Any, include: Any = None, exclude: Any = None) -> dict[str, Any]:
    """The MIME bundle of an object of maxlab that a notebook shows.

    Args:
        obj: A graph, a model, a profile, a tensor, a monitor, a recording, a quantised model; a
            request, a context or anything else of `maxlab.interfaces` that is shown as a table.
        include: MIME types to make; all when left out.
        exclude: MIME types to leave out.
    """
    if isinstance(obj, (Monitor, Recording)):
        from maxlab.lab.dashboard.widget import DashboardView

        shown = DashboardView(None if isinstance(obj, Monitor) else obj)
        return dict(shown._repr_mimebundle_(include, exclude))
    experimental = sys.modules.get("maxlab.experimental.tensor")
    if experimental is not None and isinstance(obj, experimental.Tensor):
        from maxlab.lab import tensors

        return tensors.mimebundle(obj, include, exclude)
    serving = sys.modules.get("maxlab.interfaces.showing")
    if serving is not None and isinstance(obj, serving.Shown):
        from maxlab.lab import requests

        return requests.mimebundle(obj, include, exclude)
    quantised = sys.modules.get("maxlab.analysis.quantizing.quantized")
    if quantised is not None and isinstance(obj, quantised.Quantized):
        from maxlab.lab import quantizing

        return quantizing.mimebundle(obj, include, exclude)
    if isinstance(obj, Graph):
        reruns.carry(obj)
    snapshot = take(obj)
    if overlays.carried(obj, snapshot.name):
        snapshot = take(obj)

    def view() -> Any:
        from maxlab.lab.widget import view_of

        return view_of(obj, snapshot)

    return bundle_of(snapshot, plain(obj, snapshot), view, include, exclude, obj)

"""``QuantizedView``: a quantised model whose layers are kept in floats by a click or a key."""

from __future__ import annotations

import threading
from collections.abc import Collection
from typing import Any

import ipywidgets

from maxlab.analysis.quantizing import Quantized
from maxlab.errors import MaxlabError
from maxlab.lab.errands import Errands
from maxlab.lab.mime import forms_of
from maxlab.lab.quantizing.drawn import Scale, bars
from maxlab.lab.widget import GraphView
from maxlab.markup import escape
from maxlab.progress import Work


class QuantizedView(ipywidgets.VBox):  # type: ignore[misc]
    """A quantised model: its report, its graph coloured by error and time, and its layers, each
    with a box that keeps it in floats.

    A layer is kept by its box, or by the button above the graph when one of its ops is selected
    there; both are reached by Tab and moved by the space bar. The model is then quantised again, on
    what was measured before, and everything shows the new one.

    Args:
        made: What ``maxlab.quantize`` gave.
        height: CSS pixels of the graph.

    Attributes:
        quantized: The quantised model that is shown now.
        graph: The view of its graph.

    Example:
        >>> import numpy as np
        >>> import maxlab
        >>> from maxlab.lab.quantizing import QuantizedView
        >>> weights = np.eye(8, 4, dtype=np.float32)
        >>> types = [maxlab.TensorType(maxlab.float32, ["n", 8])]
        >>> graph = maxlab.Graph("project", lambda x: x @ weights, types)
        >>> view = QuantizedView(maxlab.quantize(graph))
        >>> view.toggle("n1")
        >>> view.quantized.kept
        ['n1']
    """

    def __init__(self, made: Quantized, *, height: int = 420) -> None:
        self.quantized = made
        self._names = {layer.node: layer.name for layer in made.layers}
        self._drawing = False
        self._lock = threading.Lock()
        self._errands = Errands(lambda message: None)
        self._number = 0
        self._summary = ipywidgets.HTML()
        self._said = ipywidgets.HTML()
        self._button = ipywidgets.Button(layout=ipywidgets.Layout(width="auto"))
        self._button.on_click(lambda _: self._toggle_selected())
        self.graph = GraphView(made.model, height=height)
        self.graph.observe(self._selected, "selection")
        self._boxes: dict[str, Any] = {}
        self._bars: dict[str, Any] = {}
        rows = []
        for layer in made.layers:
            box = ipywidgets.Checkbox(
                layer.is_kept, description=layer.name, indent=False,
                tooltip=f"Keep {layer.name} in float", layout=ipywidgets.Layout(width="300px"),
            )  # fmt: skip
            box.observe(self._moved, "value")
            self._boxes[layer.name], self._bars[layer.name] = box, ipywidgets.HTML()
            rows.append(ipywidgets.HBox([box, self._bars[layer.name]]))
        self._head = ipywidgets.HTML("<b>Keep in float</b>")
        listed = ipywidgets.VBox(
            rows, layout=ipywidgets.Layout(max_height="420px", overflow="auto")
        )
        bar = ipywidgets.HBox([self._button, self._said])
        super().__init__([self._summary, bar, self.graph, self._head, listed])
        self._draw()

    # ------------------------------------------------------------ what is shown
    def _draw(self) -> None:
        """Show the quantised model as it is now."""
        made = self.quantized
        scale = Scale(made.layers)
        code = f"keep={made.kept!r}"
        self._drawing = True
        try:
            self._summary.value = f"<p>{escape(made.summary)}.<br><code>{escape(code)}</code></p>"
            for layer in made.layers:
                self._boxes[layer.name].value = layer.is_kept
                self._bars[layer.name].value = bars(layer, scale)
        finally:
            self._drawing = False
        self._selected(None)

    def _selected(self, _: Any) -> None:
        """Offer to keep the layer that is selected in the graph."""
        name = self._chosen()
        self._button.disabled = name is None
        if name is None:
            self._button.description = "Select a product in the graph to keep it in float"
        elif name in self.quantized.kept:
            self._button.description = f"Quantise {name}"
        else:
            self._button.description = f"Keep {name} in float"

    def _chosen(self) -> str | None:
        """The layer whose op is selected; None when that is none, or several are."""
        found = [self._names[node] for node in self.graph.selection if node in self._names]
        return found[0] if len(found) == 1 else None

    # ------------------------------------------------------------ changes
    def toggle(self, name: str) -> None:
        """Moves the layer ``name`` from bytes to floats, or back, and shows the new model.

        Raises:
            ArgumentError: ML242, a name that is that of no layer.
        """
        with self._lock:
            made = self.quantized.toggling(name)
            self.quantized = made
            self.graph.update(made.model)
            self._draw()

    def _toggle_selected(self) -> None:
        name = self._chosen()
        if name is not None:
            self._start(name)

    def _moved(self, change: Any) -> None:
        if not self._drawing:
            self._start(change["owner"].description)

    def _start(self, name: str) -> None:
        """Toggle ``name`` behind what was asked for before; in a kernel, on a thread of its own."""
        self._said.value = escape(f"quantising again, {name} otherwise …")
        self._number += 1
        self._errands.do(self._number, f"keep {name}", lambda work: self._do(name, work))

    def _do(self, name: str, work: Work) -> None:
        try:
            self.toggle(name)
        except MaxlabError as error:
            self._said.value = escape(str(error))
            self._draw()
            return
        self._said.value = ""

    # ------------------------------------------------------------ forms
    def close(self) -> None:
        """Takes the view off every page."""
        self.graph.close()
        for one in (*self._boxes.values(), *self._bars.values(), *self.children):
            one.close()
        super().close()

    def __repr__(self) -> str:
        return f"QuantizedView({self.quantized.model.name!r}, kept={self.quantized.kept})"

    def _repr_mimebundle_(
        self,
        include: Collection[str] | None = None,
        exclude: Collection[str] | None = None,
        **_: Any,
    ) -> dict[str, Any]:
        made = self.quantized
        return forms_of(
            include,
            exclude,
            text=lambda: repr(made),
            page=made.to_html,
            view=lambda: self,
            minor=0,
        )


__all__ = ["QuantizedView"]

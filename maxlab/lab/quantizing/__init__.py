"""Quantised models in a notebook: the report, the graph, and layers to keep in floats.

``drawn``   the error and the times of a layer as bars
``widget``  ``QuantizedView``, where a layer is kept in floats by a click or a key
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from maxlab.errors import missing
from maxlab.lab.mime import forms_of

if TYPE_CHECKING:
    from maxlab.analysis.quantizing import Quantized
    from maxlab.lab.quantizing.widget import QuantizedView

__all__ = ["QuantizedView", "mimebundle"]


def mimebundle(
    made: Quantized, include: Collection[str] | None, exclude: Collection[str] | None
) -> dict[str, Any]:
    """The MIME bundle of a quantised model: what it is, its report as a table, and the view.

    Args:
        made: The quantised model.
        include: MIME types to make; all when left out.
        exclude: MIME types to leave out.
    """

    def view() -> Any:
        from maxlab.lab.quantizing.widget import QuantizedView

        return QuantizedView(made)

    return forms_of(
        include, exclude, text=lambda: repr(made), page=made.to_html, view=view, minor=0
    )


def __getattr__(name: str) -> Any:
    # ipywidgets takes a tenth of a second to import.
    if name == "QuantizedView":
        from maxlab.lab.quantizing.widget import QuantizedView

        return QuantizedView
    raise missing("maxlab.lab.quantizing", name, __all__)

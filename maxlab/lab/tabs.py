"""Views that a page opens by itself, each over a channel of its own: the tabs of JupyterLab.

The page opens a comm and names a graph or model by the id of `maxlab.lab.live`. Over the comm goes
what goes between a widget and its kernel, so a tab can do all that the view of a cell can.
"""

from __future__ import annotations

from typing import Any

from maxlab.errors import ArgumentError
from maxlab.lab import live, serving
from maxlab.lab.widget import GraphView, show_in_page, view_for_page

TARGET = "maxlab.view"
"""Name of the comms that pages open."""

_TRAITS = ["doc", "selection", "height", "theme", "not_live", "no_model", "revision", "editing"]

_open: dict[str, GraphView] = {}


def serve() -> str:
    """Answer pages that open comms named `TARGET` from now on; empty text, for who asks."""
    return serving.serve(TARGET, opened)


def opened(comm: Any, message: dict[str, Any]) -> None:
    """Show over ``comm`` what its first message names; where it is gone, the comm is closed with
    the reason."""
    number = str(comm.comm_id)
    try:
        asked = message["content"]["data"]
        is_editing = asked.get("editing") is True
        view = view_for_page(live.find(str(asked["id"])), comm, editing=is_editing)
    except Exception as error:  # the page says it; the kernel must go on
        comm.close(data={"error": str(error)})
        return
    _open[number] = view
    comm.on_close(lambda _message: _closed(number))
    view.send_state(_TRAITS)


def show(number: str, id: str) -> str:
    """Show the live object ``id`` in the tab whose comm has the id ``number``; empty text.

    Raises:
        ArgumentError: ML807, there is no such object any more, or no such tab.
    """
    view = _open.get(number)
    if view is None:
        raise ArgumentError(
            "ML807", f"no tab has the channel {number!r}", fix="close the tab and open it again"
        )
    show_in_page(view, live.find(id))
    return ""


def _closed(number: str) -> None:
    view = _open.pop(number, None)
    if view is not None:
        view.close()

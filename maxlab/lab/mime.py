"""The output of a notebook for a graph, a model or a profile, in every form a front end may know.

=================================  =================================================================
``text/plain``                     a listing, the same in every run
``application/vnd.maxlab.graph``   the document: drawn by the JupyterLab extension without a kernel
``image/svg+xml``                  a picture for pages that run no script
``text/html``                      instead of the picture, when graphviz is not installed
``…jupyter.widget-view``           the live view, when there is a kernel to stand behind it
=================================  =================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from maxlab.analysis.runs.shown import Recorded
from maxlab.engine import Model
from maxlab.engine.profile import Profile
from maxlab.graph import Graph
from maxlab.ir import Value
from maxlab.ir.cells import kernel
from maxlab.lab import svg, text, words
from maxlab.lab.protocol import GRAPH_MIME, STILL_MIME, WIDGET_MIME
from maxlab.lab.snapshot import Snapshot, take, without_times
from maxlab.markup import escape, visible

MOST_SAVED = 1_500_000
"""Characters of a document that a notebook saves; of larger graphs only the picture is saved."""

COMFORTABLE = 100_000
"""Characters above which the generated C is left out of what a notebook saves."""


def plain(obj: Graph | Model | Profile | Recorded, snapshot: Snapshot) -> str:
    """The ``text/plain`` of ``obj``: no times, no cell numbers, no addresses."""
    if isinstance(obj, Graph):
        return text.listing(snapshot.document)
    if isinstance(obj, (Profile, Recorded)):
        return repr(obj)
    output = obj.compiled.source.output
    lines = [repr(obj)]
    lines += [f"  {v.name}: {words.type_text(v.type)}" for v in obj.compiled.source.inputs]
    outputs: list[Value] = list(output.operands) if output is not None else []
    lines += [f"  → {words.type_text(v.type)}" for v in outputs]
    return "\n".join(lines)


def wish(include: Collection[str] | None, exclude: Collection[str] | None) -> Callable[[str], bool]:
    """A function that says whether a MIME type is to be made.

    Args:
        include: MIME types to make; all when left out.
        exclude: MIME types to leave out.
    """
    return lambda mime: (not include or mime in include) and mime not in (exclude or ())


def view_data(view: Any, minor: int = 1) -> dict[str, Any]:
    """The data of the widget ``view``, of this minor version, under `WIDGET_MIME`."""
    return {"version_major": 2, "version_minor": minor, "model_id": view.model_id}


def forms_of(
    include: Collection[str] | None,
    exclude: Collection[str] | None,
    *,
    text: Callable[[], str],
    page: Callable[[], str],
    view: Callable[[], Any] | None = None,
    minor: int = 1,
    still: bool = False,
) -> dict[str, Any]:
    """The MIME bundle of what has a text and a page and, where there is a kernel for it, a view.

    Args:
        include: MIME types to make; all when left out.
        exclude: MIME types to leave out.
        text: Makes the text.
        page: Makes the HTML.
        view: Makes the widget.
        minor: The minor version of the widget's data.
        still: Whether the page is drawn where the widget has no model any more.
    """
    wanted = wish(include, exclude)
    data: dict[str, Any] = {}
    if wanted("text/plain"):
        data["text/plain"] = visible(text())
    if wanted("text/html"):
        data["text/html"] = page()
    if view is not None and wanted(WIDGET_MIME) and has_kernel():
        data[WIDGET_MIME] = view_data(view(), minor)
        if still and wanted(STILL_MIME):
            data[STILL_MIME] = {}
    return data


def bundle_of(
    snapshot: Snapshot,
    plain_text: str,
    view: Callable[[], Any],
    include: Collection[str] | None,
    exclude: Collection[str] | None,
    obj: Graph | Model | Profile | Recorded | None = None,
) -> dict[str, Any]:
    """The MIME bundle of ``snapshot``; ``view`` makes the widget, when there is a kernel for it."""
    wanted = wish(include, exclude)
    data: dict[str, Any] = {}
    if wanted("text/plain"):
        data["text/plain"] = visible(plain_text)
    if wanted("image/svg+xml") or wanted("text/html"):
        try:
            picture = svg.draw(snapshot.document)
        except svg.PictureError as error:
            if wanted("text/html"):
                data["text/html"] = _instead(plain_text, error)
        else:
            if wanted("image/svg+xml"):
                data["image/svg+xml"] = picture
    if wanted(GRAPH_MIME):
        saved = _saved(snapshot, obj)
        if saved is not None:
            data[GRAPH_MIME] = saved
    if wanted(WIDGET_MIME) and has_kernel():
        data[WIDGET_MIME] = view_data(view())
    return data


def _saved(snapshot: Snapshot, obj: Graph | Model | Profile | Recorded | None) -> Any:
    """The document to save: as complete as is fit for a notebook, and without the compiler's times,
    so that running a notebook again changes nothing; None when it is too large."""
    lasting = without_times(snapshot.document)
    saved = snapshot if lasting is snapshot.document else Snapshot(lasting)
    if len(saved.base64) > COMFORTABLE and isinstance(obj, (Model, Profile, Recorded)):
        saved = Snapshot(without_times(take(obj, sources=False).document))
    return saved.packed if len(saved.base64) <= MOST_SAVED else None


def _instead(plain_text: str, error: svg.PictureError) -> str:
    words_ = escape(error.what) + (f"<br>{escape(error.fix)}" if error.fix else "")
    return f"<pre>{escape(plain_text)}</pre><p><em>{words_}</em></p>"


def has_kernel() -> bool:
    """Whether this process is a notebook's kernel with widgets installed."""
    if kernel() is None:
        return False
    try:
        import anywidget  # noqa: F401
    except ImportError:
        return False
    return True

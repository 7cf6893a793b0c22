"""``GraphView``: the interactive view of a graph, model or profile, as an ordinary widget.

Only small state is in synced traits. The document is sent as a message when a page asks for it, so
that a saved notebook does not store it with the widget. Requests of the page may arrive on a thread
of the kernel's own; a lock guards what they share, and no request ever raises.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from maxlab import __version__, progress, trace
from maxlab.analysis.runs.shown import Recorded
from maxlab.engine import Model
from maxlab.engine.profile import Profile
from maxlab.errors import ArgumentError, CancelledError
from maxlab.files import AnyPath
from maxlab.graph import Graph
from maxlab.lab import bundle, coloured, following, overlays, protocol, reruns
from maxlab.lab.errands import Errands
from maxlab.lab.faults import fault_of
from maxlab.lab.inputs import inputs_for, runs_for
from maxlab.lab.mime import bundle_of
from maxlab.lab.models import model_for
from maxlab.lab.protocol import PROTOCOL, reader
from maxlab.lab.query import Found, find_in
from maxlab.lab.questions import answering
from maxlab.lab.revisions import Revisions
from maxlab.lab.seen import Seen
from maxlab.lab.snapshot import Snapshot, kernel_source, take

Shown = Graph | Model | Profile | Recorded

PART_BYTES = 1 << 20
"""Bytes of a document in one message."""

NO_MODEL = "what was saved has no model behind it"

RECENT = 32
"""Displayed graphs that are kept alive for their views."""

_state_lock = threading.RLock()
_profile_lock = threading.Lock()
_recent: deque[Any] = deque(maxlen=RECENT)
_views: weakref.WeakSet[GraphView] = weakref.WeakSet()


@cache
def loader() -> str:
    """The JavaScript that is stored with every view."""
    text = Path(__file__).with_name("loader.js").read_text("utf-8")
    lines = (line.strip() for line in text.replace("__VERSION__", __version__).splitlines())
    return "\n".join(line for line in lines if not line.startswith("//"))


class GraphView(anywidget.AnyWidget):
    """An interactive view of a graph, a model or a profile.

    It sits in boxes, links with ``jslink`` and ``observe`` like any widget. A view of a model shows
    each new profile of it.

    Args:
        shown: What to look at.
        height: Height in CSS pixels.
        theme: ``"auto"`` follows the page; ``"light"`` or ``"dark"``.
        editing: Whether it begins with editing on.

    Attributes:
        selection: Ids of the selected ops; set it, or observe it.
        height: As above.
        theme: As above.
        revision: Grows with every new document.

    Raises:
        ArgumentTypeError: ML801, ``shown`` is something else.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType
        >>> from maxlab.lab import GraphView
        >>> with Graph("double", input_types=[TensorType(DType.float32, ["n"])]) as graph:
        ...     graph.output(graph.inputs[0].tensor * 2)
        >>> view = GraphView(graph, height=300)
        >>> view.select("n1")
        >>> view
        GraphView('double', 1 op)
    """

    _esm = loader()

    doc = traitlets.Any(None, allow_none=True).tag(sync=True)
    selection = traitlets.List(traitlets.Unicode()).tag(sync=True)
    height = traitlets.Int(560, min=120, max=4000).tag(sync=True)
    theme = traitlets.Enum(("auto", "light", "dark"), "auto").tag(sync=True)
    not_live = traitlets.Unicode("").tag(sync=True)  # why nobody answers: the kernel is gone
    no_model = traitlets.Unicode("").tag(sync=True)  # why nothing can be run or asked
    revision = traitlets.Int(0).tag(sync=True)
    editing = traitlets.Bool(False).tag(sync=True)

    def __init__(
        self,
        shown: Shown,
        *,
        height: int = 560,
        theme: str = "auto",
        editing: bool = False,
        _snapshot: Snapshot | None = None,
        _comm: object = None,
    ) -> None:
        self._snapshot = _snapshot or take(shown)
        self._seen = Seen(shown) if isinstance(shown, Graph) else None
        self._shown: Callable[[], Shown | None] = lambda: shown
        self._revisions = Revisions()
        self._marks: protocol.Marks | None = None
        self._reveals: list[Callable[[str, int, int], object]] = []
        self._asking = threading.Lock()
        self._errands = Errands(self._tell)
        no_model = NO_MODEL if isinstance(shown, Recorded) else ""
        # A page that opened a channel itself is answered over that; else the view opens one.
        channel = {} if _comm is None else {"comm": _comm}
        given = {"height": height, "theme": theme, "editing": editing}
        super().__init__(no_model=no_model, **given, **channel)
        self.on_msg(self._received)
        _views.add(self)
        _listen()

    # ------------------------------------------------------------ what is shown
    @property
    def shown(self) -> Shown | None:
        """The object that the view shows; None when that is gone, or the view is closed."""
        return self._shown()

    @property
    def document(self) -> protocol.GraphDocument:
        """The document that the view draws."""
        return self._snapshot.document

    def update(self, shown: Shown | None = None) -> None:
        """Show ``shown`` from now on, or, left out, what is shown as it is now. Folding and
        selection survive where the graph is still the same.

        Pages get what changed and no more. A view of a graph is updated by itself when a cell of a
        notebook ends that changed the graph.

        Raises:
            ArgumentTypeError: ML801, ``shown`` is not a graph, a model or a profile.
        """
        with _state_lock:
            if shown is not None:
                made = take(shown)
                self._seen = Seen(shown) if isinstance(shown, Graph) else None
                self.no_model = NO_MODEL if isinstance(shown, Recorded) else ""
                is_other = shown is not self._shown()
                if is_other and self._marks is not None:
                    self._marks = reruns.NOTHING
                self._shown = lambda: shown
                self._show(made, is_other)
                return
            now = self._shown()
            if isinstance(now, Graph) and self._seen is not None:
                self._show(self._seen.retake(now, self._snapshot))
            elif now is not None:
                self._show(take(now))

    def _catch_up(self) -> None:
        """Show the graph as it is now, if it was changed since it was looked at."""
        with _state_lock:
            shown = self._shown()
            if isinstance(shown, Graph) and self._seen is not None and self._seen.is_old(shown):
                self.update()

    def _show(self, snapshot: Snapshot, is_other: bool = False) -> None:
        """Let the view draw ``snapshot``: its pages get what changed, or the whole, as always when
        it is of something else."""
        old = None if is_other else self._snapshot
        message = self._revisions.to(self.revision + 1, old, snapshot)
        self._snapshot = snapshot
        known = {node["id"] for node in snapshot.document["nodes"]}
        if not known.issuperset(self.selection):
            self.selection = [node for node in self.selection if node in known]
        self.revision += 1
        if message is None:
            self._send_document()
        else:
            self.send(message)

    def _send_since(self, revision: int) -> None:
        """Send what a page lacks that holds the document of ``revision``."""
        messages = self._revisions.since(revision)
        for message in messages:
            self.send(message)
        if not messages:
            self._send_document()

    def select(self, *nodes: str) -> None:
        """Select the ops with the ids ``nodes``; none deselects.

        Raises:
            ArgumentError: ML805, an id that the graph does not have.
        """
        known = {node["id"] for node in self.document["nodes"]}
        for node in nodes:
            if node not in known:
                raise ArgumentError(
                    "ML805",
                    f"the graph {self.document['name']!r} has no op {node!r}",
                    fix="ids are those in the inspector and in print(graph), such as 'n12'",
                )
        self.selection = list(nodes)

    def find(self, query: str) -> Found:
        """The ops that ``query`` describes in what the view shows, as its search finds them; for
        ``view.select(*view.find("op=matmul").ids)``.

        Raises:
            QueryError: ML910, the query cannot be read; ML911, it asks for what is not known.
        """
        return find_in(self.document, query, self._marks)

    def overlay(
        self,
        values: Mapping[str, float] | AnyPath,
        title: str = "",
        *,
        unit: str | None = None,
        low: float | None = None,
        high: float | None = None,
        colors: overlays.Colors | None = None,
        combine: overlays.Combine | None = None,
    ) -> None:
        """Colour the graph by numbers of one's own; see ``graph.overlay``. Every view of the graph
        offers them, beside its time.

        Raises:
            ArgumentError: ML806, what the view shows is gone; ML893, there is no such operation;
                ML894, several have the name; ML895, what is given is no overlay.
            DocumentError: ML896, the file is no overlay.
        """
        coloured.add(
            self._owner(),
            values,
            title,
            unit=unit,
            low=low,
            high=high,
            colors=colors,
            combine=combine,
        )

    def _owner(self) -> Shown:
        shown = self._shown()
        if shown is None:
            raise _gone()
        return shown

    def _dress(self, owner: object) -> None:
        """Show the overlays of ``owner``, when what is shown has them."""
        with _state_lock:
            shown = self._shown()
            if shown is not None and overlays.owner_of(shown) is owner:
                self._show(Snapshot(overlays.dressed(self._snapshot.document, shown)))

    def on_reveal(self, callback: Callable[[str, int, int], object]) -> None:
        """Call ``callback(file, line, column)`` when the user asks to see a source line."""
        self._reveals.append(callback)

    def close(self) -> None:
        """Remove the view from all pages and let go of what it shows."""
        with _state_lock:
            _views.discard(self)
            self._shown = lambda: None
            self._reveals = []
            super().close()

    def __repr__(self) -> str:
        name, ops = self._snapshot.name, self._snapshot.ops
        return f"GraphView({name!r}, {ops} op{'' if ops == 1 else 's'})"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None, **_: Any) -> Any:
        shown = self._shown()
        if shown is not None and overlays.carried(shown, self._snapshot.name):
            self._dress(overlays.owner_of(shown))
        return bundle_of(self._snapshot, repr(self), self._displayed, include, exclude, shown)

    def _displayed(self) -> GraphView:
        """The view itself, which the cell that is running shows."""
        with _state_lock:
            self._marks = reruns.marks_in_cell(self._snapshot.document, self._shown(), self)
        return self

    # ------------------------------------------------------------ messages
    def _received(self, _widget: object, content: Any, _buffers: object) -> None:
        """Answer a message of the page; called on any thread."""
        try:
            self._answer(reader.client_message(content))
        except Exception as error:  # a page can only be told, and the kernel must go on
            trace.emit("warning", "view", message=str(error), request=str(content)[:200])
            self._refuse(content, error)

    def _refuse(self, content: Any, error: Exception) -> None:
        """Tell the page why nothing came of its message: as the answer, when it was a question."""
        match content:
            case {"type": "ask", "id": int(number)}:
                told, code = str(error) or type(error).__name__, getattr(error, "code", "")
                self._tell(_no_answer(number, told, code))
            case {"type": str(request)}:
                self._tell(_failed(request[:40], error))
            case _:
                self._tell(_failed("", error))

    def _answer(self, message: protocol.ClientMessage) -> None:
        if message["type"] == "need_bundle":
            self.send(*bundle.message())
        elif message["type"] == "need_document":
            with _state_lock:
                self._send_document()
        elif message["type"] == "need_since":
            with _state_lock:
                self._send_since(message["revision"])
        elif message["type"] == "source":
            self._send_source(message["kernel"])
        elif message["type"] == "profile":
            self._tell({"type": "profile", "protocol": PROTOCOL, "status": "running"})
            self._errands.do(0, f"profile {self._snapshot.name}", self._profile)
        elif message["type"] == "ask":
            number, what, args = message["id"], message["what"], message["args"]
            self._errands.do(
                number,
                f"{what} {self._snapshot.name}",
                lambda work: self._answer_question(work, number, what, args),
            )
        elif message["type"] == "overlay":
            given = overlays.of_text(message["text"], message["name"])
            coloured.attach(self._owner(), given)
        elif message["type"] == "cancel":
            self._errands.cancel(message["id"])
        elif message["type"] == "reveal":
            for callback in list(self._reveals):
                callback(message["file"], message["line"], message["col"])

    def _send_document(self) -> None:
        packed = self._snapshot.deflated
        parts = [packed[n : n + PART_BYTES] for n in range(0, len(packed), PART_BYTES)]
        for index, part in enumerate(parts):
            message: protocol.DocumentMessage = {
                "type": "document",
                "protocol": PROTOCOL,
                "revision": self.revision,
                "index": index,
                "count": len(parts),
                "encoding": "deflate",
            }
            self.send(message, [part])
        if self._marks is not None:
            self._tell({"type": "marks", "protocol": PROTOCOL, "marks": self._marks})

    def _send_source(self, kernel: str) -> None:
        shown = self._shown()
        model = shown.model if isinstance(shown, Profile) else shown
        message: protocol.SourceMessage
        try:
            if not isinstance(model, Model):
                raise KeyError(kernel)
            message = kernel_source(model, kernel)
        except KeyError:
            why = f"/* {kernel} is gone from the Python kernel; run the cell again. */"
            message = {
                "type": "source",
                "protocol": PROTOCOL,
                "kernel": kernel,
                "source": why,
                "lines": [],
            }
        self.send(message)

    def _answer_question(
        self, work: progress.Work, number: int, what: str, args: dict[str, Any]
    ) -> None:
        """Answer a question of a panel, or say why not; one after the other."""
        message = _no_answer(number, "", "")
        buffers: list[bytes] = []
        try:
            with self._asking, progress.working(work):
                shown = self._shown()
                if shown is None or isinstance(shown, Recorded):
                    raise _gone() if shown is None else _no_model()
                found = answering.answer(shown, what, args)
                if what == "change":
                    self._changed(shown)
            message["ok"], message["data"], buffers = True, found.data, found.buffers
        except Exception as error:  # the panel says it; the kernel must go on
            message["error"] = str(error) or type(error).__name__
            message["code"] = getattr(error, "code", "")
        self.send(message, buffers)

    def _changed(self, shown: Graph | Model | Profile) -> None:
        """Show the graph that a question may have changed, here and in all its views; a view of a
        model shows its graph from then on."""
        if not isinstance(shown, Graph):
            model = model_for(shown)
            if model.graph is not None and model.graph.log.revision != model.graph_revision:
                self.update(model.graph)
        _follow()

    def _tell(self, message: protocol.ServerMessage) -> None:
        self.send(message)

    def _profile(self, work: progress.Work) -> None:
        """Profile what is shown, and show the result in every view of the model."""
        try:
            with _profile_lock, progress.working(work):
                shown = self._shown()
                if shown is None or isinstance(shown, Recorded):
                    raise _gone() if shown is None else _no_model()
                model = model_for(shown)
                inputs = inputs_for(model)
                profile = model.profile(*inputs, runs=runs_for(model, inputs), warmup=1)
            if self._shown() is not model:
                self.update(profile)
        except CancelledError:
            self._tell({"type": "profile", "protocol": PROTOCOL, "status": "cancelled"})
            return
        except Exception as error:
            self._tell(
                {
                    "type": "profile",
                    "protocol": PROTOCOL,
                    "status": "failed",
                    "fault": fault_of(error),
                }
            )
            return
        self._tell({"type": "profile", "protocol": PROTOCOL, "status": "done"})

    def _profiled(self, model: Model, snapshot: Snapshot) -> None:
        """Show ``snapshot``, taken after a profile of ``model``, when the view shows the model."""
        with _state_lock:
            if self._shown() is model:
                self._show(snapshot)


def _no_answer(number: int, error: str, code: str) -> protocol.AnswerMessage:
    """Why the question ``number`` has no answer."""
    return {
        "type": "answer",
        "protocol": PROTOCOL,
        "id": number,
        "ok": False,
        "data": None,
        "error": error,
        "code": code,
    }


def _failed(request: str, error: Exception) -> protocol.FailedMessage:
    """Why nothing came of the message ``request``."""
    return {"type": "failed", "protocol": PROTOCOL, "request": request, "fault": fault_of(error)}


def _no_model() -> ArgumentError:
    return ArgumentError("ML806", NO_MODEL, fix="profile the model that it was saved from")


def _gone() -> ArgumentError:
    return ArgumentError(
        "ML806", "what this view shows is gone from the kernel", fix="run its cell again"
    )


def view_of(shown: Shown, snapshot: Snapshot) -> GraphView:
    """A new view made by displaying ``shown``, whose ``snapshot`` was just taken.

    Pages never say that an output was cleared, so such views live as long as the kernel, and must
    not keep models and their weights alive with them. Graphs are small: the newest are kept, so
    that one that no variable holds can be profiled from its view.
    """
    view = GraphView(shown, _snapshot=snapshot)._displayed()
    with _state_lock:
        view._shown = weakref.ref(shown)
        if isinstance(shown, Graph):
            _recent.append(shown)
        snapshot.shrink()
    return view


def edit(graph: Graph, *, height: int) -> GraphView:
    """A view of ``graph`` that begins with editing on, and keeps it."""
    return GraphView(graph, height=height, editing=True)


def view_for_page(shown: Graph | Model, comm: object, *, editing: bool = False) -> GraphView:
    """A new view over ``comm``, which a page has opened. It does not keep ``shown`` alive: a tab
    must not hold a model and its weights that nobody uses any more."""
    view = GraphView(shown, editing=editing, _comm=comm)
    with _state_lock:
        view._shown = weakref.ref(shown)
    return view


def show_in_page(view: GraphView, shown: Graph | Model) -> None:
    """Show ``shown`` in a view that `view_for_page` has made, without keeping it alive."""
    with _state_lock:
        view.update(shown)
        view._shown = weakref.ref(shown)


# ---------------------------------------------------------------- new profiles, changed graphs

_listening = False


def _listen() -> None:
    """Hear of new profiles and of cells that end, from the first view on."""
    global _listening
    with _state_lock:
        if not _listening:
            trace.recorder().listen(_heard)
            following.after_each_cell(_follow)
            overlays.on_change(_dress)
            _listening = True


def _follow() -> None:
    """Let every view of a graph that was changed show it as it is now."""
    following.changed()
    for view in list(_views):
        try:
            view._catch_up()
        except Exception as error:  # the other views, and the next cell, must go on
            trace.emit("warning", "view", message=str(error))


def _dress(owner: object) -> None:
    """Let every view of what ``owner`` is, or is of, show its overlays."""
    for view in list(_views):
        view._dress(owner)


def _heard(event: trace.Event) -> None:
    if event.kind != "profile" or "model" not in event.data:
        return
    key = event.data["model"]
    snapshot: Snapshot | None = None
    for view in list(_views):
        shown = view.shown
        if isinstance(shown, Model) and id(shown) == key:
            try:
                snapshot = snapshot or take(shown)
                view._profiled(shown, snapshot)
            except Exception as error:  # the other views, and the caller of profile, must go on
                trace.emit("warning", "view", message=str(error))

"""The event stream: everything that happens is an event, and every view of it is a reading of this
stream.

Events are kept in one ring buffer per process and handed to listeners as they happen. Nothing
leaves the process. The module also holds the display hook, so that objects below ``lab`` can be
shown without knowing of it.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, NoReturn

from maxlab.config import config
from maxlab.errors import ArgumentTypeError, QueryError


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened.

    ``kind`` is the family (``"graph"``, ``"pass"``, ``"compile"``, ``"cache"``, ``"execute"``,
    ``"kernel"``, ``"transfer"``, ``"allocate"``, ``"gpu"``, ``"check"``, ``"warning"``,
    ``"schedule"``), ``name``
    the thing, ``start_ns`` a
    ``time.monotonic_ns`` stamp.
    """

    kind: str
    name: str
    start_ns: int
    dur_ns: int = 0
    data: dict[str, Any] = field(default_factory=dict)
    thread: int = 0


class Recorder:
    """The newest events of this process, at most ``capacity`` of them."""

    def __init__(self, capacity: int) -> None:
        self._events: deque[Event] = deque(maxlen=capacity)
        self._listeners: list[Callable[[Event], None]] = []
        self._lock = threading.Lock()

    def add(self, event: Event) -> None:
        """Keep ``event`` and tell the listeners; a listener that raises is dropped."""
        self._events.append(event)
        for listener in self._listeners[:]:
            try:
                listener(event)
            except Exception:
                self.unlisten(listener)

    def events(self, kind: str | None = None) -> list[Event]:
        """The kept events, oldest first; only those of ``kind`` when it is given."""
        return [e for e in list(self._events) if kind is None or e.kind == kind]

    def clear(self) -> None:
        """Forget all kept events."""
        self._events.clear()

    def listen(self, listener: Callable[[Event], None]) -> None:
        """Call ``listener`` with every event from now on."""
        with self._lock:
            self._listeners.append(listener)

    def unlisten(self, listener: Callable[[Event], None]) -> None:
        """Stop calling ``listener``; does nothing when it does not listen."""
        with self._lock:
            if listener in self._listeners:
                self._listeners.remove(listener)


_recorder: Recorder | None = None


def recorder() -> Recorder:
    """The recorder of this process."""
    global _recorder
    if _recorder is None:
        _recorder = Recorder(config().trace_events)
    return _recorder


def emit(kind: str, name: str, **data: Any) -> None:
    """Record that ``name`` happened now."""
    recorder().add(Event(kind, name, time.monotonic_ns(), 0, data, threading.get_ident()))


@contextmanager
def span(kind: str, name: str, **data: Any) -> Iterator[dict[str, Any]]:
    """Record one event that lasts as long as the ``with`` block; the block may add to the yielded
    dict.
    """
    start = time.monotonic_ns()
    try:
        yield data
    finally:
        now = time.monotonic_ns()
        recorder().add(Event(kind, name, start, now - start, data, threading.get_ident()))


# ---------------------------------------------------------------- runs of models

RunWatcher = Callable[[str, int, int], None]
run_watcher: RunWatcher | None = None
"""Called after each run with the name of the model, and when the run began and ended, in ns. A run
may take less time than recording an event, so runs are events only for whoever asks for them here.
"""


OpWatcher = Callable[[str, Sequence[tuple[str, int, int]]], None]
op_watcher: OpWatcher | None = None
"""Called after a model was profiled with the name of the model, and of each step of one of its runs
the name, and when it began and ended, in ns.
"""


RunRecorder = Callable[[Any, Any], Any]
run_recorder: RunRecorder | None = None
"""Runs a model in place of itself: called with the model and its inputs, returns its outputs.
Whoever times the runs of somebody else's code is here, and at most one at a time.
"""


# ---------------------------------------------------------------- display hook

DisplayHook = Callable[[Any, Any, Any], dict[str, Any] | None]
_display_hook: Callable[[], DisplayHook] | None = None


def set_display_hook(loader: Callable[[], DisplayHook]) -> None:
    """Use ``loader()`` (called at the first display) to turn objects into MIME bundles."""
    global _display_hook
    _display_hook = loader


def mimebundle(obj: Any, include: Any = None, exclude: Any = None) -> dict[str, Any] | None:
    """The MIME bundle of ``obj``, or None when nothing can display it.

    ``include`` and ``exclude`` are collections of MIME types; nothing is made for a type that is
    not asked for.
    """
    if _display_hook is None:
        return None
    return _display_hook()(obj, include, exclude)


ExportHook = Callable[[Any, Any], Any]
_export_hook: Callable[[], ExportHook] | None = None


def set_export_hook(loader: Callable[[], ExportHook]) -> None:
    """Use ``loader()`` (called at the first export) to turn objects into pages."""
    global _export_hook
    _export_hook = loader


def export_html(obj: Any, path: Any = None) -> Any:
    """``obj`` as the text of one HTML page, or, when ``path`` is given, the path it was written to.

    Raises:
        RuntimeError: Nothing can export objects, because ``maxlab`` itself was not imported.
    """
    if _export_hook is None:
        raise RuntimeError("nothing can export objects; import maxlab first")
    return _export_hook()(obj, path)


# ---------------------------------------------------------------- readings

_readings: dict[str, Callable[[], Callable[..., Any]]] = {}


def set_reading(name: str, loader: Callable[[], Callable[..., Any]]) -> None:
    """Let ``reading(name)`` be what ``loader()`` returns, so that models and profiles can offer
    what packages above them make of them."""
    _readings[name] = loader


def reading(name: str) -> Callable[..., Any]:
    """The function that was set as the reading ``name``.

    Raises:
        RuntimeError: Nothing was set, because ``maxlab`` itself was not imported.
    """
    loader = _readings.get(name)
    if loader is None:
        raise RuntimeError(f"nothing can read {name!r} of it; import maxlab first")
    return loader()


# ---------------------------------------------------------------- what is shown


class Displayed:
    """Everything that a notebook draws as a graph: graphs, models, profiles, and runs that were
    saved.
    """

    def to_html(self, path: Any = None) -> Any:
        """It as one HTML page that needs no network: its text, or, when ``path`` is given, the path
        it was written to.

        Raises:
            DocumentError: ML810, maxlab was installed without its front end.
        """
        return export_html(self, path)

    def to_svg(self, path: Any = None, *, direction: Any = "down") -> Any:
        """It as an SVG picture of at most 60 boxes, whose text can be selected: its text, or, when
        ``path`` is given, the path it was written to. Deep scopes are folded; *Export as SVG* in a
        view draws what the view shows, or all of the graph.

        Args:
            path: Where to write it; nowhere by default.
            direction: ``down``, or ``right`` for a graph that runs from left to right.

        Raises:
            ArgumentTypeError: ML622, ``direction`` is neither of them.
            PictureError: ML802, the program ``dot`` is missing; ML803, it failed.
            FileError: ML001, ``path`` is there and is no regular file; ML003, it cannot be written.

        Example:
            >>> from maxlab.dtype import DType
            >>> from maxlab.graph import Graph, TensorType
            >>> graph = Graph("double", lambda x: x * 2, [TensorType(DType.float32, ["n"])])
            >>> graph.to_svg().startswith("<svg")
            True
        """
        return reading("to_svg")(self, path, direction=direction)

    def find(self, query: str = "", **terms: Any) -> Any:
        """The operations that ``query`` describes, as the search of the view finds them: ``id``,
        ``op``, ``scope``, ``type``, ``time_ns`` and ``share`` of each, and ``ids`` of all.

        Args:
            query: Comparisons such as ``op=matmul``, ``time>1ms``, ``shape=[*,64]`` and
                ``dtype=bf16``, ``in(layers.3)``, words and ``/regular expressions/``, joined by
                ``&``, ``|``, ``!`` and parentheses.
            **terms: Terms that must hold too: ``op="matmul"`` is ``op=matmul``.

        Raises:
            QueryError: ML910, the query cannot be read; ML911, it asks for what is not known.

        Example:
            >>> from maxlab.dtype import DType
            >>> from maxlab.graph import Graph, TensorType
            >>> graph = Graph("double", lambda x: x * 2, [TensorType(DType.float32, ["n"])])
            >>> graph.find("op=mul & shape=[n]")
            1 op found by 'op=mul & shape=[n]'
            id  op   scope  type    time
            n1  mul         f32[n]
        """
        if not isinstance(query, str):
            raise QueryError(
                "ML910",
                f"a query is text, got {type(query).__name__}",
                str(query),
                fix="write graph.find('op=mul'), or graph.find(op='mul')",
            )
        said = [f"({query})"] if query and terms else [query] if query else []
        for name, value in terms.items():
            text = f"[{','.join(map(str, value))}]" if isinstance(value, (list, tuple)) else value
            said.append(f"{name}={text}")
        return reading("find")(self, " & ".join(said))

    def overlay(
        self,
        values: Any,
        title: str = "",
        *,
        unit: str | None = None,
        low: float | None = None,
        high: float | None = None,
        colors: str | None = None,
        combine: str | None = None,
    ) -> None:
        """Let views colour the graph by numbers of one's own, beside its time. An overlay of the
        same title is replaced; views that are open show the new one at once.

        Args:
            values: A number by the name of an operation or scope, or the path of a JSON file. An
                operation is named by its id as in ``print(graph)``, its name, its scope and name
                (``layers.3.matmul``), or the place where it was written (``model.py:12``).
            title: What the numbers are. This and all that follows is as the file says where it is
                left out.
            unit: What follows each number, such as ``"dB"``.
            low: The number at the lower end of the colours; else the least one, but zero when all
                are positive.
            high: The number at the upper end; else the greatest one.
            colors: ``"sequential"``, the default, as those of time, or ``"diverging"`` around zero.
            combine: What a folded box shows of the numbers in it: their ``"sum"``, the default, or
                ``"max"``.

        Raises:
            ArgumentError: ML893, there is no such operation; ML894, several have the name; ML895,
                what is given is no overlay.
            DocumentError: ML896, the file is no overlay.

        Example:
            >>> from maxlab.dtype import DType
            >>> from maxlab.graph import Graph, TensorType
            >>> graph = Graph("double", lambda x: x * 2, [TensorType(DType.float32, ["n"])])
            >>> graph.overlay({"mul": 0.7}, "error", unit="ulp")
        """
        reading("overlay")(
            self, values, title, unit=unit, low=low, high=high, colors=colors, combine=combine
        )

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        return mimebundle(self, include, exclude)


class _Module(ModuleType):
    """This module, which refuses to be called as ``jax.jit``'s and PyTorch's ``trace`` are."""

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        raise ArgumentTypeError(
            "ML970",
            "maxlab.trace is the module of the event stream and cannot be called",
            fix="of a function: maxlab.Graph(name, function, input_types); of a module of PyTorch: "
            "maxlab.torch.load(module, x)",
        )


sys.modules[__name__].__class__ = _Module

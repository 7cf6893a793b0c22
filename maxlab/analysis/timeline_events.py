"""The event stream as slices: which event goes on which track, and when it began."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from maxlab.analysis.slices import Builder, TrackKind
from maxlab.profiler.tracing import DEFAULT_COLOR
from maxlab.trace import Event

Array = np.ndarray[Any, Any]

_COMPILER = frozenset({"pass", "compile", "cache", "load", "bind", "pack"})
_KERNELS = frozenset({"kernel"})
_COPIES = frozenset({"transfer"})
_CALL = "call"
_PHASES = ("passes", "schedule", "plan", "kernels")  # of the event that ends a compilation


def calls_of(name: str, calls: Array, callers: Array) -> list[Event]:
    """The calls of a model as events.

    Args:
        name: The model.
        calls: [runs, 2], begin and end in nanoseconds.
        callers: [runs], the threads that called.
    """
    return [
        Event(_CALL, name, begin, end - begin, {}, thread)
        for (begin, end), thread in zip(calls.tolist(), callers.tolist(), strict=True)
    ]


def colors_of(events: Iterable[Event]) -> dict[str, str]:
    """The colours that spans of the user were given, by name; the newest counts."""
    return {
        event.name: event.data["color"]
        for event in events
        if event.kind == "python" and event.data.get("color", DEFAULT_COLOR) != DEFAULT_COLOR
    }


def add(
    builder: Builder, events: Iterable[Event], symbols: Mapping[str, str], *, alone: bool
) -> None:
    """Put ``events`` on tracks of ``builder``.

    Args:
        builder: Where to.
        events: Events in any order.
        symbols: What to call the kernels that are known, by the names of their functions.
        alone: Whether there are only calls of one model, whose track is named ``runs`` then.
    """
    spans: dict[tuple[str, TrackKind, str], list[tuple[int, int, str]]] = {}
    ordered = sorted(events, key=lambda event: event.start_ns)
    threads = _thread_names(ordered)
    for event in ordered:
        name, kind, process = _place(event, threads[event.thread])
        place = ("runs" if alone else name, kind, process)
        spans.setdefault(place, []).extend(_spans(event, symbols))
    for (name, kind, process), found in spans.items():
        builder.add_spans(builder.track(name, kind, process), found)


def _place(event: Event, thread: str) -> tuple[str, TrackKind, str]:
    """The track of ``event``: name, kind and process."""
    if event.kind in _COMPILER:
        return thread, "compile", "compiler"
    if event.kind in _COPIES:
        return f"copies of the {thread}", "transfer", "Python"
    if event.kind in _KERNELS:
        return f"kernels of the {thread}", "stream", str(event.data.get("device", "device"))
    return thread, "python", "Python"


def _thread_names(events: Iterable[Event]) -> dict[int, str]:
    """A name for each thread of ``events``: numbers that the system gave say nothing, and threads
    that have ended have lost their names."""
    main = threading.main_thread().ident
    found: dict[int, str] = {}
    others = 0
    for event in events:
        if event.thread in found:
            continue
        if event.thread in (0, main):  # 0 where nobody noted it
            found[event.thread] = "main thread"
        else:
            others += 1
            found[event.thread] = f"other thread {others}"
    return found


def _spans(event: Event, symbols: Mapping[str, str]) -> list[tuple[int, int, str]]:
    """(begin, end, name) of ``event``, and of the phases it tells of. An event that says how long
    something took was recorded at its end."""
    begin, end = event.start_ns, event.start_ns + event.dur_ns
    if event.dur_ns:
        return [(begin, end, _name(event, symbols))]
    if event.kind == "pass":
        return [(begin - int(event.data.get("ns", 0)), end, _name(event, symbols))]
    phases = [(name, int(event.data[name])) for name in _PHASES if name in event.data]
    begin -= sum(ns for _, ns in phases)
    found = [(begin, end, _name(event, symbols))]
    for name, ns in phases if event.kind == "compile" else ():
        found.append((begin, begin + ns, name))
        begin += ns
    return found


def _name(event: Event, symbols: Mapping[str, str]) -> str:
    if event.kind in (_CALL, "python", "kernel"):
        return event.name
    if event.kind == "mark":
        return f"mark in {event.name}"
    if event.kind == "cache":
        what = symbols.get(event.name, event.name)
        return f"cache {'hit' if event.data.get('hit') else 'miss'}: {what}"
    if event.kind == "compile":
        together = event.data.get("kernels")  # names, or of a whole model the time they took
        more = len(together) - 1 if isinstance(together, list) else 0
        what = symbols.get(event.name, event.name)
        return f"compile {what} and {more} more" if more > 0 else f"compile {what}"
    if event.kind == "transfer":
        return f"{event.name} to {event.data.get('target', '?')}"
    return f"{event.kind} {event.name}"

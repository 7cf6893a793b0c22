"""Timelines as files for other tools: the Trace Event Format, which Perfetto and
``chrome://tracing`` read.

Of the format are used: complete events (``X``), instants (``i``) and metadata (``M``); times are
microseconds.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np

from maxlab import files
from maxlab.analysis.slices import Track

CHUNK = 4096
"""Events that are written at once."""


class Slices(Protocol):
    """The attributes of a ``Timeline`` that an export reads."""

    @property
    def tracks(self) -> Sequence[Track]: ...
    @property
    def names(self) -> Sequence[str]: ...
    @property
    def colors(self) -> Mapping[str, str]: ...
    @property
    def kernels(self) -> Sequence[str]: ...
    @property
    def name(self) -> str: ...
    @property
    def device(self) -> str: ...
    @property
    def simulated(self) -> bool: ...
    @property
    def runs(self) -> int: ...
    @property
    def t0_ns(self) -> int: ...
    @property
    def nodes(self) -> Sequence[Sequence[str]]: ...
    def columns(self) -> Mapping[str, np.ndarray[Any, Any]]: ...


def write_chrome(timeline: Slices, path: str | Path) -> Path:
    """The path of the trace file that was written.

    The file is complete or, where writing fails, as it was: it is replaced at the end.

    Args:
        timeline: What to write.
        path: The file; a name that ends in ``.gz`` is compressed.

    Raises:
        FileError: ML001, ``path`` is there and is no regular file; ML003, it cannot be written.
    """
    target = files.as_path(path)
    with files.replacing(target, "the trace") as file:
        if target.suffix == ".gz":
            # Neither a name nor a time in its head: equal timelines are equal files.
            with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
                _write(timeline, packed)
        else:
            _write(timeline, file)
    return target


def events_of(timeline: Slices) -> Iterator[dict[str, Any]]:
    """The events of the trace of ``timeline``, metadata first. Times are microseconds.

    Example:
        >>> import numpy as np
        >>> from maxlab import engine
        >>> from maxlab.analysis.timeline import timeline
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType
        >>> with Graph("double", input_types=[TensorType(DType.float32, ["n"])]) as graph:
        ...     graph.output(graph.inputs[0].tensor * 2)
        >>> model = engine.InferenceSession(num_threads=1).load(graph)
        >>> made = list(events_of(timeline(model.profile(np.ones(9, np.float32)))))
        >>> [event["args"]["name"] for event in made if event["name"] == "process_name"]
        ['Python', 'double on cpu']
        >>> [event["name"] for event in made if event["ph"] == "X"]
        ['double', 'mul']
    """
    processes: dict[str, int] = {}
    for number, track in enumerate(timeline.tracks):
        pid, new = processes.setdefault(track.process, len(processes) + 1), number + 1
        if pid == len(processes):
            yield _metadata("process_name", pid, new, name=track.process)
            yield _metadata("process_sort_index", pid, new, sort_index=pid)
        yield _metadata("thread_name", pid, new, name=track.name)
        yield _metadata("thread_sort_index", pid, new, sort_index=number)
    columns = zip(*(column.tolist() for column in timeline.columns().values()), strict=True)
    for start, dur, track_number, name, kernel, _, turns in columns:
        track = timeline.tracks[track_number]
        event: dict[str, Any] = {
            "name": timeline.names[name],
            "cat": track.kind,
            "pid": processes[track.process],
            "tid": track_number + 1,
            "ts": start / 1000,
        }
        if dur:
            event |= {"ph": "X", "dur": dur / 1000}
        else:
            event |= {"ph": "i", "s": "t"}
        if kernel >= 0:
            nodes = " ".join(timeline.nodes[kernel])
            event["args"] = {"kernel": timeline.kernels[kernel], "nodes": nodes}
            if turns != 1:
                event["args"]["turns"] = turns
        elif timeline.names[name] in timeline.colors:
            event["args"] = {"color": timeline.colors[timeline.names[name]]}
        yield event


def _metadata(what: str, pid: int, tid: int, **args: Any) -> dict[str, Any]:
    return {"name": what, "ph": "M", "pid": pid, "tid": tid, "ts": 0, "args": args}


def _write(timeline: Slices, file: BinaryIO | gzip.GzipFile) -> None:
    other = {
        "model": timeline.name,
        "device": timeline.device,
        "simulated": timeline.simulated,
        "runs": timeline.runs,
        "start_monotonic_ns": timeline.t0_ns,
    }
    head = f'{{"displayTimeUnit":"ns","otherData":{json.dumps(other)},"traceEvents":[\n'
    file.write(head.encode())
    parts: list[str] = []
    first = True
    for event in events_of(timeline):
        parts.append(json.dumps(event, separators=(",", ":")))
        if len(parts) == CHUNK:
            file.write((("" if first else ",\n") + ",\n".join(parts)).encode())
            parts.clear()
            first = False
    if parts:
        file.write((("" if first else ",\n") + ",\n".join(parts)).encode())
    file.write(b"\n]}\n")

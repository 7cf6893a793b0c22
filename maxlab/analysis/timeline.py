"""Timelines: what ran when, on which thread, stream, or in which part of the compiler.

A ``Timeline`` is a table of slices. Kernels come from the stamps of a profile, everything else from
the event stream, whose clock is the same; so a run, the compilation before it and the user's own
spans (``maxlab.profiler``) stand on one axis.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from maxlab import trace
from maxlab.analysis import timeline_events
from maxlab.analysis.slices import COLUMN_DTYPES, TRACK_KINDS, Builder, Columns, Track, TrackKind
from maxlab.analysis.told import TimelineHead
from maxlab.analysis.trace_export import write_chrome
from maxlab.engine.profile import Profile
from maxlab.engine.stamps import BEGIN, CHUNKS, END
from maxlab.errors import ArgumentError, DocumentError, elsewhere
from maxlab.habits import fitting
from maxlab.ir import DeviceRef
from maxlab.tabular import Field, Tabular, aligned
from maxlab.trace import Event

if TYPE_CHECKING:
    from maxlab.compiler.plan import Step

Array = np.ndarray[Any, Any]
Runs = Literal["one", "all"]

VERSION = 1
"""Of the JSON form."""


@dataclass(frozen=True, slots=True)
class Timeline(Tabular):
    """The times of all that ran. ``profile.timeline`` and ``timeline`` make it.

    Rows are sorted by track, depth and start, and rows of the same track and depth never overlap:
    a slice in view is found by bisection.

    Attributes:
        name: The model, or what else was watched.
        device: Where it ran, as in ``Profile.device``.
        simulated: Whether its GPUs are simulated, so that times are those of the CPU.
        runs: How many runs are in it.
        run: Which run of the profile it shows, when it is one; -1 otherwise.
        t0_ns: ``time.monotonic_ns`` of its beginning, to which ``start_ns`` is relative.
        tracks: The rows of the picture.
        names: Names of slices.
        colors: The CSS colours that the user's spans were given, by name.
        kernels: Ids of kernels, ``"k4"``.
        nodes: For each kernel, the ids of the ops of the graph that it computes.
        start_ns: [slices] int64.
        dur_ns: [slices] int64; 0 is an instant.
        track: [slices] int32, an index of ``tracks``.
        name_index: [slices] int32, an index of ``names``.
        kernel: [slices] int32, an index of ``kernels``; -1 is no kernel.
        depth: [slices] int32, how many slices of the track the slice is inside of.
        turns: [slices] int32, how many launches of a kernel the slice stands for: the steps of a
            loop stand there once, with the time of all of its turns.

    Example:
        >>> import numpy as np
        >>> from maxlab import engine
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType
        >>> with Graph("double", input_types=[TensorType(DType.float32, ["n"])]) as graph:
        ...     graph.output(graph.inputs[0].tensor * 2)
        >>> model = engine.InferenceSession(num_threads=1).load(graph)
        >>> made = timeline(model.profile(np.ones(1000, np.float32), runs=5))
        >>> made
        Timeline('double', 2 tracks, 2 slices, 1 run)
        >>> [track.name for track in made.tracks], made.kernels
        (['runs', 'thread 0'], ('k0',))
    """

    name: str
    device: str
    simulated: bool
    runs: int
    run: int
    t0_ns: int
    tracks: tuple[Track, ...]
    names: tuple[str, ...]
    colors: dict[str, str]
    kernels: tuple[str, ...]
    nodes: tuple[tuple[str, ...], ...]
    start_ns: Array
    dur_ns: Array
    track: Array
    name_index: Array
    kernel: Array
    depth: Array
    turns: Array

    def __len__(self) -> int:
        return len(self.start_ns)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Timeline) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash((self.name, self.t0_ns, len(self)))

    @property
    def end_ns(self) -> int:
        """Where the last slice ends, relative to ``t0_ns``."""
        return int((self.start_ns + self.dur_ns).max()) if len(self) else 0

    def on(self, track: int) -> slice:
        """The rows of the track with the index ``track``, for use with the columns."""
        first, last = np.searchsorted(self.track, [track, track + 1])
        return slice(int(first), int(last))

    def busy_ns(self, track: int) -> int:
        """Nanoseconds that something ran on a track; what is inside of something else counts
        once."""
        rows = self.on(track)
        outer = self.depth[rows] == 0
        return int(self.dur_ns[rows][outer].sum())

    def table(self) -> str:
        """A line per track: how many slices, and how much of the time something ran on it."""
        end = self.end_ns
        cells = [("process", "track", "slices", "busy")]
        for number, track in enumerate(self.tracks):
            rows = self.on(number)
            share = self.busy_ns(number) / end if end else 0.0
            cells.append((track.process, track.name, str(rows.stop - rows.start), f"{share:.1%}"))
        return "\n".join(aligned(cells, right=range(2, 4)))

    def _heads(self) -> Sequence[str]:
        return (
            "process", "track", "name", "kernel", "start [ns]", "duration [ns]", "depth",
            "launches",
        )  # fmt: skip

    def _records(self) -> Iterator[Sequence[Field]]:
        columns = (
            self.track, self.name_index, self.kernel, self.start_ns, self.dur_ns, self.depth,
            self.turns,
        )  # fmt: skip
        for track, name, kernel, *numbers in zip(*(c.tolist() for c in columns), strict=True):
            row = self.tracks[track]
            id = self.kernels[kernel] if kernel >= 0 else None
            yield row.process, row.name, self.names[name], id, *numbers

    @fitting("ML975", "profile.timeline.to_chrome(path)")
    def to_chrome(self, path: str | Path) -> Path:
        """The path of the trace file that was written, for Perfetto, ``chrome://tracing`` and
        whatever else reads the Trace Event Format; a name that ends in ``.gz`` is compressed.

        Args:
            path: The file, such as ``"run.json"``; what is there is replaced when all is written.

        Raises:
            FileError: ML001, ``path`` is there and is no regular file; ML003, it cannot be written.
        """
        return write_chrome(self, path)

    def head(self) -> TimelineHead:
        """Everything but the columns, as plain JSON."""
        return {
            "version": 1,
            "unit": "ns",
            "name": self.name,
            "device": self.device,
            "simulated": self.simulated,
            "runs": self.runs,
            "run": self.run,
            "t0": self.t0_ns,
            "tracks": [{"name": t.name, "kind": t.kind, "process": t.process} for t in self.tracks],
            "names": list(self.names),
            "colors": self.colors,
            "kernels": list(self.kernels),
            "n": len(self),
        }

    def columns(self) -> dict[str, Array]:
        """The columns by their names in the JSON form."""
        return {
            "start": self.start_ns,
            "dur": self.dur_ns,
            "track": self.track,
            "name": self.name_index,
            "kernel": self.kernel,
            "depth": self.depth,
            "turns": self.turns,
        }

    def to_json(self) -> dict[str, Any]:
        """The timeline as plain JSON, with its columns as lists; ``from_json`` reads it."""
        columns = {name: column.tolist() for name, column in self.columns().items()}
        return {
            **self.head(),
            "nodes": [list(nodes) for nodes in self.nodes],
            "columns": columns,
        }

    @classmethod
    def from_json(cls, data: Any) -> Timeline:
        """The timeline that ``to_json`` wrote.

        Raises:
            DocumentError: ML850, ``data`` is something else, or of another version.
        """
        try:
            return cls._read(data)
        except (
            AttributeError,
            KeyError,
            TypeError,
            ValueError,
            OverflowError,
            RecursionError,
        ) as error:
            raise DocumentError(
                "ML850",
                f"this is no timeline: {_told(error)}",
                fix="write it again with Timeline.to_json of this version",
            ) from None

    @classmethod
    def _read(cls, data: Any) -> Timeline:
        if data["version"] != VERSION or data["unit"] != "ns":
            raise ValueError(f"version {data['version']} in {data['unit']}")
        given = dict(data["columns"])
        given.setdefault("turns", [1] * len(given["start"]))  # which older ones do not have
        columns = {
            name: np.asarray(given[name], kind)
            for name, kind in zip(Columns._fields, COLUMN_DTYPES, strict=True)
        }
        if {column.shape for column in columns.values()} != {(data["n"],)}:
            raise ValueError("columns of different lengths")
        tracks = tuple(Track(str(t["name"]), t["kind"], str(t["process"])) for t in data["tracks"])
        if any(track.kind not in TRACK_KINDS for track in tracks):
            raise ValueError("a track of an unknown kind")
        names, kernels = tuple(map(str, data["names"])), tuple(map(str, data["kernels"]))
        nodes = tuple(tuple(map(str, row)) for row in data["nodes"])
        limits = {"track": len(tracks), "name": len(names), "kernel": len(kernels)}
        for name, limit in limits.items():
            least = -1 if name == "kernel" else 0
            if (
                len(columns[name])
                and not least <= columns[name].min() <= columns[name].max() < limit
            ):
                raise ValueError(f"a {name} that is not listed")
        if len(nodes) != len(kernels) or any(
            (columns[c] < 0).any() for c in ("dur", "depth", "turns")
        ):
            raise ValueError("columns of impossible values")
        return cls(
            name=str(data["name"]),
            device=str(data["device"]),
            simulated=bool(data["simulated"]),
            runs=int(data["runs"]),
            run=int(data["run"]),
            t0_ns=int(data["t0"]),
            tracks=tracks,
            names=names,
            colors={str(name): str(color) for name, color in data["colors"].items()},
            kernels=kernels,
            nodes=nodes,
            start_ns=columns["start"],
            dur_ns=columns["dur"],
            track=columns["track"],
            name_index=columns["name"],
            kernel=columns["kernel"],
            depth=columns["depth"],
            turns=columns["turns"],
        )

    def __repr__(self) -> str:
        tracks = _count(len(self.tracks), "track")
        slices = _count(len(self), "slice")
        return f"Timeline({self.name!r}, {tracks}, {slices}, {_count(self.runs, 'run')})"


def timeline(
    profile: Profile | None = None, *, runs: Runs = "one", events: bool = False
) -> Timeline:
    """The ``Timeline`` of a profile, or, without one, of the event stream.

    Args:
        profile: Whose runs to show.
        runs: ``"one"`` for the run of the median time, ``"all"`` for all timed runs.
        events: Whether to show what else the process recorded: passes, compilations, cache hits,
            copies, and the user's spans. Without a profile there is nothing else.

    Raises:
        ArgumentError: ML851, ``runs`` is something else.
    """
    if runs not in ("one", "all"):
        raise ArgumentError(
            "ML851",
            f"timeline: runs is 'one' or 'all', got {runs!r}",
            fix="leave it out for the run of the median time",
        )
    recorded = trace.recorder().events() if events or profile is None else []
    if profile is None:
        return _assembled("events", [], recorded)
    stamps = profile.stamps
    chosen = np.arange(stamps.runs) if runs == "all" else np.array([stamps.representative])
    return _assembled(profile.name, [(profile, chosen)], recorded)


def of_profiles(name: str, profiles: Sequence[Profile], recorded: Iterable[Event]) -> Timeline:
    """All runs of several profiles, and the events ``recorded``, on one axis.

    Kernels of different models are told apart by the name of the model: ``"minilm/k4"``.
    """
    parts = [(profile, np.arange(profile.stamps.runs)) for profile in profiles]
    return _assembled(name, parts, list(recorded))


def _assembled(
    name: str, parts: Sequence[tuple[Profile, Array]], recorded: Sequence[Event]
) -> Timeline:
    """The timeline of runs of profiles, each given with the numbers of the runs."""
    builder = Builder()
    models = {id(profile.model): profile for profile, _ in parts}
    kernels: list[str] = []
    nodes: list[tuple[str, ...]] = []
    first: dict[int, int] = {}
    for key, profile in models.items():
        first[key] = len(kernels)
        prefix = f"{profile.name}/" if len(models) > 1 else ""
        kernels += [prefix + kernel.id for kernel in profile.kernels]
        nodes += [kernel.nodes for kernel in profile.kernels]
    calls = [
        call
        for profile, chosen in parts
        for call in timeline_events.calls_of(
            profile.name, profile.stamps.calls[chosen], profile.stamps.callers[chosen]
        )
    ]
    symbols = {
        step.printed.symbol: f"{step.id} {step.name}"
        for profile in reversed(models.values())
        for step in reversed(profile.model.compiled.plan.steps)
        if step.printed is not None
    }
    timeline_events.add(builder, [*recorded, *calls], symbols, alone=not recorded)
    for profile, chosen in parts:
        _add_kernels(builder, profile, chosen, first[id(profile.model)])
    built = builder.finish()
    runs = [int(run) for _, chosen in parts for run in chosen]
    return Timeline(
        name=name,
        device=" + ".join(dict.fromkeys(profile.device for profile in models.values())),
        simulated=any(_is_simulated(profile) for profile in models.values()),
        runs=len(runs),
        run=runs[0] if len(runs) == 1 else -1,
        t0_ns=built.t0_ns,
        tracks=built.tracks,
        names=built.names,
        colors=timeline_events.colors_of(recorded),
        kernels=tuple(kernels),
        nodes=tuple(nodes),
        start_ns=built.columns.start,
        dur_ns=built.columns.dur,
        track=built.columns.track,
        name_index=built.columns.name,
        kernel=built.columns.kernel,
        depth=built.columns.depth,
        turns=built.columns.turns,
    )


def of_profile(profile: Profile) -> Timeline:
    """The timeline of a profile: all timed runs, and what the process recorded meanwhile."""
    return timeline(profile, runs="all", events=True)


def _add_kernels(builder: Builder, profile: Profile, chosen: Array, first: int) -> None:
    """Add the slices of all kernels in the runs ``chosen``."""
    stamps = profile.stamps
    names = [kernel.name for kernel in profile.kernels]
    if stamps.threads.shape[1]:
        process = f"{profile.name} on {profile.device}"
        rows = stamps.threads[chosen]
        for thread in range(rows.shape[1]):
            run, step = np.nonzero(rows[:, thread, :, CHUNKS])
            track = builder.track(f"thread {thread}", "thread", process)
            found = rows[run, thread, step]
            turns = stamps.turns[chosen[run], step]
            builder.add_kernels(track, found[:, BEGIN], found[:, END], step, names, first, turns)
        return
    places: dict[tuple[str, TrackKind, str], list[int]] = {}
    for planned in profile.model.compiled.plan.steps:
        places.setdefault(_place(profile.model, planned), []).append(planned.number)
    for (name, kind, process), numbers in places.items():
        track = builder.track(name, kind, process)
        found = stamps.steps[chosen][:, numbers].reshape(-1, 2)
        begin, end = in_order(found[:, 0], found[:, 1])
        turns = stamps.turns[chosen][:, numbers].reshape(-1)
        steps = np.tile(numbers, len(chosen))
        builder.add_kernels(track, begin, end, steps, names, first, turns)


def _place(model: Any, step: Step) -> tuple[str, TrackKind, str]:
    """The track of ``step``: name, kind and process."""
    if step.kind == "transfer":
        target = "the host" if step.device == DeviceRef.CPU() else str(step.device)
        return f"copies to {target}", "transfer", f"{model.name} on {model.device_name}"
    if step.gpu is None:
        return "host", "thread", f"{model.name} on cpu"
    properties = model.devices[step.device].context.properties
    name = "simulated GPU" if properties.simulated else properties.name
    return f"stream of {step.device}", "stream", f"{model.name} on {name}"


def _is_simulated(profile: Profile) -> bool:
    return any(device.simulated for device in profile.model.devices.values())


def in_order(begin: Array, end: Array) -> tuple[Array, Array]:
    """``begin`` and ``end`` of slices that came one after another, moved later by as little as lets
    none begin before the one before it ends.

    The clock of a device is coarser than a nanosecond: an end and the next begin may cross in it.
    Lengths stay as they are.

    Example:
        >>> import numpy as np
        >>> in_order(np.array([0, 9, 30]), np.array([10, 15, 40]))
        (array([ 0, 10, 30]), array([10, 16, 40]))
    """
    lasts = end - begin
    before = np.concatenate([[0], np.cumsum(lasts)[:-1]]) if len(lasts) else lasts
    moved = before + np.maximum.accumulate(begin - before) if len(lasts) else begin
    return moved, moved + lasts


def _count(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def _told(error: Exception) -> str:
    return f"it has no {error}" if isinstance(error, KeyError) else str(error)


elsewhere(
    Timeline,
    "timeline",
    dict.fromkeys(("save", "export", "to_json", "to_perfetto"), "profile.timeline.to_chrome(path)"),
)


__all__ = ["Timeline", "Track", "in_order", "of_profile", "of_profiles", "timeline"]

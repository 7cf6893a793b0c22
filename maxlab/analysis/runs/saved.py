"""``SavedRun``: a run that was kept, with everything that a view or a comparison needs of it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from maxlab import files, trace
from maxlab.analysis.runs import archive
from maxlab.analysis.runs.facts import machine_facts
from maxlab.analysis.runs.shown import Recorded
from maxlab.engine.profile import Profile
from maxlab.engine.times import KernelTime, Times, plural
from maxlab.errors import ArgumentTypeError, DocumentError
from maxlab.habits import fitting

if TYPE_CHECKING:
    from maxlab.analysis.timeline import Timeline

Array = np.ndarray[Any, Any]

SUFFIX = ".mlprof"


class SavedRun(Times, Recorded):
    """A run with its graph, its times, and where it was measured; no model stands behind it.
    ``load_run`` reads it from a file, ``record`` makes it of a profile.

    It has the attributes of ``Profile`` that need no model, and is drawn in the same view.

    Attributes:
        label: What comparisons call it.
        name: The name of the graph.
        document: The graph document that views draw, plain JSON.
        kernels: A ``KernelTime`` per kernel, in the order in which they run.
        dims: The size of every symbolic dim.
        device: Where it ran.
        threads: Threads that the model could use.
        runs: Timed executions.
        wall_ns: Nanoseconds of one execution without timing, the median.
        wall_ns_min: Nanoseconds of the fastest execution without timing.
        timed_ns: Nanoseconds of one execution with every kernel timed, the median.
        kernel_samples_ns: ``[runs, kernels]`` int64.
        timed_samples_ns: ``[runs]`` int64.
        wall_samples_ns: ``[runs]`` int64.
        machine: Where it was measured, and with which versions; see ``machine_facts``.
        options: What the compiler was asked for, as text: ``"defaults"``.
        created: When it was recorded, UTC in ISO 8601.

    Example:
        >>> import numpy as np
        >>> from maxlab import engine
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType
        >>> with Graph("double", input_types=[TensorType(DType.float32, ["n"])]) as graph:
        ...     graph.output(graph.inputs[0].tensor * 2)
        >>> profile = engine.InferenceSession().load(graph).profile(np.ones(1000, np.float32))
        >>> run = record(profile, label="before")
        >>> run
        SavedRun('before', 'double', 1 kernel, 20 runs)
        >>> run.kernels[0].nodes == profile.kernels[0].nodes, run.wall_ns == profile.wall_ns
        (True, True)
    """

    def __init__(
        self,
        head: Mapping[str, Any],
        document: Mapping[str, Any],
        samples: Mapping[str, Array],
        timeline: Any = None,
    ) -> None:
        self._head = dict(head)
        self._timeline = timeline
        self.document = document
        self.label = str(head["label"])
        self.name = str(head["name"])
        self.device = str(head["device"])
        self.threads = int(head["threads"])
        self.dims = {str(k): int(v) for k, v in head["dims"].items()}
        self.machine = {str(k): str(v) for k, v in head["machine"].items()}
        self.options = str(head["options"])
        self.created = str(head["created"])
        self.kernel_samples_ns = samples["kernel_ns.npy"]
        self.timed_samples_ns = samples["timed_ns.npy"]
        self.wall_samples_ns = samples["wall_ns.npy"]
        self.runs = len(self.timed_samples_ns)
        self.wall_ns = float(np.median(self.wall_samples_ns))
        self.wall_ns_min = int(self.wall_samples_ns.min())
        self.timed_ns = float(np.median(self.timed_samples_ns))
        self.kernels = _kernel_times(head["kernels"], self.kernel_samples_ns)

    @property
    def kernel_sum_samples_ns(self) -> Array:
        """All kernels of each timed run together, ``[runs]`` int64 nanoseconds."""
        found: Array = self.kernel_samples_ns.sum(axis=1)
        return found

    @property
    def timeline(self) -> Timeline:
        """When each kernel of one of the runs ran, and where.

        Raises:
            DocumentError: ML850, the file was saved without it.
        """
        from maxlab.analysis.timeline import Timeline

        return Timeline.from_json(self._timeline)

    def save(self, path: Path | str, *, label: str | None = None) -> Path:
        """The path of the file that the run was saved to; ``load_run`` reads it.

        Args:
            path: Where to write it, usually ``name.mlprof``. What is there is replaced when the new
                file is complete.
            label: What to call the run from now on; as it is called when left out.

        Raises:
            FileError: ML001, ``path`` is there and is no regular file; ML003, it cannot be written.
        """
        if label is not None:
            self.label = self._head["label"] = label
        parts: dict[str, Any] = {
            "run.json": self._head,
            "document.json": self.document,
            "kernel_ns.npy": self.kernel_samples_ns,
            "timed_ns.npy": self.timed_samples_ns,
            "wall_ns.npy": self.wall_samples_ns,
        }
        if self._timeline is not None:
            parts["timeline.json"] = self._timeline
        return archive.write(path, parts)

    def __repr__(self) -> str:
        kernels, runs = plural(len(self.kernels), "kernel"), plural(self.runs, "run")
        return f"SavedRun({self.label!r}, {self.name!r}, {kernels}, {runs})"


def record(profile: Profile | SavedRun, *, label: str = "") -> SavedRun:
    """``profile`` as a ``SavedRun``, which needs its model no longer.

    Args:
        profile: What to keep. A ``SavedRun`` stays as it is.
        label: What comparisons call it; the name of the graph by default.

    Raises:
        ArgumentTypeError: ML844, it is something else.
    """
    if isinstance(profile, SavedRun):
        return profile
    if not isinstance(profile, Profile):
        raise ArgumentTypeError(
            "ML844",
            f"a run is what model.profile returned, or a saved one, got {type(profile).__name__}",
            fix="profile the model: model.profile(*inputs)",
        )
    from maxlab.analysis.timeline import timeline

    head = head_of(
        profile,
        label or profile.name,
        datetime.now(UTC).isoformat(timespec="seconds"),
        machine_facts(),
    )
    document = trace.reading("document_of")(profile)
    # How the run compares with others of its process means nothing where it is read.
    answers = {k: v for k, v in document.get("answers", {}).items() if k != "runs"}
    document = {**document, "answers": answers}
    return SavedRun(head, document, samples_of(profile), timeline(profile).to_json())


def head_of(
    profile: Profile, label: str, created: str, machine: Mapping[str, str]
) -> dict[str, Any]:
    """The head of the file of ``profile``.

    Args:
        profile: The run.
        label: The name that comparisons give it.
        created: When it was kept, in ISO 8601; empty where that does not matter.
        machine: The facts of the machine.
    """
    return {
        "format": archive.FORMAT,
        "version": archive.VERSION,
        "label": label,
        "name": profile.name,
        "created": created,
        "device": profile.device,
        "threads": profile.threads,
        "dims": dict(profile.dims),
        "machine": machine,
        "options": str(profile.model.options),
        "kernels": kernels_data(profile),
    }


def samples_of(profile: Profile) -> dict[str, Any]:
    """The times of ``profile`` in nanoseconds, by the name of their part of a file."""
    return {
        "kernel_ns.npy": profile.kernel_samples_ns,
        "timed_ns.npy": profile.timed_samples_ns,
        "wall_ns.npy": profile.wall_samples_ns,
    }


def kernels_data(profile: Profile) -> list[dict[str, Any]]:
    """The kernels of ``profile`` as a file holds them, without their times."""
    return [
        {
            "id": k.id,
            "name": k.name,
            "kind": k.kind,
            "nodes": list(k.nodes),
            "flops": k.flops,
            "nbytes": k.nbytes,
            "busy_ns": list(k.busy_ns),
            "imbalance": k.imbalance,
            "turns": k.turns,
        }
        for k in profile.kernels
    ]


def save_run(profile: Profile, path: Path | str, *, label: str = "") -> Path:
    """The path of the file that ``profile`` was saved to: what ``profile.save`` does."""
    return record(profile, label=label or files.as_path(path).stem).save(path)


@fitting("ML975", "maxlab.load_run('name.mlprof')")
def load_run(path: Path | str) -> SavedRun:
    """The run that ``profile.save`` wrote to the file ``path``, on whatever machine.

    Files of strangers are safe to load: nothing in them is executed, and one that is not what it
    claims to be is refused.

    Raises:
        DocumentError: ML840, it is no saved run; ML841, it is damaged or does not hold together;
            ML842, a newer maxlab wrote it; ML843, it would take more memory than any run of its
            size.
        FileError: ML001, it is no regular file; ML002, it cannot be read; ML004, it has too many
            bytes.

    Example:
        >>> run = load_run("before.mlprof")  # doctest: +SKIP
        >>> print(run.table())  # doctest: +SKIP
    """
    parts = archive.read(path)
    head, document = parts["run.json"], parts["document.json"]
    samples = {name: parts[name] for name in archive.ARRAY_PARTS}
    try:
        _check(head, samples)
        document = trace.reading("checked_document")(document)
        _check_kernels(head, document)
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        what = error.what if isinstance(error, DocumentError) else _told(error)
        raise DocumentError(
            "ML841",
            f"{files.as_path(path).name} does not hold together: {what}",
            fix="the file was changed by hand, or by another program; save the run again",
        ) from None
    return SavedRun(head, document, samples, parts.get("timeline.json"))


# ---------------------------------------------------------------- checks

_TEXT = (str,)
_NUMBER = (int, float)
_HEAD: Mapping[str, tuple[type, ...]] = {
    "label": _TEXT,
    "name": _TEXT,
    "created": _TEXT,
    "device": _TEXT,
    "threads": (int,),
    "dims": (dict,),
    "machine": (dict,),
    "options": _TEXT,
    "kernels": (list,),
}
_KERNEL: Mapping[str, tuple[type, ...]] = {
    "id": _TEXT,
    "name": _TEXT,
    "kind": _TEXT,
    "nodes": (list,),
    "flops": (int,),
    "nbytes": (int,),
    "busy_ns": (list,),
    "imbalance": _NUMBER,
}
_LARGEST = 1 << 62


def _check(head: Any, samples: Mapping[str, Array]) -> None:
    """That the head of a run has all fields, of the right types, and fits its samples.

    Raises:
        ValueError: It does not; with a few words on what is wrong.
    """
    _fields("run.json", head, _HEAD)
    for name, size in head["dims"].items():
        _number(f"the dim {name!r}", size)
    for name, text in head["machine"].items():
        if not isinstance(text, str):
            _refuse(f"machine has a {type(text).__name__} in {name!r}")
    _number("threads", head["threads"])
    if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", head["created"]):
        _refuse("created is no time in UTC")
    for n, kernel in enumerate(head["kernels"]):
        _fields(f"kernel {n}", kernel, _KERNEL)
        if not all(isinstance(node, str) for node in kernel["nodes"]):
            _refuse(f"the nodes of kernel {n} are no ids")
        numbers = (kernel["flops"], kernel["nbytes"], kernel["imbalance"], kernel.get("turns", 1))
        for number in (*numbers, *kernel["busy_ns"]):
            _number(f"kernel {n}", number)
    ids = [kernel["id"] for kernel in head["kernels"]]
    if len(set(ids)) != len(ids):
        _refuse("two kernels have the same id")
    times, timed, walls = (samples[name] for name in archive.ARRAY_PARTS)
    runs = len(timed) if timed.ndim == 1 else 0
    if runs == 0 or walls.ndim != 1 or len(walls) == 0:
        _refuse("it has no times")
    if times.shape != (runs, len(ids)):
        _refuse(f"it has times of the shape {times.shape} for {runs} runs of {len(ids)} kernels")


def _fields(what: str, value: Any, wanted: Mapping[str, tuple[type, ...]]) -> None:
    if not isinstance(value, dict):
        _refuse(f"{what} is a {type(value).__name__}")
    for name, types in wanted.items():
        if name not in value:
            _refuse(f"{what} has no {name!r}")
        if not isinstance(value[name], types) or isinstance(value[name], bool):
            _refuse(f"{name!r} of {what} is a {type(value[name]).__name__}")


def _number(what: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, _NUMBER):
        _refuse(f"{what} has a {type(value).__name__} where a number should be")
    if not math.isfinite(value) or not -_LARGEST < value < _LARGEST:
        _refuse(f"{what} has the number {str(value)[:40]}")


def _check_kernels(head: Mapping[str, Any], document: Mapping[str, Any]) -> None:
    """That the kernels of the run are those of the graph."""
    ids = [kernel["id"] for kernel in head["kernels"]]
    if [kernel["id"] for kernel in document["kernels"]] != ids:
        _refuse("the kernels of run.json are not those of document.json")
    known = {node["id"] for node in document["nodes"]}
    for kernel in head["kernels"]:
        for node in kernel["nodes"]:
            if node not in known:
                _refuse(f"{kernel['id']} computes an op {node[:40]!r} that the graph does not have")


def _refuse(why: str) -> NoReturn:
    raise ValueError(why)


def _told(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"{error} is missing"
    return str(error) or type(error).__name__


def _kernel_times(kernels: Sequence[Mapping[str, Any]], samples: Array) -> list[KernelTime]:
    """The times of kernels from their samples, ``[runs, kernels]``, as a profile has them."""
    if not kernels:
        return []
    first, middle, third = np.percentile(samples, [25, 50, 75], axis=0)
    total = float(middle.sum())
    return [
        KernelTime(
            id=k["id"],
            name=k["name"],
            kind=k["kind"],
            nodes=tuple(k["nodes"]),
            ns=float(middle[n]),
            ns_min=int(samples[:, n].min()),
            ns_iqr=float(third[n] - first[n]),
            flops=k["flops"],
            nbytes=k["nbytes"],
            gflops=k["flops"] / float(middle[n]) if middle[n] else 0.0,
            gbs=k["nbytes"] / float(middle[n]) if middle[n] else 0.0,
            share=float(middle[n]) / total if total else 0.0,
            busy_ns=tuple(float(ns) for ns in k["busy_ns"]),
            imbalance=float(k["imbalance"]),
            turns=int(k.get("turns", 1)),
        )
        for n, k in enumerate(kernels)
    ]

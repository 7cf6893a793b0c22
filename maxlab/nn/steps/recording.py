"""``StepRecording``: the steps that a recorder saw, of this process or of a file."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

from maxlab import files
from maxlab.errors import ArgumentError, DocumentError, shown
from maxlab.nn.steps.adapters import SeenAdapters
from maxlab.nn.steps.attention import SeenAttention
from maxlab.nn.steps.drawing import card
from maxlab.nn.steps.experts import SeenExperts, SentTokens
from maxlab.nn.steps.packing import unpacked
from maxlab.nn.steps.pages import SeenPages

KIND = "layer"
"""The kind of the events that tell what layers did."""
HEADER = {"maxlab": "steps", "version": 1}
"""The first line of a file; each line behind it is the data of an event."""
MOST_BYTES = 1 << 30
"""The largest file that is read."""
KEPT_BYTES = 64 << 20
"""How much the steps in memory hold; with more, the oldest go."""


class Step:
    """One step of a model, by what its layers did.

    Args:
        number: The number of the step, from 0 on.
        parts: The data of its events, in their order.
        source: Where they are from, for errors.

    Attributes:
        number: As above.
    """

    def __init__(self, number: int, parts: list[dict[str, Any]], source: str) -> None:
        self.number = number
        self._parts = parts
        self._source = source

    def _of(self, what: str) -> list[dict[str, Any]]:
        return [part for part in self._parts if part.get("what") == what]

    def layers(self) -> list[str]:
        """The paths of the layers of attention that were recorded, in the order they ran."""
        return [str(part.get("layer", "")) for part in self._of("attention")]

    def attention(self, layer: int | str = -1, sequence: int = 0, query: int = -1) -> SeenAttention:
        """The attention of a layer.

        Args:
            layer: Its path, or its place in `layers`; the last one when left out.
            sequence: The number of the sequence in the batch.
            query: The query, by its place among those that were kept; the last one when left out.

        Raises:
            ArgumentError: ML473, no such layer, sequence or query was recorded.
            DocumentError: ML474, the file that the step is from is damaged.
        """
        names = self.layers()
        place = names.index(layer) if isinstance(layer, str) and layer in names else layer
        if not isinstance(place, int) or not -len(names) <= place < len(names):
            raise self._absent(f"layer {shown(layer)}", f"use one of {names}")
        part = self._of("attention")[place]
        with _Reading(self._source):
            weights, first = part["weights"], part["first"]
            arrays = tuple(unpacked(one, "f", 3) for one in weights)
            if not isinstance(first, list) or len(first) != len(arrays) or not arrays:
                raise ValueError("the positions of queries do not fit their weights")
            if any(type(n) is not int or n < 0 for n in first):
                raise ValueError("a position is no number")
            made = SeenAttention(
                names[place], str(part["mask"]), int(part["window"]), arrays, tuple(first)
            )
            for number in range(len(arrays)):
                SeenAttention.allowed(made.at(number) if arrays[number].shape[1] else made)
        return made.at(sequence, query)

    def experts(self) -> SeenExperts:
        """The load of experts in all layers that have some.

        Raises:
            ArgumentError: ML473, no layer with experts was recorded.
            DocumentError: ML474, as of `attention`.
        """
        parts = self._of("experts")
        if not parts:
            raise self._absent("load of experts", "call a model that has MoE layers")
        with _Reading(self._source):
            counts = {str(part["layer"]): unpacked(part["counts"], "i", 1) for part in parts}
            sent = {
                name: _sent(part, len(one))
                for (name, one), part in zip(counts.items(), parts, strict=True)
                if "sent" in part
            }
            return SeenExperts(counts, sent)

    def adapters(self) -> SeenAdapters:
        """The adapters of the batch.

        Raises:
            ArgumentError: ML473, no layer with adapters was recorded.
            DocumentError: ML474, as of `attention`.
        """
        parts = self._of("adapters")
        if not parts:
            raise self._absent("adapters", "call a model that has LinearLoRA layers")
        part = parts[0]
        with _Reading(self._source):
            ids, ranks, offsets = (unpacked(part[name], "i", 1) for name in _GROUPS)
            if not len(ids) == len(ranks) == len(offsets) - 1 or (offsets[1:] < offsets[:-1]).any():
                raise ValueError("the groups of adapters do not fit their offsets")
            names = {int(slot): str(name) for slot, name in part["names"].items()}
            return SeenAdapters(ids, ranks, offsets, len(part["layers"]), names)

    def pages(self) -> SeenPages:
        """The pages that attention read.

        Raises:
            ArgumentError: ML473, no attention over a cache was recorded.
            DocumentError: ML474, as of `attention`.
        """
        parts = self._of("pages")
        if not parts:
            raise self._absent("pages", "call a model with attention over a paged cache")
        with _Reading(self._source):
            poisoned = {
                str(part["layer"]): [int(page) for page in part["poisoned"]]
                for part in self._of("attention")
                if part["poisoned"]
            }
            return SeenPages.of(parts[0], poisoned)

    def _shown(self) -> list[Any]:
        """All that was recorded, as objects that a notebook draws."""
        found: list[Any] = []
        if self._of("attention"):
            found += [self.attention(), self.pages()]
        if self._of("experts"):
            found.append(self.experts())
        if self._of("adapters"):
            found.append(self.adapters())
        return found

    def _absent(self, what: str, fix: str) -> ArgumentError:
        return ArgumentError("ML473", f"step {self.number}: no {what} was recorded", fix=fix)

    def __repr__(self) -> str:
        return "\n".join([f"Step {self.number}", *map(repr, self._shown())])

    def _repr_html_(self) -> str:
        body = "".join(f"<section>{one._repr_html_()}</section>" for one in self._shown())
        return card(f"Step {self.number}", body or "<p>No layer was recorded.</p>")


def _sent(part: dict[str, Any], experts: int) -> SentTokens:
    """The vectors that devices sent to the ``experts`` of a layer.

    Raises:
        ValueError: The data do not fit.
    """
    vectors = unpacked(part["sent"], "i", 2)
    sizes = part["dispatch_bytes"], part["combine_bytes"]
    many = len(vectors)
    if not 0 < many <= experts or vectors.shape != (many, many):
        raise ValueError("the vectors that were sent are not of each device to each")
    if (vectors < 0).any() or any(type(size) is not int or size < 0 for size in sizes):
        raise ValueError("a number of vectors or bytes is none")
    return SentTokens(vectors, *sizes)


_GROUPS = ("ids", "ranks", "offsets")


class StepRecording:
    """The steps that a `StepRecorder` saw: ``recording[-1]`` is the last one.

    Args:
        keep: The most steps; with more, the oldest go, and so they do above 64 MiB.
        source: Where they are from.
    """

    def __init__(self, keep: int = 1 << 30, source: str = "this process") -> None:
        self.source = source
        self._keep = keep
        self._lock = threading.Lock()
        self._steps: dict[int, list[dict[str, Any]]] = {}
        self._sizes: dict[int, int] = {}
        self._listeners: list[Callable[[], object]] = []

    @classmethod
    def from_file(cls, path: files.AnyPath) -> StepRecording:
        """The steps in a file that a recorder wrote. The process that wrote it may have ended in
        the middle of a line, which is left out then.

        Args:
            path: The file.

        Raises:
            FileError: ML001 or ML002 (an OSError), it is no regular file, or cannot be read.
            DocumentError: ML474 (a ValueError), it is no such file, or damaged.
        """
        name = str(files.as_path(path))
        lines = files.read_bytes(path, "the recording of steps", MOST_BYTES).split(b"\n")
        made = cls(source=name)
        with _Reading(name):
            if json.loads(lines[0]) != HEADER:
                raise ValueError("its first line is not that of a recording of steps")
            for line in lines[1:-1]:
                data = json.loads(line)
                if not isinstance(data, dict) or type(data.get("step")) is not int:
                    raise ValueError("a line is not what a layer did in a step")
                made.add(data, len(line))
        return made

    def add(self, data: dict[str, Any], nbytes: int) -> None:
        """Adds what a layer did.

        Args:
            data: The data of its event; cleared when the step goes.
            nbytes: About how many bytes it holds.
        """
        with self._lock:
            number = int(data["step"])
            self._steps.setdefault(number, []).append(data)
            self._sizes[number] = self._sizes.get(number, 0) + nbytes
            is_live = self.source == "this process"
            while len(self._steps) > 1 and (
                len(self._steps) > self._keep
                or (is_live and sum(self._sizes.values()) > KEPT_BYTES)
            ):
                oldest = next(iter(self._steps))
                del self._sizes[oldest]
                for gone in self._steps.pop(oldest):
                    gone.clear()  # the event stream has it too
        for listener in self._listeners[:]:
            listener()

    def listen(self, listener: Callable[[], object]) -> None:
        """Lets ``listener`` be called after each layer that is added, on its thread.

        Args:
            listener: The function.
        """
        self._listeners.append(listener)

    def __len__(self) -> int:
        return len(self._steps)

    def __getitem__(self, place: int) -> Step:
        with self._lock:
            numbers = list(self._steps)
            if not isinstance(place, int) or not -len(numbers) <= place < len(numbers):
                raise NoStepError(
                    "ML473",
                    f"there is no step {shown(place)}, {len(numbers)} are kept of {self.source}",
                    fix="run a model whose graph was built after the recorder was made",
                )
            number = numbers[place]
            return Step(number, list(self._steps[number]), self.source)

    def __iter__(self) -> Iterator[Step]:
        return (self[place] for place in range(len(self)))

    def __repr__(self) -> str:
        return f"StepRecording({len(self)} steps of {self.source})"


class NoStepError(ArgumentError, IndexError):
    """A step that was not recorded."""


class _Reading:
    """A context that makes errors of data those of a damaged file."""

    def __init__(self, source: str) -> None:
        self._source = source

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, _: Any) -> None:
        if isinstance(error, (ValueError, KeyError, TypeError, AttributeError, RecursionError)):
            raise DocumentError(
                "ML474",
                f"{self._source} is no recording of steps, or damaged: {str(error)[:200]}",
                fix="pass a file that StepRecorder(path=…) wrote",
            ) from error


__all__ = ["HEADER", "KIND", "NoStepError", "Step", "StepRecording"]

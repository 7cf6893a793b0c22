"""Counts and times of a server, in the text format of Prometheus."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import Lock

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""The upper bounds of the buckets of times."""
Labels = tuple[str, ...]


class Counter:
    """A number for each combination of labels, which only grows.

    Args:
        name: The name of the metric.
        told: What it counts.
        labels: The names of its labels.

    Example:
        >>> found = Counter("tokens_total", "Tokens.")
        >>> found.add(3)
        >>> list(found.lines())[-1]
        'tokens_total 3'
    """

    kind = "counter"

    def __init__(self, name: str, told: str, labels: Sequence[str] = ()) -> None:
        self.name, self.told, self.labels = name, told, tuple(labels)
        self._values: dict[Labels, float] = {} if labels else {(): 0}
        self._lock = Lock()

    def add(self, value: float = 1, *labels: str) -> None:
        """Adds to the number with these labels.

        Args:
            value: What is added, 0 or more.
            *labels: The values of the labels.
        """
        with self._lock:
            self._values[labels] = self._values.get(labels, 0) + value

    def value(self, *labels: str) -> float:
        """The number with these labels.

        Args:
            *labels: The values of the labels.
        """
        return self._values.get(labels, 0)

    def lines(self) -> Iterator[str]:
        """The lines of the metric."""
        yield from _head(self.name, self.told, self.kind)
        for labels, value in sorted(self._values.items()):
            yield _line(self.name, dict(zip(self.labels, labels, strict=True)), value)


class Gauge:
    """A number that is read when it is asked for.

    Args:
        name: The name of the metric.
        told: What it is.
        read: Reads it.
    """

    def __init__(self, name: str, told: str, read: Callable[[], float]) -> None:
        self.name, self.told, self._read = name, told, read

    def lines(self) -> Iterator[str]:
        """The lines of the metric."""
        yield from _head(self.name, self.told, "gauge")
        yield _line(self.name, {}, self._read())


class Histogram:
    """The distribution of times, in buckets.

    Args:
        name: The name of the metric.
        told: What takes the time.
        bounds: The upper bounds of the buckets, in seconds.
    """

    def __init__(self, name: str, told: str, bounds: Sequence[float] = SECONDS) -> None:
        self.name, self.told, self._bounds = name, told, tuple(bounds)
        self._counts = [0] * (len(self._bounds) + 1)
        self._sum = 0.0
        self._lock = Lock()

    def add(self, seconds: float) -> None:
        """Adds a time.

        Args:
            seconds: The time.
        """
        with self._lock:
            self._counts[bisect_left(self._bounds, seconds)] += 1
            self._sum += seconds

    def lines(self) -> Iterator[str]:
        """The lines of the metric."""
        yield from _head(self.name, self.told, "histogram")
        count = 0
        bounds = [*map(str, self._bounds), "+Inf"]
        for bound, one in zip(bounds, self._counts, strict=True):
            count += one
            yield _line(f"{self.name}_bucket", {"le": bound}, count)
        yield _line(f"{self.name}_sum", {}, self._sum)
        yield _line(f"{self.name}_count", {}, count)


class Metrics:
    """The metrics of a server.

    Attributes:
        requests: Requests by path and status.
        prompt_tokens: Tokens of prompts.
        generated_tokens: Tokens of answers.
        answers: Answers by what ended them.
        first_token: Seconds from a request to its first token.
        duration: Seconds from a request to its last byte.
    """

    def __init__(self) -> None:
        self.requests = Counter(
            "maxlab_requests_total", "Requests that were answered.", ("path", "status")
        )
        self.prompt_tokens = Counter("maxlab_prompt_tokens_total", "Tokens of prompts.")
        self.generated_tokens = Counter("maxlab_generated_tokens_total", "Tokens of answers.")
        self.answers = Counter("maxlab_answers_total", "Answers by what ended them.", ("reason",))
        self.first_token = Histogram(
            "maxlab_time_to_first_token_seconds", "Seconds to the first token of an answer."
        )
        self.duration = Histogram(
            "maxlab_request_duration_seconds", "Seconds to the last byte of a response."
        )
        self._gauges: list[Gauge] = []

    def watch(self, name: str, told: str, read: Callable[[], float]) -> None:
        """Adds a number that is read when the metrics are.

        Args:
            name: The name of the metric.
            told: What it is.
            read: Reads it.
        """
        self._gauges.append(Gauge(name, told, read))

    def text(self) -> str:
        """All metrics."""
        given: tuple[Counter | Gauge | Histogram, ...] = (
            self.requests,
            self.prompt_tokens,
            self.generated_tokens,
            self.answers,
            self.first_token,
            self.duration,
            *self._gauges,
        )
        return "".join(f"{line}\n" for one in given for line in one.lines())


def _head(name: str, told: str, kind: str) -> Iterator[str]:
    yield f"# HELP {name} {told}"
    yield f"# TYPE {name} {kind}"


def _line(name: str, labels: Mapping[str, str], value: float) -> str:
    told = ",".join(f'{key}="{_escaped(one)}"' for key, one in labels.items())
    return f"{name}{{{told}}} {value!r}" if told else f"{name} {value!r}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


__all__ = ["CONTENT_TYPE", "Counter", "Gauge", "Histogram", "Metrics"]

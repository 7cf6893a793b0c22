"""The messages between an `LLM` and the process that runs its model."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from typing import Any

from maxlab.errors import MaxlabError
from maxlab.interfaces import LoRARequest, RequestID, SchedulerResult, TextGenerationOutput


@dataclass(frozen=True)
class Start:
    """Makes the pipeline; the first message.

    Attributes:
        path: The places that modules are imported from.
        factory: The pickled factory of the pipeline.
        cpus: The number of CPU devices, virtual ones among them; 1 where there are none.
        cpu_memory_limit: The most bytes of each virtual one; -1 is no limit.
    """

    path: list[str]
    factory: bytes
    cpus: int = 1
    cpu_memory_limit: int = -1


@dataclass(frozen=True)
class Requests:
    """New requests, and requests that are called off.

    Attributes:
        contexts: The states of the new ones.
        cancelled: The ids of the others.
    """

    contexts: list[Any] = field(default_factory=list)
    cancelled: list[RequestID] = field(default_factory=list)


@dataclass(frozen=True)
class Control:
    """Stops or goes on taking steps.

    Attributes:
        paused: Whether steps are taken by `steps` alone from now on; None leaves it as it is.
        steps: The number of steps to take while it is paused.
    """

    paused: bool | None = None
    steps: int = 0


@dataclass(frozen=True)
class Adapt:
    """Loads or unloads an adapter.

    Attributes:
        number: The number that the answer has too.
        request: What to do.
    """

    number: int
    request: LoRARequest


@dataclass(frozen=True)
class Adapted:
    """The answer to `Adapt`.

    Attributes:
        number: The number of the question.
        error: What was raised, see `portable`; None when it is done.
    """

    number: int
    error: Exception | None


@dataclass(frozen=True)
class Phase:
    """The phase of making the pipeline, as a `maxlab.progress.Work` says it."""

    phase: str
    done: int
    total: int
    what: str


@dataclass(frozen=True)
class Ready:
    """The pipeline is made."""


@dataclass(frozen=True)
class Failed:
    """The pipeline could not be made, or the process cannot go on.

    Attributes:
        error: What was raised, see `portable`.
    """

    error: Exception


@dataclass(frozen=True)
class Stepped:
    """The results of a step.

    Attributes:
        record: The data of its `StepRecord`.
        start_ns: When it began, by ``time.monotonic_ns``.
        results: The outputs of requests.
        errors: The reasons of requests that failed.
    """

    record: dict[str, Any]
    start_ns: int
    results: dict[RequestID, SchedulerResult[TextGenerationOutput]]
    errors: dict[RequestID, Exception]


def portable(error: BaseException) -> Exception:
    """``error`` if it can be sent to another process, or else a RuntimeError with its words.

    Args:
        error: What was raised.

    Example:
        >>> portable(ValueError("no")), portable(KeyboardInterrupt())
        (ValueError('no'), RuntimeError('KeyboardInterrupt: '))
    """
    if isinstance(error, (MaxlabError, ValueError, TypeError, RuntimeError)):
        try:
            pickle.loads(pickle.dumps(error))
            return error
        except Exception:  # an exception of somebody's own, with arguments of its own
            pass
    return RuntimeError(f"{type(error).__name__}: {error}")


__all__ = [
    "Adapt",
    "Adapted",
    "Control",
    "Failed",
    "Phase",
    "Ready",
    "Requests",
    "Start",
    "Stepped",
    "portable",
]

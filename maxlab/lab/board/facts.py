"""Facts of the requests of a scheduler, added up from its steps."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from maxlab.pipelines.lib.scheduler import RequestStep, StepRecord

MOST_KNOWN = 10_000
"""Requests whose facts are kept, the newest."""


@dataclass
class RequestFacts:
    """A request as its steps tell it.

    Attributes:
        prompt: The number of tokens of its prompt that are computed.
        cached: The number of its tokens that were found in shared pages.
        generated: The number of its tokens so far.
        pages: The number of its pages after its last step.
        first_s: Seconds from its arrival to its first token; None before it.
        status: What became of it.
    """

    prompt: int = 0
    cached: int = 0
    generated: int = 0
    pages: int = 0
    first_s: float | None = None
    status: str = "waiting"
    _last_s: float = 0.0
    _later: int = 0

    def take(self, own: RequestStep) -> None:
        """Adds the part of the request in a step.

        Args:
            own: The part.
        """
        self.cached += own.cached
        self.generated += own.generated
        self.pages, self.status = own.pages, own.status.replace("_", " ")
        if own.prompt:
            self.prompt = max(self.prompt, own.start + own.computed)
        if own.generated:
            if self.first_s is None:
                self.first_s = own.age_s
            else:
                self._later += own.generated
            self._last_s = own.age_s

    @property
    def speed(self) -> float | None:
        """Tokens a second after the first step that gave one; None before the second one."""
        if self.first_s is None or not self._later or self._last_s <= self.first_s:
            return None
        return self._later / (self._last_s - self.first_s)


class RunFacts:
    """The requests of a run, and how many of them left it early.

    Attributes:
        taken: The number of steps that were added.
        preempted: How often a request gave its pages to others.
        cancelled: The number of requests that were cancelled.
        failed: The number of requests that ended with an error.
    """

    def __init__(self) -> None:
        self.taken = self.preempted = self.cancelled = self.failed = 0
        self._requests: dict[str, RequestFacts] = {}

    def take(self, step: StepRecord) -> None:
        """Adds the step that follows the last one.

        Args:
            step: The step.
        """
        self.taken += 1
        for own in step.requests:
            self.of(own.request).take(own)
        for names, word in (
            (step.cancelled, "cancelled"),
            (step.failed, "failed"),
            (step.preempted, "gave its pages to others"),
        ):
            for name in names:
                self.of(name).status = word
        self.cancelled += len(step.cancelled)
        self.failed += len(step.failed)
        self.preempted += len(step.preempted)

    def of(self, name: str) -> RequestFacts:
        """The facts of a request; of one without a step, that it waits.

        Args:
            name: The id of the request.
        """
        found = self._requests.get(name)
        if found is None:
            found = self._requests[name] = RequestFacts()
            if len(self._requests) > MOST_KNOWN:
                del self._requests[next(iter(self._requests))]
        return found

    @property
    def first_token_s(self) -> float | None:
        """Seconds to the first token, the median over the requests that have one; None without."""
        known = [one.first_s for one in self._requests.values() if one.first_s is not None]
        return median(known) if known else None


def facts_of(steps: list[StepRecord]) -> RunFacts:
    """The facts that some steps tell.

    Args:
        steps: The steps in their order.
    """
    facts = RunFacts()
    for step in steps:
        facts.take(step)
    return facts


__all__ = ["MOST_KNOWN", "RequestFacts", "RunFacts", "facts_of"]

"""Records of the steps of a scheduler, as data for whoever draws them."""

from __future__ import annotations

from dataclasses import dataclass, field
from sys import intern
from typing import Any

from maxlab import trace

_IDS = frozenset({"waiting", "active", "preempted", "cancelled", "failed"})
KIND = "schedule"
"""The kind of the events that tell steps."""


@dataclass(frozen=True)
class RequestStep:
    """The part of one request in a step.

    Attributes:
        request: The id of the request.
        replica: The number of the replica that computed it.
        start: The number of its tokens that were cached before.
        computed: The number of its tokens that went in.
        cached: The number of its tokens that were found in shared pages in this step.
        prompt: Whether the tokens were of its prompt, or of a reset.
        generated: The number of tokens that it got.
        status: Whether it goes on, or why it ended.
        pages: The number of its pages.
        age_s: Seconds from its arrival to the end of the step.
    """

    request: str
    replica: int
    start: int
    computed: int
    cached: int
    prompt: bool
    generated: int
    status: str
    pages: int
    age_s: float = 0.0


@dataclass(frozen=True)
class StepRecord:
    """The work of a scheduler in one step.

    Attributes:
        number: The number of the step, from 1 on.
        batch_type: ``"CE"`` with tokens of prompts, ``"TG"`` without, ``""`` for no batch.
        num_steps: The number of steps that the model made.
        requests: The requests of the batch.
        waiting: The ids of the requests that wait for their prompt, in their order.
        active: The ids of the requests that wait for their next token, in their order.
        preempted: The ids of those that gave their pages to others, in this order.
        cancelled: The ids of those that were cancelled.
        failed: The ids of those that ended with an error.
        pages: The number of pages.
        free_pages: The number of pages without a user.
        forming_s: Seconds that it took to form the batch.
        executing_s: Seconds that the batch took.
        shared_pages: The number of pages with several users.
        scheduler: The name of the scheduler.
    """

    number: int
    batch_type: str
    num_steps: int
    requests: tuple[RequestStep, ...] = ()
    waiting: tuple[str, ...] = ()
    active: tuple[str, ...] = ()
    preempted: tuple[str, ...] = ()
    cancelled: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    pages: int = 0
    free_pages: int = 0
    forming_s: float = 0.0
    executing_s: float = 0.0
    shared_pages: int = 0
    scheduler: str = ""

    @property
    def input_tokens(self) -> int:
        """The number of tokens that went in at the first step."""
        return sum(one.computed for one in self.requests)

    @property
    def seconds(self) -> float:
        """Seconds that the step took."""
        return self.forming_s + self.executing_s

    @property
    def generated_tokens(self) -> int:
        """The number of tokens that requests got."""
        return sum(one.generated for one in self.requests)

    def data(self) -> dict[str, Any]:
        """The record as values of JSON."""
        return {**vars(self), "requests": tuple(dict(vars(one)) for one in self.requests)}

    @classmethod
    def of(cls, data: dict[str, Any]) -> StepRecord:
        """The record that `data` told.

        Args:
            data: What `data` returned, perhaps by way of JSON.
        """
        # Thousands of steps name the same requests: the ids of another process become one text.
        found: dict[str, Any] = {
            name: tuple(map(intern, value)) if name in _IDS else value
            for name, value in data.items()
        }
        found["requests"] = tuple(
            RequestStep(**{**one, "request": intern(one["request"])}) for one in data["requests"]
        )
        return cls(**found)

    def tell(self, start_ns: int) -> None:
        """Adds the record to the event stream of this process, as an event of the kind `KIND`.

        Args:
            start_ns: When the step began, by ``time.monotonic_ns``.
        """
        dur_ns = int(self.seconds * 1e9)
        event = trace.Event(KIND, f"step {self.number}", start_ns, dur_ns, self.data())
        trace.recorder().add(event)


@dataclass
class Happened:
    """The requests that left a step early, while it is taken."""

    preempted: list[str] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


__all__ = ["KIND", "Happened", "RequestStep", "StepRecord"]

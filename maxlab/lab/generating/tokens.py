"""A token of an answer, with its probability and what it cost."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp

from maxlab.pipelines.lib.scheduler import RequestStep, StepRecord


@dataclass(frozen=True)
class GeneratedToken:
    """A token of an answer.

    Attributes:
        id: Its number in the vocabulary.
        text: Its part of the text; "" where a character is not complete with it.
        log_probability: Of it, as it was drawn; None where none was asked for.
        top: The most probable tokens at its place: number, text and log probability of each, the
            most probable first.
        step: The step of the scheduler that gave it; None until its record has come.
        own: The part of its request in that step.
    """

    id: int
    text: str
    log_probability: float | None = None
    top: tuple[tuple[int, str, float], ...] = ()
    step: StepRecord | None = None
    own: RequestStep | None = None

    @property
    def probability(self) -> float | None:
        """Its probability as it was drawn, in [0, 1]."""
        return None if self.log_probability is None else exp(min(self.log_probability, 0.0))

    @property
    def seconds(self) -> float | None:
        """Seconds of its step, for one of the tokens that the step gave to the request."""
        if self.step is None or self.own is None:
            return None
        return self.step.seconds / max(self.own.generated, 1)

    @property
    def phase(self) -> str:
        """``"prefill"`` where its step computed the prompt too, ``"decode"`` where it did not, and
        "" while its step is not known."""
        return "" if self.own is None else "prefill" if self.own.prompt else "decode"


__all__ = ["GeneratedToken"]

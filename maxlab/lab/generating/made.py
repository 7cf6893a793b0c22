"""An answer of a model of language, with the probability and the cost of each of its tokens."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from maxlab.engine.times import plural
from maxlab.errors import InputError
from maxlab.interfaces import fields
from maxlab.lab.generating.tokens import GeneratedToken
from maxlab.lab.mime import forms_of
from maxlab.pipelines.lib.scheduler import RequestStep, StepRecord

if TYPE_CHECKING:
    from maxlab.lab.generating.again import TimedStep


@dataclass
class Generation:
    """The answer of a model of language to a prompt; it grows until `status` is set.

    A notebook shows the tokens with their probabilities and times, also after it was saved. While
    its kernel runs, a click on a token draws the graph of its step.

    Attributes:
        request: The id of the request.
        prompt: The text in front of it.
        prompt_tokens: The tokens of that text.
        tokens: The tokens of the answer.
        status: The reason why it ended; "" while it goes on.
        steps: The steps of the scheduler that the request had a part in.
        recordings: With ``profile``: of each token, the runs of models in its step; None where the
            step was not recorded.
        origin: The request and its pipeline, by which a step can be run again.

    Example:
        >>> Generation("a", "One", [1], [GeneratedToken(2, " two")], "end_of_sequence")
        Generation(1 token, ' two')
    """

    request: str
    prompt: str
    prompt_tokens: list[int]
    tokens: list[GeneratedToken] = field(default_factory=list)
    status: str = ""
    steps: list[StepRecord] = field(default_factory=list)
    recordings: list[Any] = field(default_factory=list)
    origin: Any = field(default=None, repr=False, compare=False)

    @property
    def text(self) -> str:
        """The text of the answer."""
        return "".join(token.text for token in self.tokens)

    @property
    def prefill_s(self) -> float:
        """Seconds of the steps that computed the prompt."""
        return sum(step.seconds for step, own in self._own() if own.prompt)

    @property
    def first_token_s(self) -> float | None:
        """Seconds from the arrival of the request to its first token; None before it."""
        return next((own.age_s for _, own in self._own() if own.generated), None)

    @property
    def tokens_per_second(self) -> float | None:
        """Tokens a second after the first one; None where there are none."""
        known = [own for _, own in self._own() if own.generated]
        if len(known) < 2 or known[-1].age_s <= known[0].age_s:
            return None
        return sum(own.generated for own in known[1:]) / (known[-1].age_s - known[0].age_s)

    def _own(self) -> list[tuple[StepRecord, RequestStep]]:
        return [
            (step, own) for step in self.steps for own in step.requests
            if own.request == self.request
        ]  # fmt: skip

    def profile(self, index: int) -> Any:
        """The profile of the model's run that gave a token; a notebook draws its graph with the
        times of this step.

        A step that was not recorded is run again for it, alone in its batch.

        Args:
            index: The place of the token in `tokens`; from the end where it is negative.

        Raises:
            InputError: ML981 (a ValueError), there is no such token; ML479, its step was not
                recorded and cannot be run again; ML476, nor in another process.
            ArgumentError: ML852 (a ValueError), runs of models are being recorded already.
            InsufficientBlocksError: ML620 (a RuntimeError), other requests have the pages.
        """
        return self.timed(index).profile

    def timed(self, index: int) -> TimedStep:
        """The run that gave a token, and whether it was run again for that.

        Args:
            index: As for `profile`.

        Raises:
            InputError, ArgumentError, InsufficientBlocksError: As by `profile`.
        """
        from maxlab.lab.generating.again import FIX, timed

        fields.integer(-len(self.tokens), len(self.tokens) - 1)("index", index)
        index %= len(self.tokens)
        recording = self.recordings[index] if index < len(self.recordings) else None
        step = None if recording is None else timed(recording)
        if step is not None:
            return step
        if self.origin is None:
            raise InputError("ML479", "the steps of this answer were not profiled", fix=FIX)
        before = [token.id for token in self.tokens[:index]]
        found: TimedStep = self.origin.run_again(before, self._computed(index))
        return found

    def _computed(self, index: int) -> int:
        """The number of tokens that the run which gave a token computed."""
        token = self.tokens[index]
        if token.own is None:
            return 1 if index else len(self.prompt_tokens)
        first = index
        while first and self.tokens[first - 1].step is token.step:
            first -= 1
        # Of a step that gave several tokens, each run behind the first computes one.
        return token.own.computed if first == index else 1

    def __repr__(self) -> str:
        return f"Generation({plural(len(self.tokens), 'token')}, {self.text!r})"

    def _repr_html_(self) -> str:
        from maxlab.lab.generating.drawn import drawn

        return drawn(self)

    def _repr_mimebundle_(
        self,
        include: Collection[str] | None = None,
        exclude: Collection[str] | None = None,
        **_: Any,
    ) -> dict[str, Any]:
        def text() -> str:
            told = f"{plural(len(self.tokens), 'token')} behind {len(self.prompt_tokens)}"
            why = f", {self.status.replace('_', ' ')}" if self.status else ""
            return f"{self.prompt}{self.text}\n[{told}{why}]"

        def view() -> Any:
            from maxlab.lab.generating.view import GenerationView

            return GenerationView(self)

        return forms_of(
            include, exclude, text=text, page=self._repr_html_, view=view, minor=0, still=True
        )


__all__ = ["Generation"]

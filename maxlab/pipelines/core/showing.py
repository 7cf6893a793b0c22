"""The tokens of a context as a notebook shows them: the state of each, and its text.

The drawing itself is in the notebook's part of maxlab; this says what is to be drawn.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Any

from maxlab.errors import InputError, shown
from maxlab.interfaces import LogProbabilities, TextGenerationOutput, fields
from maxlab.interfaces.showing import Shown

Texts = Callable[[Sequence[int]], list[str]]
"""The text of each of some tokens."""


class Kind(StrEnum):
    """The origin of a token, and whether it was returned."""

    PROMPT = "prompt"
    IMAGE = "image"
    RETURNED = "generated, returned"
    UNRETURNED = "generated, not returned"
    END = "generated, ends the answer"
    """It is never returned."""
    RESERVED = "reserved"
    """No token yet: room to grow."""
    SPEECH_DECODED = "speech, decoded"
    SPEECH = "speech, not decoded"


class Work(StrEnum):
    """The work that a model has done with a token."""

    COMPUTED = "computed"
    NEXT = "computed next"
    WAITS = "waits"
    NONE = ""
    """No work is known of it."""


@dataclass(frozen=True)
class Run:
    """Tokens in a row that are in one state: those in [``start``, ``stop``).

    Attributes:
        start: The place of the first one.
        stop: One past the last one.
        kind: Where they come from.
        work: What was done with them.
    """

    start: int
    stop: int
    kind: Kind
    work: Work = Work.NONE

    @property
    def state(self) -> str:
        """The two states in words."""
        return ", ".join(filter(None, (self.kind.value, self.work.value)))


def runs_of(context: Any) -> list[Run]:
    """The runs of a `TextContext`, in order; the last one is the room to grow, if there is any.

    Args:
        context: The context; of one with images, each image is a run of its own.

    Example:
        >>> import numpy as np
        >>> from maxlab.pipelines.core import TextContext
        >>> context = TextContext(max_length=9, tokens=np.array([5, 6]))
        >>> context.update(7)
        >>> [(run.start, run.stop, run.state) for run in runs_of(context)][:2]
        [(0, 2, 'prompt, computed'), (2, 3, 'generated, not returned, computed next')]
    """
    prompt = len(context.prompt_tokens)
    told, tellable = context._completion_start_idx, context._completion_end_idx
    images = [(image.start_idx, image.end_idx) for image in getattr(context, "images", ())]
    cuts = {0, prompt, told, tellable, context.end_idx, context.start_idx, context.active_idx}
    cuts |= {place for image in images for place in image}
    places = sorted(place for place in cuts if place <= context.end_idx)
    runs = []
    for start, stop in pairwise(places):
        if any(first <= start < last for first, last in images):
            kind = Kind.IMAGE
        elif start < prompt:
            kind = Kind.PROMPT
        elif start < told:
            kind = Kind.RETURNED
        else:
            kind = Kind.UNRETURNED if start < tellable else Kind.END
        if start < context.start_idx:
            work = Work.COMPUTED
        else:
            work = Work.NEXT if start < context.active_idx else Work.WAITS
        runs.append(Run(start, stop, kind, work))
    if len(context.tokens) > context.end_idx:
        runs.append(Run(context.end_idx, len(context.tokens), Kind.RESERVED))
    return runs


def speech_runs_of(context: Any) -> list[Run]:
    """The runs of the speech tokens of a `TTSContext`; empty of other contexts.

    Args:
        context: The context.
    """
    made = getattr(context, "speech_tokens", None)
    if made is None:
        return []
    decoded = min(context.decoded_index, len(made))
    runs = [Run(0, decoded, Kind.SPEECH_DECODED), Run(decoded, len(made), Kind.SPEECH)]
    return [run for run in runs if run.stop > run.start]


def probabilities_of(
    context: Any, outputs: Sequence[TextGenerationOutput]
) -> dict[int, tuple[float, Mapping[int, float]]]:
    """By the place of a token: its log probability, and those of the most probable ones there.

    A context keeps them until they are told; those that were told are in ``outputs``.

    Args:
        context: The context.
        outputs: The outputs that were taken of it, from the first one on.

    Raises:
        InputError: ML187, ``outputs`` do not begin the answer of ``context``.
    """
    found: dict[int, tuple[float, Mapping[int, float]]] = {}
    place = len(context.prompt_tokens)
    for output in outputs:
        stop = place + len(output.tokens)
        if context.all_tokens[place:stop].tolist() != output.tokens:
            raise InputError(
                "ML187",
                f"outputs: the tokens of the context from {place} on expected ≠ "
                f"{shown(output.tokens)} given",
                fix="pass all outputs of this context, in the order in which they were made",
            )
        kept = output.log_probabilities or []
        # Of tokens without log probabilities there is no entry, and no way to tell which they are.
        if len(kept) == len(output.tokens):
            for index, one in enumerate(kept, place):
                found.update(_laid(index, one))
        place = stop
    for index, one in context._log_probabilities_data.items():
        found.update(_laid(index, one))
    return found


def _laid(
    index: int, told: LogProbabilities
) -> Iterator[tuple[int, tuple[float, Mapping[int, float]]]]:
    """``told``, whose last entry is that of the token at ``index``, by place."""
    values = told.token_log_probabilities
    tops = told.top_log_probabilities
    first = index + 1 - len(values)
    for n, value in enumerate(values):
        if first + n >= 0:
            yield first + n, (float(value), tops[n] if n < len(tops) else {})


# ---------------------------------------------------------------- texts
def texts_of(tokenizer: Any) -> Texts | None:
    """A function that gives the texts of tokens; None without a tokenizer.

    Args:
        tokenizer: An object with ``decode``, as tokenizers of maxlab and of transformers have; a
            list or dict of texts by token; a function of a token; or None.

    Raises:
        InputTypeError: ML980, it is none of these (a TypeError).

    Example:
        >>> texts_of(["a", "b"])([1, 0, 9])
        ['b', 'a', '']
    """
    if tokenizer is None:
        return None
    if isinstance(tokenizer, Mapping):
        return lambda tokens: [str(tokenizer.get(token, "")) for token in tokens]
    if isinstance(tokenizer, Sequence) and not isinstance(tokenizer, (str, bytes)):
        size = len(tokenizer)
        return lambda tokens: [str(tokenizer[t]) if 0 <= t < size else "" for t in tokens]
    if callable(decode := getattr(tokenizer, "decode", None)):
        return _decoded(decode)
    if callable(tokenizer):
        return lambda tokens: [str(tokenizer(token)) for token in tokens]
    raise fields.wrong_type(
        "tokenizer", tokenizer, "an object with decode, a list of texts, or a function of a token"
    )


def _decoded(decode: Callable[..., Any]) -> Texts:
    async def wait(tokens: Sequence[int]) -> list[str]:
        return [str(await decode([token])) for token in tokens]

    def texts(tokens: Sequence[int]) -> list[str]:
        if not inspect.iscoroutinefunction(decode):
            return [str(decode([token])) for token in tokens]
        # A notebook's thread has a loop that runs already, and cannot wait for another one.
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(asyncio.run, wait(tokens)).result()

    return texts


# ---------------------------------------------------------------- what is shown
@dataclass(frozen=True, eq=False)
class ShownContext(Shown):
    """A context for a notebook to draw; `ShowsTokens.show` makes it.

    Attributes:
        context: The context, which is drawn as it is when the cell ends.
        texts: Gives the texts of tokens, if there is a tokenizer.
        start: The first place that is drawn.
        stop: One past the last place that is drawn; None is the end.
        outputs: The outputs that were taken of the context.
    """

    context: Any
    texts: Texts | None = None
    start: int = 0
    stop: int | None = None
    outputs: tuple[TextGenerationOutput, ...] = ()

    def runs(self) -> list[Run]:
        """The runs between ``start`` and ``stop``, cut there."""
        return _between(runs_of(self.context), self.start, self.stop)

    def __repr__(self) -> str:
        return listing(self.context, self.runs())


def _between(runs: Sequence[Run], start: int, stop: int | None) -> list[Run]:
    most = runs[-1].stop if stop is None else stop
    cut = [Run(max(run.start, start), min(run.stop, most), run.kind, run.work) for run in runs]
    return [run for run in cut if run.start < run.stop]


def headline(context: Any) -> str:
    """A context in one line: its request, its state and its lengths.

    Args:
        context: The context.

    Example:
        >>> import numpy as np
        >>> from maxlab.interfaces import RequestID
        >>> from maxlab.pipelines.core import TextContext
        >>> headline(TextContext(max_length=9, tokens=np.array([5]), request_id=RequestID("a")))
        "TextContext 'a': active, 1 of at most 9 tokens, 0 generated"
    """
    made = len(context.generated_tokens)
    state = context.status.value.replace("_", " ")
    return (
        f"{type(context).__name__} {context.request_id.value!r}: {state}, "
        f"{context.current_length} of at most {context.max_length} tokens, {made} generated"
    )


def listing(context: Any, runs: Sequence[Run]) -> str:
    """The runs of a context as lines of text, below its `headline`.

    Args:
        context: The context.
        runs: The runs to list.
    """
    every = [*runs, *speech_runs_of(context)]
    spans = [f"{run.start}–{run.stop - 1}" if run.stop - run.start > 1 else str(run.start)
             for run in every]  # fmt: skip
    width = max(map(len, spans), default=0)
    lines = [f"  {span.ljust(width)}  {run.state}" for span, run in zip(spans, every, strict=True)]
    return "\n".join([headline(context), *lines])


class ShowsTokens(Shown):
    """A base of contexts, which a notebook shows as their tokens, coloured by state."""

    __slots__ = ()

    def show(
        self,
        tokenizer: Any = None,
        *,
        start: int = 0,
        stop: int | None = None,
        outputs: Sequence[TextGenerationOutput] = (),
    ) -> ShownContext:
        """The context for a notebook to draw: its tokens by state, with their texts.

        Args:
            tokenizer: What gives the texts: an object with ``decode``, a list or dict of texts by
                token, or a function of a token; without it tokens are numbers.
            start: The first place that is drawn, 0 or more.
            stop: One past the last place that is drawn; the end by default.
            outputs: The outputs that were taken of the context, from the first one on: their log
                probabilities are drawn too.

        Raises:
            InputTypeError: ML980, an argument of another type (a TypeError).
            InputError: ML981, a place is negative; ML187, ``outputs`` are not of this context.

        Example:
            >>> import numpy as np
            >>> from maxlab.interfaces import RequestID
            >>> from maxlab.pipelines.core import TextContext
            >>> context = TextContext(max_length=200, tokens=np.array([1, 0]),
            ...                       request_id=RequestID("a"))
            >>> context.show(["a", "b"])
            TextContext 'a': active, 2 of at most 200 tokens, 0 generated
              0–1    prompt, computed next
              2–127  reserved
        """
        fields.integer(0)("start", start)
        fields.optional(fields.integer(0))("stop", stop)
        fields.listed(fields.instance(TextGenerationOutput), kinds=(list, tuple))(
            "outputs", outputs
        )
        probabilities_of(self, outputs)
        return ShownContext(self, texts_of(tokenizer), start, stop, tuple(outputs))


__all__ = [
    "Kind",
    "Run",
    "ShownContext",
    "ShowsTokens",
    "Texts",
    "Work",
    "headline",
    "listing",
    "probabilities_of",
    "runs_of",
    "speech_runs_of",
    "texts_of",
]

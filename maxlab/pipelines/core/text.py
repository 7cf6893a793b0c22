"""The state of a text generation: its tokens, what of them is computed, and what was told."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from maxlab.errors import InputError
from maxlab.interfaces import (
    GenerationStatus,
    LogProbabilities,
    RequestID,
    SamplingParams,
    TextGenerationOutput,
    fields,
)
from maxlab.pipelines.core.showing import ShowsTokens

CHUNK_SIZE = 128
"""The array of tokens has a multiple of this length."""
TOKEN = fields.integer(0, fields.INT32)
"""The rule of a token."""
COUNT = fields.integer(0)
"""The rule of a number of tokens or steps."""
_LOG_PROBABILITIES = fields.optional(fields.instance(LogProbabilities))
_ENDED_BY_TOKENS = (GenerationStatus.END_OF_SEQUENCE, GenerationStatus.MAXIMUM_LENGTH)
_ENDPOINT = re.compile(r"ipc://.+|tcp://[^/:\s][^/\s]*:\d{1,5}")


@cache
def _largest(dtype: np.dtype[Any]) -> int:
    """The largest token that an array of ``dtype`` holds."""
    return int(np.iinfo(dtype).max)


def _endpoint(name: str, value: Any) -> None:
    fields.text(name, value)
    if not _ENDPOINT.fullmatch(value):
        raise fields.out_of_range(name, value, "ipc://PATH or tcp://HOST:PORT")


_RULES: fields.Rules = {
    "max_length": fields.integer(1),
    "tokens": fields.array(np.integer, 1),
    "request_id": fields.instance(RequestID),
    "eos_token_ids": fields.listed(TOKEN, kinds=(set, frozenset)),
    "eos_sequences": fields.listed(fields.listed(TOKEN)),
    "log_probabilities": fields.integer(0),
    "log_probabilities_echo": fields.flag,
    "ignore_eos": fields.flag,
    "json_schema": fields.optional(fields.text),
    "sampling_params": fields.instance(SamplingParams),
    "model_name": fields.text,
    "status": fields.instance(GenerationStatus),
    "_log_probabilities_data": fields.mapped(fields.integer(0), fields.instance(LogProbabilities)),
    "target_endpoint": fields.optional(_endpoint),
}


class TextContext(
    ShowsTokens, msgspec.Struct, tag=True, kw_only=True, omit_defaults=True, eq=False
):
    """The state of a text generation; see `TextGenerationContext` for the places in its tokens.

    Generation ends at a token of ``eos_token_ids`` or of the parameters' ``stop_token_ids``, at a
    sequence of ``eos_sequences``, and at ``max_length`` tokens or ``max_new_tokens`` new ones. The
    token that ends it is not told, except at the longest length and after `tell_end`.
    ``ignore_eos`` passes over ``eos_token_ids`` alone. Before ``min_new_tokens`` tokens only the
    longest length ends it.

    Args:
        max_length: The largest number of tokens, the prompt's included.
        tokens: The prompt, integers of shape [tokens]; it is copied.
        request_id: The request.
        eos_token_ids: The tokens that end the generation.
        eos_sequences: The sequences of tokens that do.
        log_probabilities: How many of the most probable tokens are told with their log
            probabilities.
        log_probabilities_echo: Whether log probabilities of the prompt's tokens are told too.
        ignore_eos: Whether to go on after a token of ``eos_token_ids``.
        json_schema: The JSON schema that the text is to fit.
        sampling_params: How tokens are drawn, and when the generation ends.
        model_name: The model that is asked.
        status: Whether the generation goes on.
        target_endpoint: The instance that is to answer: ``ipc://PATH`` or ``tcp://HOST:PORT``.

    Raises:
        InputTypeError: A field of another type.
        InputError: A field out of its range; an empty prompt, or one that with
            ``min_new_tokens`` is longer than ``max_length``.

    Example:
        >>> context = TextContext(max_length=8, tokens=np.array([5, 6]), eos_token_ids={0})
        >>> context.update(7)
        >>> context.update(0)
        >>> context.to_generation_output().tokens, context.status.value
        ([7], 'end_of_sequence')
    """

    max_length: int
    tokens: npt.NDArray[np.integer[Any]]
    request_id: RequestID = msgspec.field(default_factory=RequestID)
    eos_token_ids: set[int] = msgspec.field(default_factory=set)
    eos_sequences: list[list[int]] = msgspec.field(default_factory=list)
    log_probabilities: int = 0
    log_probabilities_echo: bool = False
    ignore_eos: bool = False
    json_schema: str | None = None
    sampling_params: SamplingParams = msgspec.field(default_factory=SamplingParams)
    model_name: str = ""
    _matcher: Any | None = None
    status: GenerationStatus = GenerationStatus.ACTIVE
    _size: int = -1
    _start_idx: int = 0
    _active_idx: int = -1
    _end_idx: int = -1
    _completion_start_idx: int = -1
    _completion_end_idx: int = -1
    _prompt_len: int = -1
    _log_probabilities_data: dict[int, LogProbabilities] = msgspec.field(default_factory=dict)
    _is_initial_prompt: bool = True
    _draft_offset: int = 0
    target_endpoint: str | None = None
    # One past the tokens that are computed as a prompt: of a reset, all that there were.
    _encode_end: int = -1

    def __post_init__(self) -> None:
        fields.check(self, _RULES)
        if any(not sequence for sequence in self.eos_sequences):
            raise fields.out_of_range("TextContext.eos_sequences", [], "sequences with tokens")
        if self._size == -1:
            self._begin()
        self._check_state()

    def _begin(self) -> None:
        """Sets the places of a new context, whose tokens are the prompt."""
        length = len(self.tokens)
        if not length:
            raise InputError(
                "ML989",
                "a prompt of 1 token or more expected ≠ 0 tokens given",
                fix="give a text that the tokenizer makes a token of; from the empty one it makes "
                "none",
            )
        if length > self.max_length:
            raise InputError(
                "ML989",
                f"a prompt of at most max_length = {self.max_length} tokens expected ≠ {length} "
                "given",
            )
        if length + self.min_tokens > self.max_length:
            raise InputError(
                "ML989",
                f"min_new_tokens is {self.min_tokens}, and a prompt of {length} tokens leaves "
                f"{self.max_length - length} of max_length = {self.max_length}",
            )
        self._active_idx = self._end_idx = self._prompt_len = self._encode_end = length
        self._completion_start_idx = self._completion_end_idx = length
        self._resize(length)

    def _resize(self, needed: int) -> None:
        """Makes room for ``needed`` tokens, in an array of its own that can be written to."""
        if needed <= self._size and self.tokens.flags.writeable:
            return
        grown = np.zeros(-(-max(needed, self._size) // CHUNK_SIZE) * CHUNK_SIZE, self.tokens.dtype)
        kept = min(len(self.tokens), len(grown))
        grown[:kept] = self.tokens[:kept]
        self.tokens, self._size = grown, len(grown)

    def _check_state(self) -> None:
        """Raises unless the places are in their order, as those of a message may not be."""
        places = (0, self._start_idx, self._active_idx, self._end_idx, self._size)
        told = (
            self._prompt_len,
            self._completion_start_idx,
            self._completion_end_idx,
            self._end_idx,
        )
        ordered = list(places) == sorted(places) and list(told) == sorted(told)
        if not (
            ordered
            and self._start_idx < self._active_idx
            and self._size == len(self.tokens)
            and self._prompt_len > 0
            and self._prompt_len <= self._encode_end <= self._end_idx
        ):
            raise InputError(
                "ML988",
                f"{type(self).__name__}: 0 <= start_idx < active_idx <= end_idx expected ≠ "
                f"start_idx={self._start_idx}, active_idx={self._active_idx}, "
                f"end_idx={self._end_idx} of {len(self.tokens)} places",
                why=[
                    f"the prompt has {self._prompt_len} tokens",
                    f"those before {self._completion_start_idx} were told",
                ],
            )

    # ------------------------------------------------------------ what there is
    @property
    def start_idx(self) -> int:
        """The number of tokens that have been computed."""
        return self._start_idx

    @property
    def active_idx(self) -> int:
        """One past the tokens that are computed next."""
        return self._active_idx

    @property
    def end_idx(self) -> int:
        """One past the last token."""
        return self._end_idx

    @property
    def active_length(self) -> int:
        """The number of tokens that are computed next."""
        return self._active_idx - self._start_idx

    @property
    def current_length(self) -> int:
        """The number of tokens, of the prompt and generated."""
        return self._end_idx

    @property
    def all_tokens(self) -> npt.NDArray[np.integer[Any]]:
        """All tokens, of the prompt and generated."""
        return self.tokens[: self._end_idx]

    @property
    def next_tokens(self) -> npt.NDArray[np.integer[Any]]:
        """The tokens that are computed next."""
        return self.tokens[self._start_idx : self._active_idx]

    @property
    def prompt_tokens(self) -> npt.NDArray[np.integer[Any]]:
        """The tokens of the prompt; a reset adds none."""
        return self.tokens[: self._prompt_len]

    @property
    def generated_tokens(self) -> npt.NDArray[np.integer[Any]]:
        """The tokens that were generated."""
        return self.tokens[self._prompt_len : self._end_idx]

    @property
    def min_tokens(self) -> int:
        """The least number of tokens to generate."""
        return self.sampling_params.min_new_tokens

    @property
    def needs_ce(self) -> bool:
        """Whether tokens of the prompt, or of a reset, are still to be computed."""
        return self._start_idx < self._encode_end

    @property
    def is_initial_prompt(self) -> bool:
        """Whether no token has been generated yet."""
        return self._is_initial_prompt

    @property
    def is_done(self) -> bool:
        """Whether the generation has ended."""
        return self.status.is_done

    @property
    def matcher(self) -> Any | None:
        """The matcher that follows the grammar of the text, if it has one."""
        return self._matcher

    def set_matcher(self, matcher: Any) -> None:
        """Sets the matcher that follows the grammar of the text.

        Args:
            matcher: An object with ``consume_token(token) -> bool``; it does not leave the process.

        Raises:
            InputTypeError: It has no such method.
        """
        if not callable(getattr(matcher, "consume_token", None)):
            raise fields.wrong_type("matcher", matcher, "an object with consume_token(token)")
        self._matcher = matcher

    def get_last_generated_token(self) -> int:
        """The token that was generated last.

        Raises:
            InputError: None has been generated (a ValueError).
        """
        if self._end_idx == self._prompt_len:
            raise InputError("ML990", "no token has been generated yet", fix="update() adds one")
        return int(self.tokens[self._end_idx - 1])

    def get_min_token_logit_mask(self, num_steps: int) -> list[npt.NDArray[np.int32]]:
        """For each of the next steps, rows (0, token) of the tokens that must not be drawn.

        These are the ones that end the generation, until there are ``min_tokens`` tokens.

        Args:
            num_steps: The number of steps, 0 or more.

        Raises:
            InputTypeError, InputError: ``num_steps`` is no int, or negative.
        """
        COUNT("num_steps", num_steps)
        ends = sorted(self.eos_token_ids | set(self.sampling_params.stop_token_ids or ()))
        rows = np.array([(0, token) for token in ends], np.int32).reshape(-1, 2)
        left = self.min_tokens - (self._end_idx - self._prompt_len)
        return [rows.copy() if step < left else rows[:0].copy() for step in range(num_steps)]

    def compute_num_available_steps(self, max_seq_len: int) -> int:
        """The number of tokens that can be generated within ``max_seq_len``; 0 or more.

        Args:
            max_seq_len: The largest number of tokens, the prompt's included.

        Raises:
            InputTypeError, InputError: ``max_seq_len`` is no int, or negative.
        """
        COUNT("max_seq_len", max_seq_len)
        return max(0, max_seq_len - self._end_idx)

    # ------------------------------------------------------------ what changes it
    def _limit(self) -> int:
        most = self.sampling_params.max_new_tokens
        return self.max_length if most is None else min(self.max_length, self._prompt_len + most)

    def _append(self, token: int, log_probabilities: LogProbabilities | None) -> None:
        """Adds a token behind the last one, and sees whether it ends the generation."""
        if self._end_idx >= self._limit():
            self.status = GenerationStatus.MAXIMUM_LENGTH
            return
        if self._matcher is not None and not self._matcher.consume_token(token):
            raise InputError(
                "ML994",
                f"the grammar of the request {self.request_id} does not allow the token {token} "
                f"at {self._end_idx}",
                fix="mask the logits by the matcher before a token is drawn",
            )
        self._resize(self._end_idx + 1)
        self.tokens[self._end_idx] = token
        self._end_idx += 1
        self._active_idx = self._end_idx
        self._is_initial_prompt = False
        if self._ends_at(token):
            self.status = GenerationStatus.END_OF_SEQUENCE
            return
        if log_probabilities is not None:
            self._log_probabilities_data[self._end_idx - 1] = log_probabilities
        self._completion_end_idx = self._end_idx
        if self._end_idx >= self._limit():
            self.status = GenerationStatus.MAXIMUM_LENGTH

    def ends_generation(self, token: int, count: int) -> bool:
        """Whether a token ends the generation by itself, as the last of ``count`` generated ones.

        Sequences of several tokens that end it too are not looked at.

        Args:
            token: The token.
            count: The number of generated tokens, with this one.
        """
        if count <= self.min_tokens:
            return False
        params = self.sampling_params
        if token in self.eos_token_ids and not (self.ignore_eos or params.ignore_eos):
            return True
        return token in (params.stop_token_ids or ())

    def _ends_at(self, token: int) -> bool:
        """Whether ``token``, the last one, ends the generation."""
        generated = self.generated_tokens
        if len(generated) <= self.min_tokens:
            return False
        return self.ends_generation(token, len(generated)) or any(
            len(sequence) <= len(generated) and generated[-len(sequence) :].tolist() == sequence
            for sequence in self.eos_sequences
        )

    def _check_token(self, token: object, log_probabilities: object = None) -> int:
        """The token as Python's int; raises for one that the context cannot take."""
        TOKEN("new_token", token)
        _LOG_PROBABILITIES("log_probabilities", log_probabilities)
        number: int = int(token)  # type: ignore[call-overload]
        if number > _largest(self.tokens.dtype):
            raise fields.out_of_range("new_token", token, f"a token of {self.tokens.dtype}")
        if self.status.is_done:
            raise InputError(
                "ML991",
                f"the request {self.request_id} is done ({self.status.value}) and takes no token",
                fix="ask is_done before each token",
            )
        return number

    def update(self, new_token: int, log_probabilities: LogProbabilities | None = None) -> None:
        """Takes a token that was generated, and sees whether that was the end.

        While a part of the prompt is not computed yet, the token is of no use and is dropped: the
        rest of the prompt becomes what is computed next.

        Args:
            new_token: The token, 0 or more.
            log_probabilities: What is told with it.

        Raises:
            InputTypeError, InputError: It is no token; the generation has ended; or the grammar
                does not allow it. The context is as before.
        """
        token = self._check_token(new_token, log_probabilities)
        if self._active_idx < self._end_idx:
            self._start_idx, self._active_idx = self._active_idx, self._end_idx
            return
        computed = self._active_idx
        self._append(token, log_probabilities)
        if self._end_idx > computed:
            self._start_idx = computed

    def tell_end(self, log_probabilities: LogProbabilities | None = None) -> None:
        """Lets the token that ended the generation be told with the others, as one does whose text
        begins before the text that ended it. Where no token has ended it, nothing changes.

        Args:
            log_probabilities: What is told with it.
        """
        if self.status is GenerationStatus.END_OF_SEQUENCE:
            if log_probabilities is not None:
                self._log_probabilities_data[self._end_idx - 1] = log_probabilities
            self._completion_end_idx = self._end_idx

    def jump_ahead(self, new_token: int) -> None:
        """Takes a token that is computed together with those before it.

        Args:
            new_token: The token, 0 or more.

        Raises:
            InputTypeError, InputError: As by `update`; or a part of the prompt is not computed.
        """
        token = self._check_token(new_token)
        if self._active_idx < self._end_idx:
            raise InputError(
                "ML988",
                f"jump_ahead: tokens from {self._active_idx} to {self._end_idx} are not computed "
                "yet",
                fix="compute the whole prompt first",
            )
        self._append(token, None)

    def reset(self) -> None:
        """Asks for all tokens to be computed anew, as if they were a prompt.

        What was generated stays so: for penalties, for the least and the largest number of tokens,
        and for what is still to be told.
        """
        self._start_idx = 0
        self._active_idx = self._encode_end = self._end_idx

    def bump_token_indices(self, start_idx: int = 0, active_idx: int = 0, end_idx: int = 0) -> None:
        """Moves the three places by numbers of tokens, which may be negative.

        Tokens behind a smaller ``end_idx`` are taken back, if they were not told yet; a generation
        that they had ended goes on.

        Args:
            start_idx: By how much ``start_idx`` moves.
            active_idx: By how much ``active_idx`` moves.
            end_idx: By how much ``end_idx`` moves.

        Raises:
            InputTypeError: A number is no int.
            InputError: The places would be out of order; none is moved.
        """
        for name, value in (("start", start_idx), ("active", active_idx), ("end", end_idx)):
            fields.integer()(f"bump_token_indices.{name}_idx", value)
        self._move(
            self._start_idx + start_idx, self._active_idx + active_idx, self._end_idx + end_idx
        )

    def set_token_indices(
        self,
        start_idx: int | None = None,
        active_idx: int | None = None,
        end_idx: int | None = None,
    ) -> None:
        """Sets the places that are given, as `bump_token_indices` moves them.

        Args:
            start_idx: The new ``start_idx``.
            active_idx: The new ``active_idx``.
            end_idx: The new ``end_idx``.

        Raises:
            InputTypeError: A number is no int.
            InputError: The places would be out of order; none is set.
        """
        for name, value in (("start", start_idx), ("active", active_idx), ("end", end_idx)):
            fields.optional(fields.integer())(f"set_token_indices.{name}_idx", value)
        self._move(
            self._start_idx if start_idx is None else start_idx,
            self._active_idx if active_idx is None else active_idx,
            self._end_idx if end_idx is None else end_idx,
        )

    def _move(self, start: int, active: int, end: int) -> None:
        before = (
            self._start_idx,
            self._active_idx,
            self._end_idx,
            self._completion_end_idx,
            self._encode_end,
        )
        self._start_idx, self._active_idx, self._end_idx = int(start), int(active), int(end)
        self._completion_end_idx = min(self._completion_end_idx, self._end_idx)
        self._encode_end = min(self._encode_end, self._end_idx)
        try:
            self._check_state()
        except InputError:
            (
                self._start_idx,
                self._active_idx,
                self._end_idx,
                self._completion_end_idx,
                self._encode_end,
            ) = before
            raise
        if self._end_idx < before[2] and self.status in _ENDED_BY_TOKENS:
            self.status = GenerationStatus.ACTIVE
        for index in [one for one in self._log_probabilities_data if one >= self._end_idx]:
            del self._log_probabilities_data[index]
        self._is_initial_prompt = self._end_idx == self._prompt_len

    def to_generation_output(self) -> TextGenerationOutput:
        """The tokens that were generated and not told yet, with the status; each is told once."""
        told = range(self._completion_start_idx, self._completion_end_idx)
        found = [self._log_probabilities_data.pop(index, None) for index in told]
        probabilities = [one for one in found if one is not None]
        self._completion_start_idx = self._completion_end_idx
        return TextGenerationOutput(
            request_id=self.request_id,
            tokens=self.tokens[told.start : told.stop].tolist(),
            final_status=self.status,
            log_probabilities=probabilities or None,
        )


fields.declare(TextContext, _RULES)

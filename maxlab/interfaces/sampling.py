"""How tokens are drawn: the parameters of a request, and the three levels of their defaults."""

from __future__ import annotations

import dataclasses
import logging
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from maxlab.interfaces import fields
from maxlab.interfaces.showing import Shown

_LOG = logging.getLogger(__name__)
MOST_TOP_K = 255
"""The largest ``top_k``; above it, ask for all tokens with -1."""


def _processor(name: str, value: Any) -> None:
    if not callable(value):
        raise fields.wrong_type(name, value, "a function of ProcessorInputs")


_COUNT = fields.integer(0)
_STOP_HINT = 'write a list, also for one: stop=["text"]'

_RULES: fields.Rules = {
    "top_k": fields.integer(-1, MOST_TOP_K),
    "top_p": fields.real(0, 1),
    "min_p": fields.real(0, 1),
    "temperature": fields.real(0),
    "frequency_penalty": fields.real(-math.inf),
    "presence_penalty": fields.real(-math.inf),
    "repetition_penalty": fields.real(0, above=True),
    "max_new_tokens": fields.optional(fields.integer(1)),
    "min_new_tokens": _COUNT,
    "ignore_eos": fields.flag,
    "stop": fields.optional(fields.listed(fields.word, hint=_STOP_HINT)),
    "stop_token_ids": fields.optional(fields.listed(_COUNT)),
    "detokenize": fields.flag,
    "seed": fields.integer(0, fields.UINT64),
    "logits_processors": fields.optional(fields.listed(_processor, kinds=(list, tuple))),
}
# The rules of the same fields where None stands for "as the level below says".
_OPEN_RULES = {
    **{name: fields.optional(rule) for name, rule in _RULES.items()},
    "do_sample": fields.optional(fields.flag),
}


_REALS = {"top_p", "min_p", "temperature"} | {
    f"{kind}_penalty" for kind in ("frequency", "presence", "repetition")
}


def _settle(owner: object) -> None:
    """Makes Python's own numbers of those of ``owner``, so that a message changes none of them."""
    for name, value in vars(owner).items():
        if value is not None and name in _REALS:
            object.__setattr__(owner, name, float(value))
        elif isinstance(value, np.integer):
            object.__setattr__(owner, name, int(value))


@dataclass(frozen=True)
class SamplingParamsInput(Shown):
    """The parameters that a user asked for; None where the model's or the class's default holds.

    Args:
        top_k, top_p, min_p, temperature, frequency_penalty, presence_penalty, repetition_penalty,
        max_new_tokens, min_new_tokens, ignore_eos, stop, stop_token_ids, detokenize, seed,
        logits_processors: As those of `SamplingParams`.

    Raises:
        InputTypeError, InputError: As by `SamplingParams`, of the fields that are not None.
    """

    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    temperature: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    repetition_penalty: float | None = None
    max_new_tokens: int | None = None
    min_new_tokens: int | None = None
    ignore_eos: bool | None = None
    stop: list[str] | None = None
    stop_token_ids: list[int] | None = None
    detokenize: bool | None = None
    seed: int | None = None
    # Any stands for ProcessorInputs, whose context holds sampling parameters in turn.
    logits_processors: Sequence[Callable[[Any], None]] | None = None

    def __post_init__(self) -> None:
        names = [one.name for one in dataclasses.fields(self)]
        fields.check(self, {name: _OPEN_RULES[name] for name in names})
        _settle(self)


@dataclass(frozen=True)
class SamplingParamsGenerationConfigDefaults(Shown):
    """The parameters in a model's ``generation_config.json``; None where it does not say.

    These defaults stand between those of the user and those of `SamplingParams`.

    Args:
        temperature: As that of `SamplingParams`.
        top_p: As that of `SamplingParams`.
        top_k: As that of `SamplingParams`.
        repetition_penalty: As that of `SamplingParams`.
        max_new_tokens: As that of `SamplingParams`.
        min_new_tokens: As that of `SamplingParams`.
        do_sample: False takes the most probable token always, as a temperature of 0 does.

    Raises:
        InputTypeError, InputError: As by `SamplingParams`, of the fields that are not None.
    """

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    repetition_penalty: float | None = None
    max_new_tokens: int | None = None
    min_new_tokens: int | None = None
    do_sample: bool | None = None

    def __post_init__(self) -> None:
        names = [one.name for one in dataclasses.fields(self)]
        fields.check(self, {name: _OPEN_RULES[name] for name in names})
        _settle(self)

    @property
    def values_to_update(self) -> dict[str, float | int]:
        """The fields of `SamplingParams` that the model sets, with their values.

        ``do_sample=False`` is told as the temperature 0.

        Example:
            >>> SamplingParamsGenerationConfigDefaults(temperature=0.7, top_k=50).values_to_update
            {'temperature': 0.7, 'top_k': 50}
        """
        names = [one.name for one in dataclasses.fields(self) if one.name != "do_sample"]
        values = {name: getattr(self, name) for name in names}
        if self.do_sample is False:
            values["temperature"] = 0
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True)
class SamplingParams(Shown):
    """How the tokens of one request are drawn, and when it ends.

    A temperature of 0 is greedy and sets ``top_k`` to 1; a ``top_k`` of 0 means all tokens, -1.

    Args:
        top_k: Only the ``top_k`` most probable tokens are drawn from, in [-1, 255]; -1 means all.
        top_p: Of those, only the most probable ones that together have this probability, in [0, 1].
        min_p: Only tokens with at least this part of the probability of the most probable one, in
            [0, 1]; 0 means all.
        temperature: Divides the logits, 0 or more; 0 takes the most probable token.
        frequency_penalty: Taken from a token's logit for each time that it was generated.
        presence_penalty: Taken from a token's logit when it was generated at all.
        repetition_penalty: Above 0. Divides the positive logits of tokens that were seen, and
            multiplies the negative ones.
        max_new_tokens: At most so many tokens are generated, 1 or more; None leaves it to others.
        min_new_tokens: At least so many tokens are generated, 0 or more.
        ignore_eos: Whether to go on after the token that ends a sequence.
        stop: Texts that end the generation.
        stop_token_ids: Tokens that end the generation.
        detokenize: Whether the tokens are made into text.
        seed: The start of the random numbers, in [0, 2**64); random by default, of 63 bits.
        logits_processors: Functions that change the logits of the request in place, in this order.
            They do not leave the process.

    Raises:
        InputTypeError: A field is of the wrong Python type (a TypeError).
        InputError: A field is out of its range, or ``min_new_tokens`` is above ``max_new_tokens``
            (a ValueError).

    Example:
        >>> SamplingParams(temperature=0).top_k, SamplingParams(top_k=0).top_k
        (1, -1)
    """

    top_k: int = -1
    top_p: float = 1
    min_p: float = 0.0
    temperature: float = 1
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    repetition_penalty: float = 1.0
    max_new_tokens: int | None = None
    min_new_tokens: int = 0
    ignore_eos: bool = False
    stop: list[str] | None = None
    stop_token_ids: list[int] | None = None
    detokenize: bool = True
    seed: int = field(default_factory=lambda: int.from_bytes(os.urandom(8)) >> 1)
    logits_processors: Sequence[Callable[[Any], None]] | None = None

    def __post_init__(self) -> None:
        fields.check(self, _RULES)
        _settle(self)
        if self.max_new_tokens is not None and self.min_new_tokens > self.max_new_tokens:
            raise fields.contradiction(
                f"SamplingParams.min_new_tokens is {self.min_new_tokens}, above max_new_tokens, "
                f"{self.max_new_tokens}",
                "raise max_new_tokens, or lower min_new_tokens",
            )
        if self.temperature == 0:
            object.__setattr__(self, "top_k", 1)
        elif self.top_k == 0:
            object.__setattr__(self, "top_k", -1)

    @classmethod
    def from_input_and_generation_config(
        cls,
        input_params: SamplingParamsInput,
        sampling_params_defaults: SamplingParamsGenerationConfigDefaults,
    ) -> SamplingParams:
        """The parameters with each field from the first of user, model and class that sets it.

        Where the user's ``max_new_tokens`` or ``min_new_tokens`` contradicts that of the model, the
        model's gives way.

        Args:
            input_params: What the user asked for.
            sampling_params_defaults: What the model's generation config sets.

        Raises:
            InputTypeError: An argument of another class.
            InputError: The user's values contradict each other.

        Example:
            >>> params = SamplingParams.from_input_and_generation_config(
            ...     SamplingParamsInput(temperature=0.7),
            ...     sampling_params_defaults=SamplingParamsGenerationConfigDefaults(
            ...         temperature=0.2, top_k=50),
            ... )
            >>> params.temperature, params.top_k, params.top_p
            (0.7, 50, 1.0)
        """
        fields.instance(SamplingParamsInput)("input_params", input_params)
        fields.instance(SamplingParamsGenerationConfigDefaults)(
            "sampling_params_defaults", sampling_params_defaults
        )
        names = [one.name for one in dataclasses.fields(input_params)]
        asked = {
            name: getattr(input_params, name)
            for name in names
            if getattr(input_params, name) is not None
        }
        model: dict[str, Any] = dict(sampling_params_defaults.values_to_update)
        most = asked.get("max_new_tokens")
        if most is not None and model.get("min_new_tokens", 0) > most:
            model["min_new_tokens"] = most
        least = asked.get("min_new_tokens", 0)
        if model.get("max_new_tokens", least) < least:
            model["max_new_tokens"] = least
        return cls(**{**model, **asked})

    def log_sampling_info(self) -> None:
        """Writes each parameter in a line of the log, at the level INFO."""
        _LOG.info("Sampling parameters")
        for one in dataclasses.fields(self):
            _LOG.info("    %-20s: %s", one.name, getattr(self, one.name))


fields.declare(SamplingParamsInput, _OPEN_RULES)
fields.declare(SamplingParamsGenerationConfigDefaults, _OPEN_RULES)
fields.declare(SamplingParams, _RULES)
PARAMS = fields.instance(SamplingParams)
"""The rule of a field that holds sampling parameters."""

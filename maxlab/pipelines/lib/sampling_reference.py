"""The drawing of a token in plain NumPy: what each rule of `SamplingParams` does to a distribution.

It is the reference that a sampler of a graph is compared with, and what the notebook's view of
sampling draws. The rules act in this order:

1. the functions of ``logits_processors`` (`next_distribution` alone, which has their context)
2. ``repetition_penalty``, of the tokens of the prompt and of the answer
3. ``frequency_penalty`` and ``presence_penalty``, of the tokens of the answer
4. tokens that must not be drawn, as those that would end an answer before ``min_new_tokens``
5. ``temperature``
6. ``top_k``, then ``top_p`` of what is left, then ``min_p`` of what is left
7. the draw, by the seed and the place of the token

All numbers are float64. Of tokens that are equally probable, those with the smaller ids come first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from maxlab.driver import Tensor
from maxlab.errors import InputError, UnsupportedError, shown
from maxlab.interfaces import ProcessorInputs, SamplingParams, TextGenerationContext, fields

Floats = npt.NDArray[np.float64]
Tokens = Sequence[int] | npt.NDArray[np.integer[Any]]
"""Token ids: a list, or an array with one axis."""

_LARGEST = 1e300
"""Penalties are limited to this, so that a sum with a logit stays finite."""
_UINT64 = 1 << 64


class Rule(StrEnum):
    """The rule that took a token out of a distribution, or KEPT."""

    KEPT = "kept"
    """It can be drawn."""
    IMPOSSIBLE = "impossible"
    """Its logit was minus infinity."""
    FORBIDDEN = "forbidden"
    """It must not be drawn here, as the end of an answer before ``min_new_tokens``."""
    TOP_K = "top_k"
    """It is none of the ``top_k`` most probable ones."""
    TOP_P = "top_p"
    """More probable tokens have a probability of ``top_p`` together."""
    MIN_P = "min_p"
    """It has less than ``min_p`` times the probability of the most probable one."""


RULES = tuple(Rule)
"""The rules in the order in which they act; `Distribution.rules` holds places in it."""


@dataclass(frozen=True, eq=False)
class Distribution:
    """The probabilities of the next token, before and after the rules; arrays of shape [tokens].

    Attributes:
        before: The softmax of the logits as the model gave them.
        scores: The logits after penalties and temperature, less the largest of them.
        after: The probabilities that a token is drawn by; 0 where a rule took it out.
        rules: For each token, the place in `RULES` of the rule that took it out; 0 is KEPT.
        position: The number of tokens before it, of prompt and answer.

    Example:
        >>> found = distribution(np.log([0.5, 0.3, 0.2]), SamplingParams(top_k=2))
        >>> found.after.round(3).tolist(), found.rule(2).value, found.kept
        ([0.625, 0.375, 0.0], 'top_k', 2)
    """

    before: Floats
    scores: Floats
    after: Floats
    rules: npt.NDArray[np.int8]
    position: int = 0

    @property
    def kept(self) -> int:
        """The number of tokens that can be drawn."""
        return int(np.count_nonzero(self.rules == 0))

    @property
    def entropy(self) -> float:
        """The entropy of `after` in bits: 0 where one token is certain."""
        return entropy_of(self.after)

    def rule(self, token: int) -> Rule:
        """The rule that took ``token`` out, or KEPT.

        Args:
            token: A token id.

        Raises:
            InputTypeError, InputError: There is no such token.
        """
        fields.integer(0, len(self.rules) - 1)("token", token)
        return RULES[int(self.rules[token])]

    def order(self, count: int | None = None) -> npt.NDArray[np.intp]:
        """Token ids, by the probability that the model gave them; the most probable one first.

        Args:
            count: At most so many; all by default.
        """
        found: npt.NDArray[np.intp] = np.argsort(-self.before, kind="stable")[:count]
        return found

    def draw(self, seed: int, count: int = 1) -> npt.NDArray[np.int64]:
        """Tokens that are drawn at this place: the same for the same seed and place.

        The random numbers are those of Philox with the key ``seed + position``, whatever other
        requests are drawn besides.

        Args:
            seed: The seed of the request, in [0, 2**64).
            count: How many tokens are drawn, each as if it were the only one.

        Returns:
            Token ids, shape [count].

        Raises:
            InputTypeError, InputError: An argument is no int, or out of its range.

        Example:
            >>> found = distribution(np.zeros(4), SamplingParams(top_k=2))
            >>> sorted({int(token) for token in found.draw(seed=1, count=50)})
            [0, 1]
        """
        fields.integer(0, _UINT64 - 1)("seed", seed)
        fields.integer(0)("count", count)
        key = (int(seed) + self.position) % _UINT64
        random = np.random.Generator(np.random.Philox(key=key)).random(count)
        sums = np.cumsum(self.after)
        found = np.searchsorted(sums, random * sums[-1], side="right")
        # A number that rounding brought up to the whole sum is the last token's.
        last = int(np.flatnonzero(self.after)[-1])
        tokens: npt.NDArray[np.int64] = np.minimum(found, last).astype(np.int64)
        return tokens


def entropy_of(probabilities: Floats) -> float:
    """The entropy of ``probabilities`` in bits.

    Example:
        >>> entropy_of(np.array([0.25, 0.25, 0.25, 0.25, 0.0]))
        2.0
    """
    some = probabilities[probabilities > 0]
    return float(max(0.0, -(some * np.log2(some)).sum()))


def softmax(scores: Floats) -> Floats:
    """The probabilities of ``scores``, of which one at least is finite."""
    with np.errstate(under="ignore"):
        powers = np.exp(scores - scores.max())
        result: Floats = powers / powers.sum()
    return result


def distribution(
    logits: npt.ArrayLike,
    params: SamplingParams | None = None,
    *,
    prompt: Tokens = (),
    generated: Tokens = (),
    forbidden: Collection[int] = (),
) -> Distribution:
    """The distribution of the next token.

    Args:
        logits: Of each token of the vocabulary, shape [tokens]; minus infinity for those that
            cannot be.
        params: How the token is drawn; those of `SamplingParams` by default. Their lengths, stops
            and seed change no distribution.
        prompt: The tokens of the prompt.
        generated: The tokens that were generated.
        forbidden: Tokens that must not be drawn.

    Raises:
        InputTypeError: ML980, an argument of another type (a TypeError).
        InputError: ML981, logits with other than one axis, or without tokens; ML183, a logit that
            is NaN or plus infinity; ML184, a token outside of the vocabulary; ML185, no token is
            left.
        UnsupportedError: ML186, ``params`` have logits processors: they need a context.

    Example:
        >>> logits = np.log([0.4, 0.3, 0.2, 0.1])
        >>> found = distribution(logits, SamplingParams(top_p=0.6, temperature=0.5))
        >>> found.kept, found.after.round(3).tolist(), round(found.entropy, 2)
        (2, [0.64, 0.36, 0.0, 0.0], 0.94)
    """
    params = SamplingParams() if params is None else params
    fields.instance(SamplingParams)("params", params)
    if params.logits_processors:
        raise UnsupportedError(
            "ML186",
            "the parameters have logits_processors, which read a context, and none is given",
            fix="call next_distribution(logits, context)",
        )
    return _distribution(_checked(logits), params, prompt, generated, forbidden)


def next_distribution(
    logits: npt.ArrayLike, context: TextGenerationContext, params: SamplingParams | None = None
) -> Distribution:
    """The distribution of the next token of ``context``.

    Penalties count its tokens, and before its least number of tokens those that would end it are
    forbidden. Its logits processors are called, on a copy.

    Args:
        logits: Of each token of the vocabulary, shape [tokens].
        context: The state of the request.
        params: Other parameters than those of the context; its least number of tokens holds.

    Raises:
        InputTypeError, InputError: As by `distribution`.
        UnsupportedError: ML186, the context has the matcher of a grammar, which is not read here.

    Example:
        >>> from maxlab.pipelines.core import TextContext
        >>> context = TextContext(max_length=9, tokens=np.array([2]), eos_token_ids={0},
        ...                       sampling_params=SamplingParams(min_new_tokens=1))
        >>> next_distribution([1.0, 1.0, 1.0], context).after.tolist()
        [0.0, 0.5, 0.5]
    """
    fields.instance(TextGenerationContext)("context", context)
    if context.matcher is not None:
        raise UnsupportedError(
            "ML186",
            "the context has the matcher of a grammar, which this reference does not read",
            fix="pass the tokens that the grammar does not allow as distribution(forbidden=…)",
        )
    params = context.sampling_params if params is None else params
    fields.instance(SamplingParams)("params", params)
    checked = _checked(logits)
    for process in params.logits_processors or ():
        checked = _processed(checked, process, context)
    rows = context.get_min_token_logit_mask(1)[0]
    return _distribution(
        checked,
        replace(params, logits_processors=None),
        context.prompt_tokens,
        context.generated_tokens,
        rows[:, 1].tolist(),
    )


def _processed(logits: Floats, process: Any, context: TextGenerationContext) -> Floats:
    """``logits`` after one of the request's functions, which writes into float32."""
    tensor = Tensor.from_numpy(logits.astype(np.float32)[None].copy())
    process(ProcessorInputs(logits=tensor, context=context))
    return _checked(np.array(tensor.to_numpy()[0]))


def _checked(logits: npt.ArrayLike) -> Floats:
    array = np.asarray(logits)
    if array.dtype.kind not in "fiu" and "float" not in array.dtype.name:
        raise fields.wrong_type("logits", logits, "an array of real numbers")
    if array.ndim != 1 or not array.size:
        raise fields.out_of_range(
            "logits",
            list(array.shape),
            "the shape [tokens]",
            fix="pass one row, such as logits[-1]",
        )
    values = array.astype(np.float64)
    if (bad := np.flatnonzero(np.isnan(values) | (values == np.inf))).size:
        raise InputError(
            "ML183",
            f"logits: finite numbers or minus infinity expected ≠ {values[bad[0]]} at the token "
            f"{bad[0]}",
            why=[f"{bad.size} of {values.size} logits are NaN or plus infinity"],
            fix="look for what computed it: maxlab.values shows what each operation made",
        )
    return values


def _counts(name: str, tokens: Tokens | Collection[int], size: int) -> dict[int, int]:
    """How often each of ``tokens`` is there."""
    counts: dict[int, int] = Counter()
    for token in tokens:
        fields.integer()(name, token)
        if not 0 <= token < size:
            raise InputError(
                "ML184",
                f"{name}: tokens in [0, {size}) expected ≠ {shown(token)} given",
                why=[f"there are {size} logits, one for each token of the vocabulary"],
            )
        counts[int(token)] = counts.get(int(token), 0) + 1
    return counts


def penalised(
    logits: Floats, params: SamplingParams, prompt: dict[int, int], generated: dict[int, int]
) -> Floats:
    """``logits`` after the penalties.

    Args:
        logits: Of each token, shape [tokens].
        params: The penalties.
        prompt: How often each token is in the prompt.
        generated: How often each token was generated.
    """
    scores = logits.copy()
    seen = np.array(sorted(prompt.keys() | generated.keys()), np.intp)
    factor = params.repetition_penalty
    some = scores[seen]
    with np.errstate(over="ignore", under="ignore"):
        scores[seen] = np.where(some < 0, some * factor, some / factor)
        made = np.array(sorted(generated), np.intp)
        times = np.array([generated[int(token)] for token in made], np.float64)
        amount = times * params.frequency_penalty + params.presence_penalty
    scores[made] -= np.clip(amount, -_LARGEST, _LARGEST)
    # What a factor near 0 made infinite is the largest number, and stays below no other.
    possible = logits > -np.inf
    scores[possible] = np.clip(scores[possible], -_LARGEST, _LARGEST)
    return scores


def _distribution(
    logits: Floats,
    params: SamplingParams,
    prompt: Tokens,
    generated: Tokens,
    forbidden: Collection[int],
) -> Distribution:
    size = len(logits)
    before = _counts("prompt", prompt, size)
    made = _counts("generated", generated, size)
    never = np.array(sorted(_counts("forbidden", forbidden, size)), np.intp)
    rules = np.where(logits > -np.inf, 0, RULES.index(Rule.IMPOSSIBLE)).astype(np.int8)
    if not (rules == 0).any():
        raise _nothing_left("every logit is minus infinity")
    scores = penalised(logits, params, before, made)
    rules[never] = np.where(rules[never] == 0, RULES.index(Rule.FORBIDDEN), rules[never])
    if not (rules == 0).any():
        raise _nothing_left(f"{len(never)} tokens are forbidden")
    scores[rules != 0] = -np.inf
    scores -= scores.max()
    if params.temperature > 0:
        with np.errstate(over="ignore", under="ignore"):
            scores /= params.temperature
    _cut(scores, rules, params)
    return Distribution(
        before=softmax(logits),
        scores=scores,
        after=softmax(np.where(rules == 0, scores, -np.inf)),
        rules=rules,
        position=len(prompt) + len(generated),
    )


def _nothing_left(why: str) -> InputError:
    return InputError(
        "ML185",
        "no token is left that could be drawn",
        why=[why],
        fix="allow one token at least",
    )


def _cut(scores: Floats, rules: npt.NDArray[np.int8], params: SamplingParams) -> None:
    """Writes into ``rules`` which tokens top-k, top-p and min-p take out, one after the other."""
    order = np.argsort(-scores, kind="stable")
    order = order[rules[order] == 0]
    if 0 < params.top_k < len(order):
        rules[order[params.top_k :]] = RULES.index(Rule.TOP_K)
        order = order[: params.top_k]
    probabilities = softmax(scores[order])
    if params.top_p < 1:
        ahead = np.concatenate([[0.0], np.cumsum(probabilities)[:-1]])
        stays = ahead < params.top_p
        stays[0] = True
        rules[order[~stays]] = RULES.index(Rule.TOP_P)
        order, probabilities = order[stays], probabilities[stays]
    rules[order[probabilities < params.min_p * probabilities[0]]] = RULES.index(Rule.MIN_P)


__all__ = [
    "RULES",
    "Distribution",
    "Rule",
    "distribution",
    "entropy_of",
    "next_distribution",
    "penalised",
    "softmax",
]

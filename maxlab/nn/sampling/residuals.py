"""Draft tokens that are kept with the ratio of the probabilities of target and draft."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, ShapeError
from maxlab.graph import DeviceRef, TensorValue, TensorValueLike, ops
from maxlab.ir import DimLike
from maxlab.nn.kernels.given import require_rank
from maxlab.nn.kernels.sampling import row_floats, row_integers
from maxlab.nn.module import Module
from maxlab.nn.sampling.given import (
    SEEDS,
    accepted,
    places_of,
    require_draft,
    require_settings,
    seeds_of,
    steps_of,
)

_APART: Final = 0x632BE59BD9B4E019
"""Is added to seeds: tokens are not kept by the numbers by which the draft was drawn."""
_LEAST: Final = float(np.finfo(np.float64).tiny)
_MOST: Final = 1 - float(np.finfo(np.float64).epsneg)
"""Uniform numbers are limited to these, whose logarithms are finite and not 0."""


class RejectionSamplerWithResiduals(Module):
    """Keeps draft tokens with the probability ``min(1, p / q)``, where p is the target's
    probability of the token and q the draft's; the token behind the kept ones is drawn from what p
    has above q. So tokens have the distribution of the target, whatever the draft is.

    See Y. Leviathan, M. Kalman, Y. Matias, "Fast inference from transformers via speculative
    decoding" (ICML 2023).

    ``top_k`` and ``temperature`` act on target and draft alike. Where requests have their own, let
    ``ops.sample_scores`` make the logits of both, and pass ``top_k=-1``.

    Args:
        device: Where it runs.
        top_k: How many of the most probable tokens are drawn from; all below 1. With 1, the tokens
            are the most probable ones of the target.
        temperature: What logits are divided by; 0 takes the most probable token.
        eps: Is added to q, so that nothing is divided by 0.
        seed: The seed of sequences without one of their own.
        debug: Whether calls must pass the uniform numbers.

    Raises:
        ArgumentTypeError: ML317, ``device`` is no DeviceRef.
        ArgumentError: ML678, a number out of its range (a ValueError).

    Example:
        >>> sampler = RejectionSamplerWithResiduals(DeviceRef.CPU(), top_k=-1)
        >>> sampler.temperature, sampler.debug
        (1.0, False)
    """

    def __init__(
        self,
        device: DeviceRef,
        top_k: int = 1,
        temperature: float = 1.0,
        eps: float = 1e-10,
        seed: int = 0,
        debug: bool = False,
    ) -> None:
        what = "RejectionSamplerWithResiduals"
        require_settings(what, device, top_k, 1, temperature, seed, eps)
        self.device, self.top_k, self.temperature = device, top_k, temperature
        self.eps, self.seed, self.debug = eps, seed, debug

    def __call__(
        self,
        draft_tokens: TensorValue,
        draft_logits_for_sampled_tokens: TensorValue,
        target_logits: TensorValue,
        target_logit_offsets: TensorValue,
        all_draft_logits: TensorValue,
        rejection_rand: TensorValue | None = None,
        residual_rand: TensorValue | None = None,
        seeds: TensorValueLike | None = None,
    ) -> tuple[TensorValue, TensorValue, TensorValue]:
        """How many draft tokens of each sequence are kept, int64 [batch]; for each step the token
        that follows if the draft token is the first that is not kept, int64 [batch, steps]; and the
        token that follows if all are kept, int64 [batch, 1].

        Args:
            draft_tokens: Integers [batch, steps].
            draft_logits_for_sampled_tokens: The draft's logits of these tokens, floats
                [batch, steps].
            target_logits: Those of the target, floats [rows, tokens]: for each sequence a row for
                each draft token, and one for the token behind them.
            target_logit_offsets: Where the rows of each sequence begin, integers [batch + 1].
            all_draft_logits: The draft's logits, floats [steps, batch, tokens].
            rejection_rand: Uniform numbers in [0, 1), [batch, steps]: a token is kept where its
                number is below ``min(1, p / q)``.
            residual_rand: Uniform numbers in [0, 1), [batch, steps, tokens]: the token that follows
                is the one with the largest ``r / -log(number)``, r the part of p above q.
            seeds: A seed of each sequence, integers [batch]; each sequence has its own by its
                number otherwise, the same in every run.

        Raises:
            ArgumentTypeError: ML317, no tensors.
            ShapeError: ML659, other ranks or sizes (a ValueError).
            DTypeError: ML666, other dtypes (a ValueError).
            ArgumentError: ML678, only one of ``rejection_rand`` and ``residual_rand`` is given, or
                none with ``debug`` (a ValueError).
        """
        what, device = "RejectionSamplerWithResiduals", self.device
        tokens, given, logits, offsets = require_draft(
            what, draft_tokens, draft_logits_for_sampled_tokens, target_logits, target_logit_offsets
        )
        proposed = require_rank(what, "all_draft_logits", all_draft_logits, 3)
        rows, steps = tokens.shape
        if list(proposed.shape) != [steps, rows, logits.shape[1]] or proposed.dtype != given.dtype:
            raise ShapeError(
                "ML659",
                f"{what}: the draft's logits must be [steps, batch, tokens] of "
                f"{given.dtype.name}, here [{steps}, {rows}, {logits.shape[1]}], got "
                f"{proposed.type}",
                fix="pass the logits of all steps, one step after the other",
            )
        random = self._given(what, rejection_rand, residual_rand, tokens, proposed)
        every, count = rows * steps, logits.shape[1]
        places = places_of(offsets, rows, steps + 1)
        target = ops.gather(logits, ops.reshape(places[:, :steps], [every]), 0)
        here = ops.stack([steps_of(every, device), ops.reshape(tokens, [every])], axis=-1)
        draft = ops.reshape(ops.permute(proposed, [1, 0, 2]), [every, count])
        draft = ops.scatter_nd(draft, ops.reshape(given, [every]), here)
        p, q = (self._probabilities(what, x, every) for x in (target, draft))
        ratio = ops.gather_nd(p, here) / (ops.gather_nd(q, here) + self.eps)
        uniform = ops.sample_uniform(
            seeds_of(what, seeds, self.seed, rows, device, _APART), steps * 2 + 1
        )
        numbers = uniform[:, :steps] if random is None else random[0]
        keeps = ops.cast(numbers, DType.float64) < ops.cast(
            ops.reshape(ratio, [rows, steps]), DType.float64
        )
        rest = ops.max(p - q, 0.0)
        total = ops.sum(rest, axis=1)
        rest = ops.where(ops.broadcast_to(total > 0, [every, count]), rest, p)
        if random is None:
            chosen = ops.reshape(uniform[:, steps : steps * 2], [every])
            follows = self._drawn(what, ops.log(rest), chosen, every, -1, 1.0)
        else:
            numbers = ops.cast(ops.reshape(random[1], [every, count]), DType.float64)
            race = rest / -ops.log(ops.min(ops.max(numbers, _LEAST), _MOST))
            follows = ops.squeeze(ops.argmax(race, axis=1), 1)
        bonus = self._drawn(
            what,
            ops.gather(logits, places[:, steps], 0),
            uniform[:, steps * 2],
            rows,
            self.top_k,
            self.temperature,
        )
        return accepted(keeps), ops.reshape(follows, [rows, steps]), ops.unsqueeze(bonus, 1)

    def _given(
        self,
        what: str,
        rejection_rand: Any,
        residual_rand: Any,
        tokens: TensorValue,
        proposed: TensorValue,
    ) -> tuple[TensorValue, TensorValue] | None:
        """The uniform numbers that are passed; None without any."""
        if rejection_rand is None and residual_rand is None and not self.debug:
            return None
        if rejection_rand is None or residual_rand is None:
            raise ArgumentError(
                "ML678",
                f"{what}: rejection_rand and residual_rand are passed together, and always with "
                "debug=True",
                fix="pass both, or neither and debug=False",
            )
        kept = require_rank(what, "rejection_rand", rejection_rand, 2)
        drawn = require_rank(what, "residual_rand", residual_rand, 3)
        steps, rows, count = proposed.shape
        for name, x, wanted in (
            ("rejection_rand", kept, [*tokens.shape]),
            ("residual_rand", drawn, [rows, steps, count]),
        ):
            if list(x.shape) != wanted or not x.dtype.is_float():
                raise ShapeError(
                    "ML659",
                    f"{what}: {name} must be floats [{', '.join(map(str, wanted))}], got {x.type}",
                    fix="pass uniform numbers in [0, 1)",
                )
        return kept, drawn

    def _rules(self, what: str, rows: DimLike, top_k: int, temperature: float) -> list[TensorValue]:
        """top_k, temperature, top_p and min_p of each row."""
        return [
            row_integers(what, "top_k", top_k, rows, self.device, -1, SEEDS),
            row_floats(what, "temperature", temperature, rows, self.device),
            row_floats(what, "top_p", 1, rows, self.device),
            row_floats(what, "min_p", 0, rows, self.device),
        ]

    def _probabilities(self, what: str, logits: TensorValue, rows: DimLike) -> TensorValue:
        """The probabilities that tokens are drawn by, [rows, tokens]."""
        k, heat, part, least = self._rules(what, rows, self.top_k, self.temperature)
        return ops.softmax(ops.sample_scores(logits, k, heat, part, least))

    def _drawn(
        self,
        what: str,
        logits: TensorValue,
        uniform: TensorValue,
        rows: DimLike,
        top_k: int,
        temperature: float,
    ) -> TensorValue:
        """A token of each row, int64 [rows]."""
        k, heat, part, least = self._rules(what, rows, top_k, temperature)
        return ops.sample_token(logits, k, heat, part, least, uniform)


__all__ = ["RejectionSamplerWithResiduals"]

"""Draft tokens that are kept where the target draws the same ones."""

from __future__ import annotations

from maxlab.dtype import DType
from maxlab.graph import DeviceRef, TensorValue, TensorValueLike, ops
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


class RejectionSampler(Module):
    """Keeps draft tokens as far as the target model draws the same ones, and no further.

    At each place a token is drawn from the target's distribution. The draft token is kept where it
    is that token, and where its logit is no more than ``eps`` above the target's. The first token
    that is drawn and not kept is the one that follows. So whatever the draft is, tokens have the
    distribution of the target; with ``top_k=1`` they are its most probable ones.

    `RejectionSamplerWithResiduals` keeps more tokens of a draft whose distribution is known.

    Args:
        device: Where it runs.
        top_k: How many of the most probable tokens of the target are drawn from; all below 1.
        top_p: Tokens are drawn from as long as more probable ones have less than this together.
        temperature: What the logits of the target are divided by; 0 takes the most probable token.
        seed: The seed of sequences without one of their own.
        eps: By how much the logit of a draft token may exceed the target's.

    Raises:
        ArgumentTypeError: ML317, ``device`` is no DeviceRef.
        ArgumentError: ML678, a number out of its range (a ValueError).

    Example:
        >>> sampler = RejectionSampler(DeviceRef.CPU(), top_k=5, temperature=0.8)
        >>> sampler.top_k, sampler.eps
        (5, 1e-05)
    """

    def __init__(
        self,
        device: DeviceRef,
        top_k: int = 1,
        top_p: float = 1,
        temperature: float = 1.0,
        seed: int = 0,
        eps: float = 1e-5,
    ) -> None:
        require_settings("RejectionSampler", device, top_k, top_p, temperature, seed, eps)
        self.device = device
        self.top_k, self.top_p, self.temperature = top_k, top_p, temperature
        self.seed, self.eps = seed, eps

    def __call__(
        self,
        draft_tokens: TensorValue,
        draft_logits_for_sampled_tokens: TensorValue,
        target_logits: TensorValue,
        target_logit_offsets: TensorValue,
        seeds: TensorValueLike | None = None,
    ) -> tuple[TensorValue, TensorValue]:
        """How many draft tokens of each sequence are kept, and the token that follows them; both
        int64 [batch, 1].

        Args:
            draft_tokens: Integers [batch, steps].
            draft_logits_for_sampled_tokens: The draft's logits of these tokens, floats
                [batch, steps].
            target_logits: Those of the target, floats [rows, tokens]: for each sequence a row for
                each draft token, and one for the token behind them.
            target_logit_offsets: Where the rows of each sequence begin, integers [batch + 1].
            seeds: A seed of each sequence, integers [batch]. The token at the place n is drawn as
                by ``topk_fused_sampling`` with the seed plus n, so that the tokens are those of
                decoding without a draft. Without seeds each sequence has its own by its number, the
                same in every run.

        Raises:
            ArgumentTypeError: ML317, no tensors.
            ShapeError: ML659, other ranks or sizes (a ValueError).
            DTypeError: ML666, other dtypes (a ValueError).
        """
        what, device = "RejectionSampler", self.device
        tokens, given, logits, offsets = require_draft(
            what, draft_tokens, draft_logits_for_sampled_tokens, target_logits, target_logit_offsets
        )
        rows, steps = tokens.shape
        every = rows * (steps + 1)
        places = places_of(offsets, rows, steps + 1)
        own = seeds_of(what, seeds, self.seed, rows, device)
        numbers = ops.unsqueeze(own, 1) + ops.unsqueeze(
            steps_of(steps + 1, device, DType.uint64), 0
        )
        drawn = ops.sample_token(
            ops.gather(logits, ops.reshape(places, [every]), 0),
            row_integers(what, "top_k", self.top_k, every, device, -1, SEEDS),
            row_floats(what, "temperature", self.temperature, every, device),
            row_floats(what, "top_p", self.top_p, every, device, 1),
            row_floats(what, "min_p", 0, every, device),
            ops.squeeze(ops.sample_uniform(ops.reshape(numbers, [every])), 1),
        )
        drawn = ops.reshape(drawn, [rows, steps + 1])
        told = ops.gather_nd(logits, ops.stack([places[:, :steps], tokens], axis=-1))
        most = ops.cast(told, DType.float64) + self.eps
        near = ops.cast(given, DType.float64) <= most
        count = accepted(ops.logical_and(ops.equal(tokens, drawn[:, :steps]), near))
        column = ops.unsqueeze(count, 1)
        return column, ops.gather_nd(drawn, ops.unsqueeze(column, 1), batch_dims=1)


__all__ = ["RejectionSampler"]

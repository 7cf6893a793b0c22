"""How large the batches of a scheduler may be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from maxlab.pipelines.lib.config import PipelineConfig


BESIDE = {"cpu": 32, "gpu": 512}
"""Tokens of prompts beside next tokens, by the kind of the device, before steps were measured."""
LONGEST_BESIDE = 2.6
"""How many times as long as a step of next tokens a step with tokens of prompts should take. Where
these cost as much beside next tokens as alone, the first token of a prompt comes after P / (P - 1)
times the time that it takes alone, if P is this number: a lower one delays it, a higher one makes
all others pause longer."""


@dataclass(frozen=True)
class Limits:
    """How large the batches of a scheduler may be, for each replica.

    Args:
        batch_size: The most requests of a batch.
        prompts: The most prompts of a batch.
        active: The most requests whose prompt is computed and whose answer is not complete.
        steps: The most steps of a batch without prompts.
        prompt_tokens: Tokens of prompts that a batch takes.
        splits_prompts: Whether a prompt that is longer than what is left of ``prompt_tokens`` is
            computed in parts. Otherwise the last prompt of a batch is taken whole.
        mixes: Whether prompts and next tokens share a batch.
        context_tokens: The most tokens of all requests of a batch together; None without a limit.
        tokens_beside: The most tokens of prompts that a batch takes which has next tokens too, so
            that these come steadily; None for as many as without them.
        longest_beside: How many times as long as a step of next tokens alone such a batch should
            take. Its tokens of prompts are then chosen by the time that steps have taken
            (``pacing.Pace``), as soon as that is known. None leaves it to ``tokens_beside``.
    """

    batch_size: int
    prompts: int
    active: int
    steps: int
    prompt_tokens: int
    splits_prompts: bool
    mixes: bool
    context_tokens: int | None = None
    tokens_beside: int | None = None
    longest_beside: float | None = None

    @classmethod
    def of(cls, config: PipelineConfig) -> Self:
        """The limits that a pipeline's configuration asks for.

        Args:
            config: The configuration, resolved.
        """
        size = config.max_batch_size or 1
        return cls(
            batch_size=size,
            prompts=min(config.max_ce_batch_size, size),
            active=config.max_queue_size_tg or size,
            steps=max(config.max_num_steps, 1),
            prompt_tokens=config.prefill_chunk_size,
            splits_prompts=config.enable_chunked_prefill,
            mixes=config.enable_in_flight_batching,
            context_tokens=config.max_batch_context_length,
            tokens_beside=BESIDE[config.model_config.default_device_spec.device_type],
            longest_beside=LONGEST_BESIDE,
        )


__all__ = ["Limits"]

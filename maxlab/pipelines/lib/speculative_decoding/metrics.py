"""Counts of the tokens that a draft model proposed, and of those that the model kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass
class SpeculativeDecodingMetrics:
    """Counts of speculative decoding since its pipeline was made.

    A round of a request is one run of the model that checks draft tokens. Steps in which the draft
    model proposes nothing are not counted.

    Attributes:
        bonus_tokens_used: Tokens drawn behind draft tokens that were all kept.
        draft_tokens_accepted: Draft tokens that were kept.
        draft_tokens_generated: Draft tokens.
        total_acceptance_lengths: Draft tokens that were kept, summed over all rounds.
        num_generations: Rounds, each request counted by itself.

    Example:
        >>> metrics = SpeculativeDecodingMetrics()
        >>> metrics.update(8, 5, 1, [4, 1])
        >>> print(metrics)
        5 of 8 draft tokens kept (62.5 %), 2.50 a round, and 1 bonus token
    """

    bonus_tokens_used: int = 0
    draft_tokens_accepted: int = 0
    draft_tokens_generated: int = 0
    total_acceptance_lengths: int = 0
    num_generations: int = 0

    def update(
        self,
        draft_tokens_generated: int,
        draft_tokens_accepted: int,
        bonus_tokens_used: int,
        acceptance_lengths: Sequence[int],
    ) -> None:
        """Adds the counts of a batch.

        Args:
            draft_tokens_generated: Draft tokens.
            draft_tokens_accepted: Draft tokens that were kept.
            bonus_tokens_used: Tokens drawn behind draft tokens that were all kept.
            acceptance_lengths: The kept draft tokens of each request.
        """
        self.draft_tokens_generated += draft_tokens_generated
        self.draft_tokens_accepted += draft_tokens_accepted
        self.bonus_tokens_used += bonus_tokens_used
        self.total_acceptance_lengths += sum(acceptance_lengths)
        self.num_generations += len(acceptance_lengths)

    def get_stats(self) -> dict[str, float]:
        """The counts and rates by name; rates are 0 before the first draft token.

        ``acceptance_rate`` is the part of the draft tokens that was kept, in [0, 1], and
        ``avg_acceptance_length`` their number in an average round.
        """
        return {
            "acceptance_rate": self.draft_tokens_accepted / max(self.draft_tokens_generated, 1),
            "bonus_tokens_used": self.bonus_tokens_used,
            "draft_tokens_accepted": self.draft_tokens_accepted,
            "draft_tokens_generated": self.draft_tokens_generated,
            "avg_acceptance_length": self.total_acceptance_lengths / max(self.num_generations, 1),
        }

    def __str__(self) -> str:
        stats = self.get_stats()
        bonus = self.bonus_tokens_used
        return (
            f"{self.draft_tokens_accepted} of {self.draft_tokens_generated} draft tokens kept "
            f"({stats['acceptance_rate']:.1%}), ".replace("%", " %")
            + f"{stats['avg_acceptance_length']:.2f} a round, and {bonus} bonus token"
            + "s" * (bonus != 1)
        )


__all__ = ["SpeculativeDecodingMetrics"]

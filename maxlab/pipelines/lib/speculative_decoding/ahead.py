"""The state of a request as it would be with more tokens, or with fewer of them computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Tokens = npt.NDArray[np.integer[Any]]


class Ahead:
    """A view of the state of a request, with tokens behind its last one that it may never get.

    Models, caches and samplers read it as they read the state itself, which stays as it is.

    Args:
        context: The state of the request, the whole of whose tokens is computed next.
        tokens: Tokens behind its last one.
        start: The number of tokens that are computed; that of the state where it is None.

    Example:
        >>> from maxlab.pipelines.core import TextContext
        >>> context = TextContext(max_length=9, tokens=np.array([5, 6, 7]))
        >>> view = Ahead(context, [8], start=1)
        >>> view.next_tokens.tolist(), view.current_length, context.current_length
        ([6, 7, 8], 4, 3)
    """

    def __init__(
        self, context: Any, tokens: Sequence[int] | Tokens = (), *, start: int | None = None
    ) -> None:
        self._context = context
        self._more = np.asarray(tokens, np.int64).reshape(-1)
        self.start_idx: int = context.start_idx if start is None else start

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    @property
    def active_idx(self) -> int:
        """One past the tokens that are computed next."""
        return int(self._context.active_idx) + len(self._more)

    @property
    def end_idx(self) -> int:
        """One past the last token."""
        return int(self._context.end_idx) + len(self._more)

    @property
    def current_length(self) -> int:
        """The number of tokens."""
        return self.end_idx

    @property
    def active_length(self) -> int:
        """The number of tokens that are computed next."""
        return self.active_idx - self.start_idx

    @property
    def all_tokens(self) -> Tokens:
        """All tokens."""
        return np.concatenate([self._context.all_tokens, self._more])

    @property
    def generated_tokens(self) -> Tokens:
        """The tokens behind the prompt."""
        return np.concatenate([self._context.generated_tokens, self._more])

    @property
    def next_tokens(self) -> Tokens:
        """The tokens that are computed next."""
        return self.all_tokens[self.start_idx : self.active_idx]

    def set_token_indices(self, start_idx: int) -> None:
        """Moves the place at which computing begins, where a cache has the tokens before it.

        Args:
            start_idx: The number of tokens that are computed.
        """
        self.start_idx = start_idx

    def get_min_token_logit_mask(self, num_steps: int) -> list[npt.NDArray[np.int32]]:
        """For each of the next steps, rows (0, token) of the tokens that would end it too early.

        Args:
            num_steps: The number of steps.
        """
        found: list[npt.NDArray[np.int32]] = self._context.get_min_token_logit_mask(
            len(self._more) + num_steps
        )
        return found[len(self._more) :]


__all__ = ["Ahead"]

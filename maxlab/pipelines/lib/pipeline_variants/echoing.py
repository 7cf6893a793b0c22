"""Log probabilities of prompts, which are computed part by part and told with the first token."""

from __future__ import annotations

from collections.abc import Sequence

from maxlab.interfaces import LogProbabilities, RequestID, TextGenerationContext


class Echoes:
    """Keeps the log probabilities of the parts of prompts until the last part is computed."""

    def __init__(self) -> None:
        self._parts: dict[RequestID, list[LogProbabilities]] = {}

    def wants(self, context: TextGenerationContext) -> bool:
        """Whether the tokens that are computed next are of a prompt that is to be told.

        Args:
            context: The state of the request.
        """
        return bool(
            context.log_probabilities
            and context.log_probabilities_echo
            and context.is_initial_prompt
        )

    def joined(
        self,
        batch: Sequence[TextGenerationContext],
        found: Sequence[LogProbabilities | None],
    ) -> list[LogProbabilities | None]:
        """``found``, with the earlier parts of each prompt before its last one.

        Args:
            batch: The states of the requests.
            found: What was computed for each of them now.
        """
        joined: list[LogProbabilities | None] = []
        for context, part in zip(batch, found, strict=True):
            if part is None or not self.wants(context):
                joined.append(part)
                continue
            parts = self._parts.setdefault(context.request_id, [])
            if context.start_idx == 0:  # from the beginning, perhaps anew
                parts.clear()
            parts.append(part)
            if context.active_idx < context.end_idx:
                joined.append(None)
                continue
            del self._parts[context.request_id]
            joined.append(
                LogProbabilities(
                    [one for part in parts for one in part.token_log_probabilities],
                    [one for part in parts for one in part.top_log_probabilities],
                )
            )
        return joined

    def forget(self, request_id: RequestID) -> None:
        """Forgets a request, which is over.

        Args:
            request_id: The request.
        """
        self._parts.pop(request_id, None)


__all__ = ["Echoes"]

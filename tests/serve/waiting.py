"""A pipeline that takes every request and answers none, for processes that start at once."""

from __future__ import annotations

from typing import Any

from tests.pipelines.serving.idle import Idle


class Waiting(Idle):
    """A pipeline that never gets anything done. Its scheduler is to be paused."""

    def require_accepted(self, context: Any) -> None:
        """Takes a request."""

"""The scheduler, which forms batches of requests and runs them."""

from __future__ import annotations

from abc import ABC, abstractmethod


class Scheduler(ABC):
    """Forms batches of the requests that wait, and runs them; extended by each way to do so."""

    @abstractmethod
    def run_iteration(self) -> None:
        """Forms one batch and runs it."""
        raise NotImplementedError

"""Whole answers of a scheduler, and answers part by part, for those who wait for them."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from maxlab import progress
from maxlab.errors import InputError
from maxlab.interfaces import RequestID, TextGenerationOutput
from maxlab.pipelines.lib.scheduler.answers import Asked, failed_request, joined
from maxlab.pipelines.lib.scheduler.pipeline import ScheduledPipeline


class Answering:
    """Takes the steps of a scheduler until the answers to requests are there."""

    pipeline: ScheduledPipeline[Any]

    def __init__(self) -> None:
        self._asked: dict[RequestID, Asked] = {}
        self._goes_on = threading.Event()
        self._goes_on.set()

    @abstractmethod
    def step(self) -> Any:
        """Takes a step."""

    @abstractmethod
    def _add(self, context: Any) -> None:
        """Lets a request arrive."""

    @abstractmethod
    def _end(self, request_ids: Sequence[RequestID]) -> None:
        """Ends requests at once."""

    # ------------------------------------------------------------ whole answers
    def answer(self, contexts: Sequence[Any]) -> list[TextGenerationOutput]:
        """The whole answers to requests, in their order, after as many steps as they take.

        Threads may call it at the same time: their requests share batches. While the scheduler is
        paused it waits. The work can be cancelled as any other of maxlab; its requests are
        cancelled then.

        Args:
            contexts: The states of the requests, each with an id of its own.

        Raises:
            InputError: ML139, ML160 (a ValueError), a request cannot be answered as it asks, or two
                have one id (ML982).
            ExecutionError: ML141 (a RuntimeError), a request ended with an error.
        """
        asked = self._ask(contexts)
        with self._waited_for(asked), progress.working(f"generate {len(asked)} answers"):
            while left := sum(not one.is_done for one in asked.values()):
                progress.step("generating", len(asked) - left, len(asked))
                self._go_on(asked)
        return [joined(request_id, one.parts) for request_id, one in asked.items()]

    def stream(self, context: Any) -> Iterator[TextGenerationOutput]:
        """The parts of the answer to a request, each as soon as a step gives it.

        Whoever asks for the next part takes the steps, which other requests share; while the
        scheduler is paused it waits for `resume`, or for the steps of others. Where the iterator is
        closed before its end, the request is cancelled.

        Args:
            context: The state of the request.

        Raises:
            InputError: ML139, ML160 (a ValueError), the request cannot be answered as it asks.
            ExecutionError: ML141 (a RuntimeError), the request ended with an error.
        """
        asked = self._ask([context])
        (one,) = asked.values()
        return self._parts(asked, one)

    def _parts(self, asked: dict[RequestID, Asked], one: Asked) -> Iterator[TextGenerationOutput]:
        given = 0
        with self._waited_for(asked):
            while not one.is_done or given < len(one.parts):
                if given < len(one.parts):
                    given += 1
                    yield one.parts[given - 1]
                else:
                    progress.check()
                    self._go_on(asked)

    def _ask(self, contexts: Sequence[Any]) -> dict[RequestID, Asked]:
        """Adds requests whose answers somebody waits for."""
        asked = {context.request_id: Asked() for context in contexts}
        if len(asked) < len(contexts):
            raise InputError(
                "ML982",
                "two requests have one id",
                fix="make each context with a RequestID of its own",
            )
        for context in contexts:
            self.pipeline.require_accepted(context)
        self._asked |= asked
        for context in contexts:
            self._add(context)
        return asked

    def _go_on(self, asked: dict[RequestID, Asked]) -> None:
        """Takes a step, or waits a moment while the scheduler is paused."""
        if self._goes_on.wait(progress.PERIOD_S):
            self.step()
        for request_id, one in asked.items():
            if one.error is not None:
                raise failed_request(request_id, one.error)

    @contextmanager
    def _waited_for(self, asked: dict[RequestID, Asked]) -> Iterator[None]:
        """Calls off the requests whose answers are not complete at the end of the block."""
        try:
            yield
        except BaseException:
            self._end([request_id for request_id, one in asked.items() if not one.is_done])
            raise
        finally:
            for request_id in asked:
                self._asked.pop(request_id, None)

    def _collect(self, done: Any) -> None:
        """Hands the results of a step to those who wait for whole answers."""
        for request_id, result in done.results.items():
            asked = self._asked.get(request_id)
            if asked is not None:
                asked.error = done.errors.get(request_id)
                if result.result is not None:
                    asked.parts.append(result.result)
                asked.is_done = result.is_done


__all__ = ["Answering"]

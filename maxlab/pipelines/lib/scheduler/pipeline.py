"""The pipeline that a scheduler runs batches with, as a protocol."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from maxlab.interfaces import (
    RequestID,
    TextGenerationContext,
    TextGenerationInputs,
    TextGenerationOutput,
)

if TYPE_CHECKING:
    from maxlab.pipelines.lib.config import PipelineConfig
    from maxlab.pipelines.lib.lora import LoRAManager

Context = TypeVar("Context", bound=TextGenerationContext)


class ScheduledPipeline(Protocol[Context]):
    """A pipeline of text that a scheduler can run, such as a `TextGenerationPipeline`."""

    @property
    def pipeline_config(self) -> PipelineConfig:
        """The configuration, resolved."""

    @property
    def tokenizer(self) -> Any:
        """The tokenizer, which makes the states of requests; the scheduler does not ask for it."""

    @property
    def kv_managers(self) -> Sequence[Any]:
        """The managers of its caches of keys and values, the target's first; none without one."""

    def require_accepted(self, context: Context) -> None:
        """Raises unless the pipeline can answer a request as it asks.

        Args:
            context: The state of the request.
        """

    def require_adapter(self, context: Context) -> None:
        """Raises unless the adapter that a request names is loaded.

        Args:
            context: The state of the request.
        """

    @property
    def lora_manager(self) -> LoRAManager | None:
        """The manager of its model's adapters; None where it takes none."""

    def adapters_kept(self) -> AbstractContextManager[None]:
        """A block in which adapters stay that another thread unloads."""

    def fits_together(self, batch: Sequence[Context]) -> bool:
        """Whether requests can be computed in one batch.

        Args:
            batch: The states of the requests.
        """

    def jump_ahead(self, context: Context) -> None:
        """Adds the tokens that the grammar of a request leaves no choice of, if it has one.

        Args:
            context: The state of the request.
        """

    def steps_for(self, batch: Sequence[Context], num_steps: int) -> int:
        """The number of steps that a batch can take, at most ``num_steps``.

        Args:
            batch: The states of the requests.
            num_steps: The number of steps that is wanted.
        """

    def execute(
        self, inputs: TextGenerationInputs[Context]
    ) -> dict[RequestID, TextGenerationOutput]:
        """The tokens that each request of a batch gets next; the states are brought up to date.

        Args:
            inputs: The batch.
        """

    def release(self, request_id: RequestID) -> None:
        """Gives back the pages of a request, which is over, and what else is kept for it.

        Args:
            request_id: The request.
        """

    def forget(self, request_id: RequestID) -> None:
        """Forgets what is kept for a request beside its pages.

        Args:
            request_id: The request.
        """


__all__ = ["ScheduledPipeline"]

"""The part of a pipeline of text that lets answers follow JSON schemas."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from maxlab.errors import InputError
from maxlab.interfaces import TextGenerationContext
from maxlab.pipelines.lib.pipeline_variants.accepting import vocab_size
from maxlab.pipelines.lib.pipeline_variants.grammars import Bitmask, Grammars

if TYPE_CHECKING:
    from maxlab.pipelines.lib.config import PipelineConfig

TextGenerationContextType = TypeVar("TextGenerationContextType", bound=TextGenerationContext)


class FollowsSchemas(Generic[TextGenerationContextType]):
    """A base of `TextGenerationPipeline`: the masks of tokens that schemas allow."""

    _grammars: Grammars | None

    @abstractmethod
    def require_accepted(self, context: TextGenerationContextType) -> None:
        """Raises unless the pipeline can answer a request as it asks.

        Args:
            context: The state of the request.

        Raises:
            NotImplementedError: The class that extends this one calls it.
        """
        raise NotImplementedError

    def initialize_bitmask(self, batch: list[TextGenerationContextType]) -> Bitmask | None:
        """A mask of the tokens that may follow, with all bits set: int32 of shape
        [requests, vocabulary / 32], a bit for each token, the lowest first.

        Args:
            batch: The states of the requests.

        Returns:
            None where no request has a JSON schema, or structured output is not enabled.
        """
        if self._grammars is None or all(one.json_schema is None for one in batch):
            return None
        return self._grammars.bitmask(len(batch))

    def update_for_structured_output(
        self, context: TextGenerationContextType, bitmask: Bitmask, index: int
    ) -> None:
        """Lets a request with a JSON schema follow it.

        The request gets a matcher, if it has none yet; tokens that the schema leaves no choice of
        are added to it; and its row of the mask says which tokens may follow.

        Args:
            context: The state of the request.
            bitmask: The mask of the batch, which is written to.
            index: The row of the request.

        Raises:
            InputError: ML139 (a ValueError), the request has a schema, and structured output is not
                enabled.
        """
        if context.json_schema is None:
            return
        self.jump_ahead(context)
        if self._grammars is not None:
            self._grammars.fill(context, bitmask, index)

    def jump_ahead(self, context: TextGenerationContextType) -> None:
        """Adds the tokens that the JSON schema of a request leaves no choice of, if it has one.

        A scheduler calls it before it reserves pages, which the added tokens need too.

        Args:
            context: The state of the request.

        Raises:
            InputError: ML139 (a ValueError), the request has a schema, and structured output is not
                enabled.
        """
        if context.json_schema is None:
            return
        self.require_accepted(context)
        if self._grammars is not None:
            self._grammars.begin(context)
            self._grammars.jump(context)


def grammars_of(config: PipelineConfig, tokenizer: Any, eos_token_ids: set[int]) -> Grammars | None:
    """The grammars of a pipeline; None where structured output is not enabled.

    Args:
        config: The configuration of the pipeline.
        tokenizer: Its tokenizer.
        eos_token_ids: The tokens that end a sequence.

    Raises:
        InputError: ML140 (a ValueError), the tokenizer or the configuration of the checkpoint does
            not say what a grammar needs.
        MissingPackageError: ML979, llguidance is not installed.
    """
    if not config.sampling_config.enable_structured_output:
        return None
    words = vocab_size(config.model_config.huggingface_config)
    if words is None:
        raise InputError(
            "ML140",
            "structured output needs the size of the model's vocabulary, and config.json has no "
            "vocab_size",
            fix="add it, or leave enable_structured_output at False",
        )
    return Grammars(getattr(tokenizer, "delegate", None), words, eos_token_ids)


__all__ = ["FollowsSchemas", "grammars_of"]

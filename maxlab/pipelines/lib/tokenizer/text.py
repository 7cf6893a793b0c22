"""The tokenizer of models that read and write text."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from maxlab.errors import InputError
from maxlab.interfaces import TextGenerationRequest, fields
from maxlab.interfaces.text import TextGenerationRequestMessage, TextGenerationRequestTool
from maxlab.pipelines.core import TextContext
from maxlab.pipelines.lib.tokenizer.base import PretrainedTokenizer, json_schema
from maxlab.pipelines.lib.tokenizer.messages import as_text
from maxlab.pipelines.lib.tokenizer.running import run_with_default_executor

if TYPE_CHECKING:
    from maxlab.pipelines.lib.config import PipelineConfig


class TextTokenizer(PretrainedTokenizer):
    """Makes tokens of texts, texts of tokens, and contexts of requests for text.

    Args:
        model_path: A folder with the files of a tokenizer, or the name of a repository.
        revision: A branch, tag or commit of the repository.
        max_length: The largest number of tokens, the prompt's included; without it the one of the
            configuration, then that of the tokenizer.
        trust_remote_code: Whether code of the folder or repository may run.
        enable_llama_whitespace_fix: Whether the space at the beginning of a single token is kept,
            which tokenizers such as Llama 2's drop when they decode it alone.
        pipeline_config: The pipeline's configuration, which says what is not given here.
        chat_template: A template to use instead of the model's own: its text; JSON with it under
            ``chat_template``; or the path of a file with either.
        context_validators: Functions that raise for a context that the model does not take.
        **unused_kwargs: Arguments for other tokenizers; a line of the log names them.

    Raises:
        InputTypeError, InputError: An argument of another type, or out of its range.
        FileError: ML112, nothing is there; ML152, a file of the tokenizer is wrong.
        MissingFileError: ML151, the folder has no tokenizer.
        UnsupportedError: ML153, it needs code of its own, and that is not trusted.
        ParseError: ML155, ``chat_template`` is none.
        MissingPackageError: ML979, transformers is not installed.
    """

    def __init__(
        self,
        model_path: str,
        *,
        revision: str | None = None,
        max_length: int | None = None,
        trust_remote_code: bool = False,
        enable_llama_whitespace_fix: bool = False,
        pipeline_config: PipelineConfig | None = None,
        chat_template: str | os.PathLike[str] | None = None,
        context_validators: list[Callable[[TextContext], None]] | None = None,
        **unused_kwargs: Any,
    ) -> None:
        fields.flag("enable_llama_whitespace_fix", enable_llama_whitespace_fix)
        super().__init__(
            model_path,
            revision=revision,
            max_length=max_length,
            trust_remote_code=trust_remote_code,
            pipeline_config=pipeline_config,
            chat_template=chat_template,
            context_validators=context_validators,
            unused=unused_kwargs,
        )
        self._before = self._encode("a", False) if enable_llama_whitespace_fix else []

    @property
    def expects_content_wrapping(self) -> bool:
        """False: a part of a message has its text under ``"text"``."""
        return False

    def apply_chat_template(
        self,
        messages: list[TextGenerationRequestMessage],
        tools: list[TextGenerationRequestTool] | None,
        chat_template_options: dict[str, Any] | None = None,
    ) -> str:
        """The prompt that the chat template makes of a conversation.

        The texts of a message's parts are joined, a line each.

        Args:
            messages: The conversation.
            tools: The tools that the model may use.
            chat_template_options: Values that the template reads; ``add_generation_prompt`` is True
                unless it is among them.

        Raises:
            InputError: ML154, the model has no template; ML156 to ML158, the template failed, or
                did what it must not; ML159, a message that it cannot take.
            ParseError: ML155, it is no template.
        """
        return self.chat_template(tools).render(
            as_text(messages), tools, chat_template_options, self._special_tokens()
        )

    def _special_tokens(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.delegate.special_tokens_map
        return {
            name: [str(one) for one in value] if isinstance(value, (list, tuple)) else str(value)
            for name, value in found.items()
        }

    def _decode(self, ids: list[int], options: dict[str, Any]) -> str:
        """The text of tokens; of a single one with the space that it begins with, if asked."""
        if len(ids) != 1 or not self._before:
            return super()._decode(ids, options)
        before = super()._decode(self._before, options)
        return super()._decode([*self._before, *ids], options)[len(before) :]

    async def prompt_of(self, request: TextGenerationRequest) -> tuple[str | Sequence[int], bool]:
        """The prompt of a request, and whether special tokens are added to it.

        A chat template writes the special tokens itself: they are not added a second time.

        Args:
            request: The request.

        Raises:
            InputError: ML154 to ML159, as by `apply_chat_template`; neither a prompt nor messages,
                or images.
        """
        self._refuse_without_messages(request)
        if request.images:
            raise InputError(
                "ML159",
                f"request {request.request_id} has images, and TextTokenizer takes none",
                fix="use TextAndVisionTokenizer with a model that sees",
            )
        if request.messages is None:
            assert request.prompt is not None
            return request.prompt, True
        text = await run_with_default_executor(
            self.apply_chat_template,
            request.messages,
            request.tools,
            request.chat_template_options,
        )
        return text, False

    async def new_context(self, request: TextGenerationRequest) -> TextContext:
        """The context of a request: its prompt as tokens, and when its generation ends.

        Args:
            request: The request.

        Raises:
            InputError: ML154 to ML159, as by `apply_chat_template`; ML160, the prompt is too long;
                ML161, an unknown ``response_format``; what `TextContext` and the validators raise.
        """
        prompt, special = await self.prompt_of(request)
        tokens = await self.encode(prompt, special)
        context = TextContext(
            request_id=request.request_id,
            max_length=self._limit(len(tokens), request.sampling_params),
            tokens=tokens,
            eos_token_ids=self.eos_token_ids,
            eos_sequences=await self._stop_sequences(request),
            log_probabilities=request.logprobs,
            log_probabilities_echo=request.echo,
            ignore_eos=request.sampling_params.ignore_eos,
            json_schema=json_schema(request),
            sampling_params=request.sampling_params,
            model_name=request.model_name,
            target_endpoint=request.target_endpoint,
        )
        for validator in self.context_validators:
            validator(context)
        return context


__all__ = ["TextTokenizer"]

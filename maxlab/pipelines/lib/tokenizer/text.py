"""The tokenizer of models that read and write text."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from maxlab.errors import InputError
from maxlab.interfaces import RequestID, TextGenerationRequest, fields
from maxlab.interfaces.text import TextGenerationRequestMessage, TextGenerationRequestTool
from maxlab.pipelines.core import TextContext
from maxlab.pipelines.lib.tokenizer.base import PretrainedTokenizer, json_schema, params_of
from maxlab.pipelines.lib.tokenizer.explaining import PromptExplanation, explain
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

    def _decode(self, ids: list[int], options: dict[str, Any]) -> str:
        """The text of tokens; of a single one with the space that it begins with, if asked."""
        if len(ids) != 1 or not self._before:
            return super()._decode(ids, options)
        before = super()._decode(self._before, options)
        return super()._decode([*self._before, *ids], options)[len(before) :]

    def explain(
        self,
        request: TextGenerationRequest | Sequence[TextGenerationRequestMessage] | str,
        tools: list[TextGenerationRequestTool] | None = None,
        chat_template_options: dict[str, Any] | None = None,
    ) -> PromptExplanation:
        """The way of a request to its tokens: which template, which prompt, and what is odd.

        Nothing is refused for being too long; a warning says so.

        Args:
            request: A request, the messages of a conversation, or a prompt.
            tools: The tools of a conversation.
            chat_template_options: The options of a conversation's template.

        Raises:
            InputError, ParseError: ML154 to ML159, as by `apply_chat_template`.
            InputTypeError: ML980, ``request`` is none of the three.
        """
        given = self._as_request(request, tools, chat_template_options)
        self._refuse_what_is_not_read(given)
        if given.messages is None:
            prompt = given.prompt
            ids = self._encode(prompt, True) if isinstance(prompt, str) else list(prompt or ())
            template = None
        else:
            template = self.chat_template(given.tools)
            prompt = self.apply_chat_template(
                given.messages, given.tools, given.chat_template_options
            )
            ids = self._encode(prompt, False)
        return explain(
            self.delegate,
            [int(one) for one in ids],
            prompt=prompt if isinstance(prompt, str) else "",
            template=template,
            messages=given.messages or (),
            tools=given.tools,
            options=given.chat_template_options or (),
            max_length=self.max_length,
        )

    def _as_request(
        self, request: Any, tools: Any, options: dict[str, Any] | None
    ) -> TextGenerationRequest:
        if isinstance(request, TextGenerationRequest):
            if tools is not None or options is not None:
                raise fields.contradiction(
                    "explain() has a request, and tools or chat_template_options beside it",
                    "put them into the request",
                )
            return request
        if isinstance(request, str):
            given: dict[str, Any] = {"prompt": request}
        elif isinstance(request, (list, tuple)):
            given = {"messages": list(request)}
        else:
            raise fields.wrong_type("request", request, "a request, messages or a prompt")
        return TextGenerationRequest(
            RequestID("explained"),
            self.model_path,
            tools=tools,
            chat_template_options=options,
            **given,
        )

    def _refuse_what_is_not_read(self, request: TextGenerationRequest) -> None:
        """Raises for a request that has what no text model reads.

        Raises:
            InputError: ML159, it has images, neither a prompt nor messages, or what only messages
                can use.
        """
        self._refuse_without_messages(request)
        if request.images:
            raise InputError(
                "ML159",
                f"request {request.request_id} has images, and TextTokenizer takes none",
                fix="use TextAndVisionTokenizer with a model that sees",
            )

    async def prompt_of(self, request: TextGenerationRequest) -> tuple[str | Sequence[int], bool]:
        """The prompt of a request, and whether special tokens are added to it.

        A chat template writes the special tokens itself: they are not added a second time.

        Args:
            request: The request.

        Raises:
            InputError: ML154 to ML159, as by `apply_chat_template`; neither a prompt nor messages,
                or images.
        """
        self._refuse_what_is_not_read(request)
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
            sampling_params=params_of(request),
            model_name=request.model_name,
            target_endpoint=request.target_endpoint,
        )
        for validator in self.context_validators:
            validator(context)
        return context


__all__ = ["TextTokenizer"]

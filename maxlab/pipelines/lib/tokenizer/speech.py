"""The tokenizer of models that speak."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from maxlab.errors import InputError
from maxlab.interfaces import AudioGenerationRequest, fields
from maxlab.pipelines.core import TTSContext
from maxlab.pipelines.lib.tokenizer.base import PretrainedTokenizer
from maxlab.pipelines.lib.tokenizer.running import run_with_default_executor

if TYPE_CHECKING:
    from maxlab.pipelines.lib.config import PipelineConfig

_SPEECH = fields.listed(fields.integer(0, fields.INT32))


class SpeechTokenizer(PretrainedTokenizer):
    """Makes contexts of requests for speech, with the tokens of the text that is to be spoken.

    The text of a request is that of the voice prompt, then ``input``. A model with a chat template
    gets it as the message of a user; the answer of the assistant, which the model goes on with,
    begins with what `assistant_message` gives. A model without one gets the text alone. A
    ``prompt`` goes to the model as it is, in place of all that.

    A model that reads the tokens of the voice prompt as words of its vocabulary has a tokenizer
    that extends this one, with an `assistant_message` of its own. Here they go to the decoder only.

    Args:
        model_path: A folder with the files of a tokenizer, or the name of a repository.
        revision: A branch, tag or commit of the repository.
        max_length: The largest number of tokens, the prompt's included; without it the one of the
            configuration, then that of the tokenizer.
        trust_remote_code: Whether code of the folder or repository may run.
        pipeline_config: The pipeline's configuration, which says what is not given here.
        chat_template: A template to use instead of the model's own: its text; JSON with it under
            ``chat_template``; or the path of a file with either.
        context_validators: Functions that raise for a context that the model does not take.
        **unused_kwargs: Arguments for other tokenizers; a line of the log names them.

    Raises:
        InputTypeError, InputError, FileError: As by `TextTokenizer`.
    """

    def __init__(
        self,
        model_path: str,
        *,
        revision: str | None = None,
        max_length: int | None = None,
        trust_remote_code: bool = False,
        pipeline_config: PipelineConfig | None = None,
        chat_template: str | os.PathLike[str] | None = None,
        context_validators: list[Callable[[TTSContext], None]] | None = None,
        **unused_kwargs: Any,
    ) -> None:
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

    @property
    def expects_content_wrapping(self) -> bool:
        """False: a message is a text."""
        return False

    def assistant_message(self, request: AudioGenerationRequest) -> str:
        """The text that the answer begins with: that of the request, or none.

        Args:
            request: The request.
        """
        return request.assistant_message or ""

    def prompt_of(self, request: AudioGenerationRequest) -> tuple[str | Sequence[int], bool]:
        """The prompt of a request, and whether special tokens are added to it.

        Args:
            request: The request.

        Raises:
            InputError: ML159 (a ValueError), it has neither a prompt nor ``input``; or the answer
                begins with a text, and the model has no chat template to put it into; ML156 to
                ML158, the template failed.
            ParseError: ML155, the template is none.
        """
        if request.prompt is not None:
            return request.prompt, True
        if request.input is None:
            raise InputError(
                "ML159",
                f"request {request.request_id}: a prompt or input expected ≠ neither given",
                fix="give input, the text that is to be spoken",
            )
        text = " ".join(filter(None, (request.audio_prompt_transcription, request.input)))
        answer = self.assistant_message(request)
        try:
            template = self.chat_template()
        except InputError as error:
            if error.code != "ML154":
                raise
            if answer:
                raise InputError(
                    "ML159",
                    f"request {request.request_id} has the beginning of an answer, and the model "
                    "has no chat template to put it into",
                    fix="give the whole text as the prompt of the request",
                ) from error
            return text, True
        messages = [{"role": "user", "content": text}]
        return template.render(messages, special_tokens=self._special_tokens()) + answer, False

    async def new_context(self, request: AudioGenerationRequest) -> TTSContext:
        """The context of a request: the tokens of its text, its voice, and when it ends.

        Args:
            request: The request.

        Raises:
            InputError: ML154 to ML159, as by `prompt_of`; ML160, the prompt is too long; what
                `TTSContext` and the validators raise.
        """
        _SPEECH("audio_prompt_tokens", request.audio_prompt_tokens)
        prompt, special = await run_with_default_executor(self.prompt_of, request)
        tokens = await self.encode(prompt, special)
        params = request.sampling_params
        context = TTSContext(
            request_id=request.request_id,
            max_length=self._limit(len(tokens), params),
            tokens=tokens,
            eos_token_ids=self.eos_token_ids,
            eos_sequences=await self._sequences_of(list(params.stop or ())),
            ignore_eos=params.ignore_eos,
            sampling_params=params,
            model_name=request.model,
            audio_prompt_tokens=np.array(request.audio_prompt_tokens, np.int32),
            buffer_speech_tokens=request.buffer_speech_tokens,
            streaming=request.streaming,
        )
        for validator in self.context_validators:
            validator(context)
        return context


__all__ = ["SpeechTokenizer"]

"""The tokenizer of models that see images and write text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from maxlab.errors import InputError, MaxlabError, shown
from maxlab.interfaces import TextGenerationRequest
from maxlab.interfaces.text import TextGenerationRequestMessage, TextGenerationRequestTool
from maxlab.pipelines.core import TextAndVisionContext
from maxlab.pipelines.lib.tokenizer import images, loading
from maxlab.pipelines.lib.tokenizer.base import PretrainedTokenizer, Tokens, json_schema, params_of
from maxlab.pipelines.lib.tokenizer.messages import as_parts
from maxlab.pipelines.lib.tokenizer.running import run_with_default_executor

if TYPE_CHECKING:
    from maxlab.pipelines.lib.config import PipelineConfig

_TOKEN_NAMES = ("image_token_id", "image_token_index", "image_break_token_id", "image_end_token_id")


class TextAndVisionTokenizer(PretrainedTokenizer):
    """Makes tokens of texts and images, texts of tokens, and contexts of requests with images.

    Images become pixels by the processor of transformers that comes with the model, which needs
    Pillow and, for some models, PyTorch.

    Args:
        model_path: A folder with the files of a processor, or the name of a repository.
        revision: A branch, tag or commit of the repository.
        max_length: The largest number of tokens, the prompt's and those of images included.
        trust_remote_code: Whether code of the folder or repository may run.
        pipeline_config: The pipeline's configuration, which says what is not given here.
        context_validators: Functions that raise for a context that the model does not take.
        **unused_kwargs: Arguments for other tokenizers; a line of the log names them.

    Raises:
        InputTypeError, InputError: An argument of another type, or out of its range.
        FileError: ML112, nothing is there; ML152, a file of the tokenizer is wrong.
        MissingFileError: ML151, the folder has no tokenizer.
        UnsupportedError: ML153, it needs code of its own, and that is not trusted.
        MissingPackageError: ML979, a package is not installed.
    """

    def __init__(
        self,
        model_path: str,
        *,
        revision: str | None = None,
        max_length: int | None = None,
        trust_remote_code: bool = False,
        pipeline_config: PipelineConfig | None = None,
        context_validators: list[Callable[[TextAndVisionContext], None]] | None = None,
        **unused_kwargs: Any,
    ) -> None:
        self.processor: Any = None
        super().__init__(
            model_path,
            revision=revision,
            max_length=max_length,
            trust_remote_code=trust_remote_code,
            pipeline_config=pipeline_config,
            chat_template=None,
            context_validators=context_validators,
            unused=unused_kwargs,
        )
        self.vision_token_ids = self._vision_tokens()

    def _load(self) -> Any:
        """The tokenizer of the model's processor."""
        repo = self._repo
        given = (repo.repo_id, repo.revision, repo.trust_remote_code)
        self.processor = loading.load("AutoProcessor", *given)
        # Without a processor of its own a model gets its tokenizer from transformers here.
        return getattr(self.processor, "tokenizer", self.processor)

    def _templated(self) -> Any:
        """The processor, where the template is its own."""
        own = getattr(self.processor, "chat_template", None)
        return self.processor if own else self.delegate

    def _vision_tokens(self) -> list[int]:
        """The tokens that stand for parts of images."""
        config = getattr(self._model_config, "huggingface_config", None)
        found: set[int] = set()
        for name in _TOKEN_NAMES:
            for source in (self.processor, config):
                found |= loading.as_ids(getattr(source, name, None))
        for name in ("image_token", "image_break_token", "image_end_token"):
            text = getattr(self.processor, name, None)
            if isinstance(text, str):
                token = self.delegate.convert_tokens_to_ids(text)
                found |= set() if token is None else {int(token)}
        return sorted(found)

    @property
    def expects_content_wrapping(self) -> bool:
        """True: the text of a part may stand under ``"content"``, and images are parts."""
        return True

    def apply_chat_template(
        self,
        messages: list[TextGenerationRequestMessage],
        tools: list[TextGenerationRequestTool] | None = None,
        chat_template_options: dict[str, Any] | None = None,
    ) -> str:
        """The prompt that the chat template makes of a conversation.

        Args:
            messages: The conversation; a part that is an image is ``{"type": "image"}``.
            tools: The tools that the model may use.
            chat_template_options: Values that the template reads.

        Raises:
            InputError, ParseError: ML154 to ML159, as by `TextTokenizer.apply_chat_template`.
        """
        parts, _ = as_parts(messages)
        return self.chat_template(tools).render(
            parts, tools, chat_template_options, self._special_tokens()
        )

    async def new_context(self, request: TextGenerationRequest) -> TextAndVisionContext:
        """The context of a request: its prompt as tokens, its images, and when it ends.

        Args:
            request: The request; ``images`` has the bytes of the images in the order of the parts.

        Raises:
            InputError: ML154 to ML161, as by `TextTokenizer.new_context`; ML162, an image that
                cannot be read, or whose tokens are not found; what the context and the validators
                raise.
            MissingPackageError: ML979, Pillow is not installed.
        """
        self._refuse_without_messages(request)
        prompt: Any = request.prompt
        if request.messages is not None:
            self._require_images(request)
            prompt = await run_with_default_executor(
                self.apply_chat_template,
                request.messages,
                request.tools,
                request.chat_template_options,
            )
        special = request.messages is None
        seen, others = [], {}
        if request.images:
            output = await run_with_default_executor(self._process, request, prompt, special)
            tokens: Tokens = self._fitting(np.asarray(output["input_ids"], np.int64).reshape(-1))
            pixels = images.pixels_of(output, len(request.images))
            others = images.others_of(output)
            seen = images.described(
                tokens.tolist(), self.vision_token_ids, pixels, others, self._token_counts(others)
            )
        else:
            tokens = await self.encode(prompt, special)
        return await self._context(request, tokens, seen, others)

    def _token_counts(self, others: Mapping[str, npt.NDArray[Any]]) -> list[int] | None:
        """The number of tokens of each image, where what the processor tells besides says it."""
        del others
        return None

    async def _context(
        self,
        request: TextGenerationRequest,
        tokens: Tokens,
        seen: list[Any],
        others: dict[str, npt.NDArray[Any]],
    ) -> TextAndVisionContext:
        """The context of a request whose prompt and images are known, checked by validators."""
        context = TextAndVisionContext(
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
            vision_token_ids=self.vision_token_ids,
            images=seen,
            extra_model_args=others,
        )
        for validator in self.context_validators:
            validator(context)
        return context

    def _require_images(self, request: TextGenerationRequest) -> None:
        """Raises unless a request has the bytes of each image that its messages name.

        Raises:
            InputError: ML162, there are more or fewer.
        """
        _, named = as_parts(request.messages or [])
        given = len(request.images or ())
        if named != given:
            raise InputError(
                "ML162",
                f"request {request.request_id}: the bytes of {named} images, which its messages "
                f"have as parts, expected ≠ {given} given",
                fix="give the bytes of each image in images, in the order of the parts",
            )

    def _process(
        self, request: TextGenerationRequest, prompt: Any, special: bool
    ) -> Mapping[str, Any]:
        """The output of the model's processor for a prompt and the request's images.

        Raises:
            InputError: ML162, an image cannot be read, or the processor fails.
        """
        if not isinstance(prompt, str):
            raise InputError(
                "ML162",
                f"request {request.request_id}: a text beside images expected ≠ "
                f"{shown(prompt)} given",
            )
        pictures = [
            images.open_image(data, f"request {request.request_id}: images[{n}]")
            for n, data in enumerate(request.images or ())
        ]
        try:
            found: Mapping[str, Any] = self.processor(
                text=prompt, images=pictures, add_special_tokens=special, return_tensors="np"
            )
        except MaxlabError:
            raise
        except Exception as error:  # processors raise many kinds for many faults
            raise InputError(
                "ML162",
                f"request {request.request_id}: the processor of {self.model_path} cannot take the "
                f"prompt with its images: {type(error).__name__}: {shown(str(error), 200)[1:-1]}",
            ) from error
        if "input_ids" not in found or "pixel_values" not in found:
            raise InputError(
                "ML162",
                f"the processor of {self.model_path}: input_ids and pixel_values expected ≠ "
                f"{shown(sorted(found))} given",
                fix="use a model that sees, or TextTokenizer without images",
            )
        return found


__all__ = ["TextAndVisionTokenizer"]

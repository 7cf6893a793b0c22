"""The common part of tokenizers of texts and of images: that of transformers, and its limits."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from maxlab.errors import InputError, InputTypeError, shown
from maxlab.interfaces import (
    SamplingParams,
    SamplingParamsGenerationConfigDefaults,
    SamplingParamsInput,
    TextGenerationRequest,
    fields,
)
from maxlab.pipelines.lib.hf_utils import HuggingFaceRepo
from maxlab.pipelines.lib.model_files import sampling_defaults_of
from maxlab.pipelines.lib.tokenizer import loading, templates
from maxlab.pipelines.lib.tokenizer.running import max_tokens_to_generate, run_with_default_executor
from maxlab.pipelines.lib.tokenizer.streaming import IncrementalDecoder

if TYPE_CHECKING:
    from maxlab.pipelines.lib.config import PipelineConfig

Tokens = npt.NDArray[np.integer[Any]]
_LOG = logging.getLogger(__name__)
_TOKENS = fields.listed(fields.integer(0, fields.INT32), kinds=(Sequence, np.ndarray))
_NO_LENGTH = 2**31
"""A tokenizer's ``model_max_length`` from here on says that it does not know."""


class PretrainedTokenizer:
    """The tokenizer of a model with its limits, its stop tokens, and its chat template.

    Args:
        model_path: A folder, or the name of a repository.
        revision: A branch, tag or commit of the repository.
        max_length: The largest number of tokens, the prompt's included.
        trust_remote_code: Whether code of the folder or repository may run.
        pipeline_config: The pipeline's configuration, for what is not given here.
        chat_template: A template to use instead of the model's own.
        context_validators: Functions that raise for a context that the model does not take.
        unused: Arguments that are for other tokenizers; a line of the log names them.
    """

    def __init__(
        self,
        model_path: str,
        *,
        revision: str | None,
        max_length: int | None,
        trust_remote_code: bool,
        pipeline_config: PipelineConfig | None,
        chat_template: Any,
        context_validators: Any,
        unused: dict[str, Any],
    ) -> None:
        fields.word("model_path", model_path)
        fields.optional(fields.word)("revision", revision)
        fields.optional(fields.integer(1))("max_length", max_length)
        fields.flag("trust_remote_code", trust_remote_code)
        if unused:
            _LOG.info("%s does not use %s", type(self).__name__, ", ".join(sorted(unused)))
        self.model_path = model_path
        self._repo = HuggingFaceRepo(
            repo_id=model_path, revision=revision or "main", trust_remote_code=trust_remote_code
        )
        self.context_validators = list(context_validators or ())
        self.delegate = self._load()
        self.delegate.encode("")  # settles truncation and padding before threads share it
        self._config = pipeline_config
        # A configuration of one's own may lack what is not asked for here.
        self._model_config = getattr(pipeline_config, "model_config", None)
        configured = getattr(pipeline_config, "max_length", None)
        if max_length is None and isinstance(configured, int):
            max_length = configured
        if max_length is None and self.delegate.model_max_length < _NO_LENGTH:
            max_length = int(self.delegate.model_max_length)
        self.max_length = max_length
        self._eos_ids = self._ends()
        self._template = self._own_template(chat_template)

    def _load(self) -> Any:
        """The tokenizer of transformers."""
        repo = self._repo
        return loading.load("AutoTokenizer", repo.repo_id, repo.revision, repo.trust_remote_code)

    def _ends(self) -> frozenset[int]:
        """The tokens that end a sequence, by the tokenizer and by the model's configurations."""
        found = loading.eos_token_ids(self._repo) | loading.as_ids(self.delegate.eos_token_id)
        for name in ("huggingface_config", "generation_config"):
            of_model = getattr(self._model_config, name, None)
            found |= loading.as_ids(getattr(of_model, "eos_token_id", None))
        return frozenset(found)

    def _own_template(self, given: Any) -> templates.ChatTemplate | None:
        """The template that goes before the model's own, if there is one."""
        retrieve = getattr(self._config, "retrieve_chat_template", None)
        configured = retrieve() if callable(retrieve) else None
        if given is not None and given != configured:
            return templates.custom(given, "the argument chat_template")
        if not isinstance(configured, str):
            return None
        origin = getattr(self._config, "chat_template", None) or "pipeline_config.chat_template"
        return templates.custom(configured, str(origin))

    # ------------------------------------------------------------ what it knows
    @property
    def eos(self) -> int:
        """The token that ends a sequence.

        Raises:
            InputError: ML164, the tokenizer has none.
        """
        if (found := self.delegate.eos_token_id) is None:
            if self._eos_ids:
                return min(self._eos_ids)
            raise InputError(
                "ML164",
                f"the tokenizer of {self.model_path} has no token that ends a sequence",
                fix="name one as eos_token in tokenizer_config.json",
            )
        return int(found)

    @property
    def eos_token_ids(self) -> set[int]:
        """All tokens that end a sequence, as a set of the caller's own."""
        return set(self._eos_ids)

    def chat_template(self, tools: Any = None) -> templates.ChatTemplate:
        """The chat template that holds for messages, with where it came from.

        Args:
            tools: The tools of the conversation; some models have a template for them.

        Raises:
            InputError: ML154, there is none.
        """
        if self._template is not None:
            return self._template
        origin = loading.template_origin(self.model_path)
        return templates.of_model(getattr(self._templated(), "chat_template", None), tools, origin)

    def _templated(self) -> Any:
        """The object of transformers that has the chat template."""
        return self.delegate

    def _special_tokens(self) -> Mapping[str, Any]:
        """The texts of special tokens by the names that templates read."""
        found: Mapping[str, Any] = self.delegate.special_tokens_map
        return {
            name: [str(one) for one in value] if isinstance(value, (list, tuple)) else str(value)
            for name, value in found.items()
        }

    def sampling_params(self, asked: SamplingParamsInput | None = None) -> SamplingParams:
        """Sampling parameters for a request: each from the user, the model, or the class.

        The first of the three that sets a parameter decides it.

        Args:
            asked: What the user asked for.

        Raises:
            InputError: ML132, the model's ``generation_config.json`` cannot be read.
        """
        defaults = getattr(self._model_config, "sampling_params_defaults", None)
        if not isinstance(defaults, SamplingParamsGenerationConfigDefaults):
            defaults = sampling_defaults_of(self._repo)
        return SamplingParams.from_input_and_generation_config(
            asked or SamplingParamsInput(), sampling_params_defaults=defaults
        )

    # ------------------------------------------------------------ texts and tokens
    async def encode(self, prompt: str | Sequence[int], add_special_tokens: bool = True) -> Tokens:
        """The tokens of a text, int64 of shape [tokens]; tokens are taken as they are.

        Args:
            prompt: A text, or tokens.
            add_special_tokens: Whether tokens such as the one that begins a sequence are added to
                those of a text.

        Raises:
            InputTypeError: ML980, ``prompt`` is neither.
            InputError: ML160, there are more than ``max_length`` tokens (a ValueError); ML981, a
                number that is no token.
        """
        if isinstance(prompt, str):
            ids = await run_with_default_executor(self._encode, prompt, add_special_tokens)
        else:
            _TOKENS("prompt", prompt)
            ids = [int(one) for one in prompt]
        return self._fitting(np.array(ids, np.int64))

    def _encode(self, text: str, add_special_tokens: bool) -> list[int]:
        """The tokens of a text."""
        # Half of a surrogate pair is no character, and no tokenizer takes it.
        clean = text.encode("utf-8", "replace").decode("utf-8")
        found = self.delegate.encode(clean, add_special_tokens=add_special_tokens, verbose=False)
        return list(found)

    def _fitting(self, tokens: Tokens) -> Tokens:
        """``tokens``.

        Raises:
            InputError: ML160, there are more than ``max_length``.
        """
        if self.max_length is not None and len(tokens) > self.max_length:
            raise InputError(
                "ML160",
                f"a prompt of at most max_length = {self.max_length} tokens expected ≠ "
                f"{len(tokens)} given",
                fix="shorten the prompt, or give a larger max_length if the model has it",
            )
        return tokens

    async def decode(self, encoded: Tokens, **kwargs: Any) -> str:
        """The text of tokens.

        Args:
            encoded: Integers of shape [tokens], or one integer.
            **kwargs: Options of transformers' ``decode``, such as ``skip_special_tokens``.

        Raises:
            InputTypeError: ML980, they are no integers.
            InputError: ML981, one is negative or too large.
        """
        ids = np.atleast_1d(np.asarray(encoded))
        if ids.size == 0:
            return ""
        if ids.ndim != 1 or not np.issubdtype(ids.dtype, np.integer):
            raise InputTypeError(
                "ML980", f"encoded: integers of shape [tokens] expected ≠ {shown(encoded)} given"
            )
        for one in (int(ids.min()), int(ids.max())):
            fields.integer(0, fields.INT32)("encoded", one)
        return await run_with_default_executor(self._decode, ids.tolist(), kwargs)

    def _decode(self, ids: list[int], options: dict[str, Any]) -> str:
        return str(self.delegate.decode(ids, **options))

    def stream(
        self, request: TextGenerationRequest, prompt_tokens: Sequence[int] = ()
    ) -> IncrementalDecoder:
        """A decoder that gives the answer to ``request`` piece by piece, up to a stop.

        Args:
            request: The request, whose ``stop`` and that of its parameters end the text, behind
                ``min_new_tokens`` tokens.
            prompt_tokens: The tokens of the prompt, behind which the answer stands.
        """
        return IncrementalDecoder(
            self,
            context=prompt_tokens,
            stop=_stops(request),
            min_tokens=request.sampling_params.min_new_tokens,
        )

    # ------------------------------------------------------------ parts of contexts
    def _refuse_without_messages(self, request: TextGenerationRequest) -> None:
        """Raises for a request without a prompt, or with what only messages can use.

        Raises:
            InputError: ML159.
        """
        if request.messages is not None:
            return
        if request.prompt is None:
            raise InputError(
                "ML159",
                f"request {request.request_id}: a prompt or messages expected ≠ neither given",
            )
        for name in ("tools", "chat_template_options"):
            if getattr(request, name):
                raise InputError(
                    "ML159",
                    f"request {request.request_id} has {name}, which the chat template reads, and "
                    "a prompt, which goes through no template",
                    fix="give messages instead of the prompt",
                )

    async def _stop_sequences(self, request: TextGenerationRequest) -> list[list[int]]:
        """The tokens of the request's texts that end the generation."""
        return await self._sequences_of(_stops(request))

    async def _sequences_of(self, stops: Sequence[str]) -> list[list[int]]:
        """The tokens of texts that end the generation, in each way that they can be written."""
        found: list[list[int]] = []
        for stop in stops:
            for one in await run_with_default_executor(self._ways_to_write, stop):
                if one and one not in found:
                    found.append(one)
        return found

    def _ways_to_write(self, text: str) -> list[list[int]]:
        """The tokens of ``text`` at the beginning of a text, and behind a word, a line and a space.

        They differ where a tokenizer puts a space before a text, or joins it to what stands before.
        """
        ways = [self._encode(text, False)]
        for before, more in (("a", ""), ("\n", ""), ("a", " ")):
            head = self._encode(before, False)
            whole = self._encode(before + more + text, False)
            if head and whole[: len(head)] == head:
                ways.append(whole[len(head) :])
        return ways

    def _limit(self, size: int, params: SamplingParams) -> int:
        """The largest number of tokens of a request whose prompt has ``size``."""
        most = max_tokens_to_generate(size, self.max_length, params.max_new_tokens)
        return fields.INT32 if most is None else size + most


def _stops(request: TextGenerationRequest) -> list[str]:
    """The texts that end the answer to ``request``, each once."""
    stops = [request.stop] if isinstance(request.stop, str) else list(request.stop or ())
    return list(dict.fromkeys([*stops, *(request.sampling_params.stop or ())]))


def params_of(request: TextGenerationRequest) -> SamplingParams:
    """The parameters of a request, with its own texts that end the answer among those in them.

    Args:
        request: The request.
    """
    if not request.stop:
        return request.sampling_params
    return replace(request.sampling_params, stop=_stops(request))


def json_schema(request: TextGenerationRequest) -> str | None:
    """The JSON schema that the answer to ``request`` is to fit, as JSON; None for any text.

    A schema may stand under ``"schema"`` beside its name, as in OpenAI's requests.

    Raises:
        InputError: ML161, the format is of a kind that is not known.

    Example:
        >>> from maxlab.interfaces import RequestID
        >>> json_schema(TextGenerationRequest(RequestID("a"), "m", prompt="x", response_format={
        ...     "type": "json_schema", "json_schema": {"type": "integer"}}))
        '{"type": "integer"}'
    """
    form = request.response_format
    if form is None or form["type"] == "text":
        return None
    if form["type"] == "json_object":
        return json.dumps(form["json_schema"] or {"type": "object"})
    if form["type"] != "json_schema":
        raise InputError(
            "ML161",
            f"request {request.request_id}: response_format of the type json_schema, json_object "
            f"or text expected ≠ {shown(form['type'])} given",
        )
    schema = form["json_schema"]
    if isinstance(schema.get("name"), str) and isinstance(schema.get("schema"), dict):
        schema = schema["schema"]
    try:
        return json.dumps(schema)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(
            "ML161",
            f"request {request.request_id}: a JSON schema expected ≠ {shown(schema)} given",
            why=[str(error)],
        ) from error


__all__ = ["PretrainedTokenizer", "Tokens", "json_schema", "params_of"]

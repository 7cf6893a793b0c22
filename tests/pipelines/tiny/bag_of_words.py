"""An architecture as a user writes it: the embedding of a text is the mean of those of its words.

It is loaded by ``custom_architectures``. transformers does not know it, and its tokenizer is its
own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from maxlab import nn
from maxlab.driver import Tensor
from maxlab.dtype import DType
from maxlab.errors import InputError
from maxlab.graph import DeviceRef, Graph, TensorType, TensorValue
from maxlab.graph.weights import WeightData, WeightsFormat
from maxlab.interfaces import PipelineTask, TextGenerationRequest
from maxlab.pipelines.core import TextContext
from maxlab.pipelines.lib.config_enums import SupportedEncoding
from maxlab.pipelines.lib.interfaces import ModelInputs, ModelOutputs, PipelineModel
from maxlab.pipelines.lib.registry import SupportedArchitecture
from maxlab.pipelines.lib.utils import upper_bounded_default


class Words(nn.Module):
    """An embedding for each word, of shape [words, size]."""

    def __init__(self, vocabulary: int, size: int, device: DeviceRef) -> None:
        super().__init__()
        self.table = nn.Embedding(vocabulary, size, DType.float32, device)

    def __call__(self, words: TensorValue) -> TensorValue:
        return self.table(words)


@dataclass(eq=False)
class RaggedInputs(ModelInputs):
    """The words of all texts, one text after the other, and where each begins."""

    words: Tensor
    offsets: Tensor


class BagOfWords(PipelineModel[TextContext]):
    """Looks up the embeddings of words; the pipeline takes their mean."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        device = DeviceRef.from_device(self.devices[0])
        config = self.huggingface_config
        module = Words(config.vocab_size, config.hidden_size, device)
        weights = dict(self.weights.items())
        assert self.adapter is not None
        module.load_state_dict(self.adapter(weights))
        graph = Graph("words", module, input_types=[TensorType(DType.int64, ["words"], device)])
        self.model = self.session.load(graph, weights_registry=module.state_dict())

    @classmethod
    def calculate_max_seq_len(cls, pipeline_config: Any, huggingface_config: Any) -> int:
        return upper_bounded_default(huggingface_config.longest_text, pipeline_config.max_length)

    def prepare_initial_token_inputs(
        self,
        context_batch: Sequence[TextContext],
        kv_cache_inputs: Iterable[Any] | None = None,
        return_n_logits: int = 1,
    ) -> RaggedInputs:
        texts = [context.next_tokens for context in context_batch]
        offsets = np.cumsum([0, *map(len, texts)], dtype=np.uint32)
        words = np.concatenate(texts).astype(np.int64)
        return RaggedInputs(Tensor.from_numpy(words), Tensor.from_numpy(offsets))

    def prepare_next_token_inputs(
        self, next_tokens: Tensor, prev_model_inputs: ModelInputs
    ) -> ModelInputs:
        raise NotImplementedError("a bag of words draws no tokens")

    def execute(self, model_inputs: ModelInputs) -> ModelOutputs:
        assert isinstance(model_inputs, RaggedInputs)
        (found,) = self.model(model_inputs.words)
        return ModelOutputs(logits=found, logit_offsets=model_inputs.offsets)


class WordTokenizer:
    """Numbers the words of a text by the lines of ``words.txt``."""

    expects_content_wrapping = False
    eos = 0

    def __init__(
        self, model_path: str, *, max_length: int, context_validators: Sequence[Any] = ()
    ) -> None:
        lines = Path(model_path, "words.txt").read_text("utf-8").split()
        self._numbers = {word: number for number, word in enumerate(lines)}
        self._max_length, self._validators = max_length, context_validators

    async def encode(
        self, prompt: str, add_special_tokens: bool = True
    ) -> npt.NDArray[np.integer[Any]]:
        return np.array([self._numbers[word] for word in prompt.split()], np.int64)

    async def decode(self, encoded: npt.NDArray[np.integer[Any]], **kwargs: Any) -> str:
        words = list(self._numbers)
        return " ".join(words[number] for number in encoded)

    async def new_context(self, request: TextGenerationRequest) -> TextContext:
        context = TextContext(
            request_id=request.request_id,
            max_length=self._max_length,
            tokens=await self.encode(str(request.prompt)),
            model_name=request.model_name,
        )
        for validate in self._validators:
            validate(context)
        return context


def rename(state_dict: dict[str, Any], **unused_kwargs: Any) -> dict[str, WeightData]:
    """The checkpoint's name of the table is another one."""
    return {"table.weight": state_dict["words"].data()}


def no_more_than_six_words(context: Any) -> None:
    """A limit of this architecture, seen when a context is made."""
    if len(context.prompt_tokens) > 6:
        raise InputError("ML989", f"6 words or less expected ≠ {len(context.prompt_tokens)} given")


ARCHITECTURES = [
    SupportedArchitecture(
        name="BagOfWords",
        example_repo_ids=["your-org/bag-of-words"],
        default_encoding=SupportedEncoding.float32,
        supported_encodings={SupportedEncoding.float32: []},
        pipeline_model=BagOfWords,
        task=PipelineTask.EMBEDDINGS_GENERATION,
        tokenizer=WordTokenizer,
        default_weights_format=WeightsFormat.safetensors,
        weight_adapters={WeightsFormat.safetensors: rename},
        context_validators=[no_more_than_six_words],
    )
]

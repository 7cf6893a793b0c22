"""Runs of a decoder with its cache, step by step, and what transformers says to the same tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from maxlab.driver import CPU
from maxlab.nn.kv_cache import PagedKVCacheManager
from maxlab.nn.transformer import ReturnLogits
from maxlab.pipelines.architectures.decoder import DecoderModel
from maxlab.pipelines.core import TextContext
from maxlab.pipelines.lib.architecture import SupportedArchitecture
from maxlab.pipelines.lib.config import PipelineConfig
from maxlab.pipelines.lib.model_loading import loaded_model

Floats = npt.NDArray[np.float32]
CLOSE = 1e-4
"""The most that logits may differ."""
TIE = 1e-3
"""Two tokens whose logits differ less may be drawn one for the other."""


def decoder_of(
    folder: Path,
    architecture: SupportedArchitecture,
    return_logits: ReturnLogits = ReturnLogits.ALL,
    **settings: Any,
) -> DecoderModel:
    """The model of a folder, with a cache that keeps prefixes."""
    given = {"max_batch_size": 4, "enable_prefix_caching": True, **settings}
    config = PipelineConfig(model_path=str(folder), **given)
    config.model_config.kv_cache_config._available_cache_memory = 2**24
    made = loaded_model(
        config, architecture.pipeline_model, architecture.weight_adapters, return_logits
    )
    assert isinstance(made, DecoderModel)
    return made


@dataclass
class Text:
    """A text that is written, with the logits of each of its tokens that were computed."""

    context: TextContext
    rows: dict[int, Floats] = field(default_factory=dict)

    @property
    def tokens(self) -> list[int]:
        return [int(token) for token in self.context.all_tokens]


class Run:
    """Texts that a model writes; the tokens with the largest logits are drawn."""

    def __init__(self, model: DecoderModel) -> None:
        self.model = model
        self.manager: PagedKVCacheManager = model.kv_manager
        self.computed = 0

    def begin(self, prompt: Sequence[int] | npt.NDArray[Any], model_name: str = "") -> Text:
        context = TextContext(
            max_length=self.model.max_seq_len, tokens=np.asarray(prompt), model_name=model_name
        )
        self.manager.claim(context.request_id)
        return Text(context)

    def step(self, *texts: Text, most: int | None = None) -> None:
        """Computes the tokens that are next, of all or of ``most`` of each, and draws one more for
        each text that is read to its end."""
        contexts = [text.context for text in texts]
        for context in contexts:
            self.manager.alloc(context)
            if most is not None and context.active_length > most:
                context.set_token_indices(active_idx=context.start_idx + most)
        starts = [context.start_idx for context in contexts]
        cache = self.manager.get_runtime_inputs(contexts)
        inputs = self.model.prepare_initial_token_inputs(contexts, cache)
        outputs = self.model.execute(inputs)
        assert outputs.logit_offsets is not None
        assert outputs.next_token_logits is not None
        offsets, logits, last = (
            tensor.to(CPU()).to_numpy()
            for tensor in (outputs.logit_offsets, outputs.logits, outputs.next_token_logits)
        )
        self.computed += len(logits)
        for number, (text, start) in enumerate(zip(texts, starts, strict=True)):
            rows = logits[offsets[number] : offsets[number + 1]]
            np.testing.assert_array_equal(rows[-1], last[number])
            text.rows.update({start + place: row for place, row in enumerate(rows)})
            text.context.update(int(last[number].argmax()))
        self.manager.step(contexts)

    def write(self, *texts: Text, count: int) -> None:
        """Draws ``count`` tokens for each text."""
        for _ in range(count):
            self.step(*texts)

    def end(self, *texts: Text) -> None:
        for text in texts:
            self.manager.release(text.context.request_id)


def moved(model: Any, tokens: list[int]) -> Floats:
    """How far the largest logit of each token of ``model`` moves when its inputs are off by a
    millionth: where activations are rounded to 8 bits, one that lies between two codes becomes the
    other one, a sixteenth away, and all behind it follows."""
    import torch

    given = torch.tensor([tokens])
    with torch.no_grad():
        exact = model(given).logits[0].float().numpy()
        inputs, found = model.get_input_embeddings()(given), np.zeros(len(tokens), np.float32)
        for seed in range(12):
            noise = torch.randn(inputs.shape, generator=torch.Generator().manual_seed(seed))
            made = model(inputs_embeds=inputs * (1 + 1e-6 * noise)).logits[0].float().numpy()
            found = np.maximum(found, np.abs(made - exact).max(-1))
    return found


def compare(text: Text, drawn: int, model: Any, apart: Floats | None = None) -> int:
    """Raises unless all logits of a text are those of transformers, and the last ``drawn`` tokens
    the ones with the largest of these; returns the number of near ties that were left out.

    Args:
        text: The text.
        drawn: How many of its tokens were drawn.
        model: That of transformers.
        apart: How far the logits of each token may be apart besides; a third has to be close.
    """
    import torch

    tokens = text.tokens
    with torch.no_grad():
        wanted = model(torch.tensor([tokens[:-1]])).logits[0].float().numpy()
    for place, row in text.rows.items():
        close = CLOSE + (0.0 if apart is None else float(apart[place]))
        np.testing.assert_allclose(row, wanted[place], atol=close, rtol=CLOSE, err_msg=str(place))
    near = [np.allclose(row, wanted[at], CLOSE, CLOSE) for at, row in text.rows.items()]
    assert sum(near) >= len(near) / 3
    ties = 0
    for place in range(len(tokens) - drawn, len(tokens)):
        row = wanted[place - 1]
        second, first = np.sort(row)[-2:]
        if first - second < TIE + (0.0 if apart is None else 2 * float(apart[place - 1])):
            ties += 1
        else:
            assert tokens[place] == int(row.argmax())
    return ties


__all__ = ["Run", "Text", "compare", "decoder_of", "moved"]

"""Requests with images, and what transformers says to the same tokens."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import numpy.typing as npt

from maxlab.interfaces import RequestID, SamplingParams, TextGenerationRequest
from maxlab.pipelines.core import TextAndVisionContext
from tests.pipelines.decoders.running import CLOSE, TIE, Text

Floats = npt.NDArray[np.float32]
COUNT = 30
"""Tokens of each answer."""


def request(prompt: Any, *images: bytes, **params: Any) -> TextGenerationRequest:
    """A request for the most probable tokens; ``prompt`` is a text, or messages."""
    given = {"temperature": 0.0, "max_new_tokens": COUNT, "ignore_eos": True, **params}
    which = "prompt" if isinstance(prompt, str) else "messages"
    return TextGenerationRequest(
        RequestID(), "tiny", images=list(images) or None,
        sampling_params=SamplingParams(**given), **{which: prompt},
    )  # fmt: skip


def context(tokenizer: Any, prompt: Any, *images: bytes, **params: Any) -> TextAndVisionContext:
    """The state of a request."""
    made: TextAndVisionContext = asyncio.run(
        tokenizer.new_context(request(prompt, *images, **params))
    )
    return made


def logits(model: Any, of: TextAndVisionContext, tokens: list[int]) -> Floats:
    """The logits of transformers of each token of a text that begins as a request's prompt."""
    import torch

    ids = torch.tensor([tokens])
    given: dict[str, Any] = {}
    if of.images:
        kinds = torch.zeros_like(ids)
        for image in of.images:
            kinds[0, image.start_idx : image.end_idx] = 1
        given = {
            "pixel_values": torch.from_numpy(np.concatenate(of.pixel_values)),
            "image_grid_thw": torch.from_numpy(of.extra_model_args["image_grid_thw"]),
            "mm_token_type_ids": kinds,
        }
    model.model.rope_deltas = None  # of the prompt before
    with torch.no_grad():
        found: Floats = model(input_ids=ids, **given).logits[0].float().numpy()
    return found


def compare(text: Text, model: Any, drawn: int = COUNT) -> None:
    """Raises unless the logits of a text, and the tokens that were drawn, are those of
    transformers."""
    assert isinstance(text.context, TextAndVisionContext)
    tokens = text.tokens
    wanted = logits(model, text.context, tokens[:-1])
    for place, row in text.rows.items():
        np.testing.assert_allclose(row, wanted[place], atol=CLOSE, rtol=CLOSE, err_msg=str(place))
    for place in range(len(tokens) - drawn, len(tokens)):
        row = wanted[place - 1]
        second, first = np.sort(row)[-2:]
        assert tokens[place] == int(row.argmax()) or first - second < TIE, place


__all__ = ["COUNT", "compare", "context", "logits", "request"]

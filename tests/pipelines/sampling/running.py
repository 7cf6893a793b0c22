"""Batches of requests that go through a sampler, and the reference that draws for each alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from maxlab.engine import Model
from maxlab.graph import DeviceRef
from maxlab.interfaces import SamplingParams
from maxlab.pipelines.core import TextContext
from maxlab.pipelines.lib.sampling import SamplingConfig
from maxlab.pipelines.lib.sampling.inputs import (
    in_order,
    min_tokens_masks,
    sampler_arrays,
    sampler_input_types,
)
from maxlab.pipelines.lib.sampling.sampling import token_sampler
from maxlab.pipelines.lib.sampling_reference import next_distribution
from tests.cpu_and_gpu import at, numpy, session

Array = np.ndarray[Any, Any]
VOCABULARY = 40


def request(prompt: Sequence[int], generated: Sequence[int] = (), **params: Any) -> TextContext:
    """A request with a prompt and tokens that were generated; token 0 ends it."""
    made = TextContext(
        max_length=64,
        tokens=np.array(prompt),
        eos_token_ids={0},
        sampling_params=SamplingParams(**params),
    )
    for token in generated:
        made.update(token)
    return made


def logits_of(rows: int, step: int = 0, seed: int = 3) -> Array:
    """Logits as a model makes them: float32, of both signs, with ties."""
    rng = np.random.default_rng([seed, step])
    return np.round(rng.standard_normal((rows, VOCABULARY)) * 3, 1).astype(np.float32)


class Sampler:
    """A sampler of one configuration on one place."""

    def __init__(self, config: SamplingConfig, place: DeviceRef, return_logits: bool = False):
        self.config, self.place = config, place
        self.types = sampler_input_types(config, place, return_logits)
        self.model: Model = session(place).load(token_sampler(config, place, return_logits))

    def steps(
        self, contexts: Sequence[TextContext], logits: Sequence[Array], **more: Array
    ) -> list[Array]:
        """The tokens of each step, [requests]; ``logits`` has those of each step."""
        arrays = sampler_arrays(self.config, contexts, len(logits))
        held = {name: at(array, self.place) for name, array in (arrays | more).items()}
        held["prev_tokens"] = at(np.zeros((len(contexts), 0), np.int64), self.place)
        if "existing_logits" in self.types:
            held["existing_logits"] = at(np.zeros((len(contexts), 0), np.float32), self.place)
        masks = min_tokens_masks(contexts, len(logits))
        found = []
        for step, row in enumerate(logits):
            held["logits"] = at(row, self.place)
            if self.config.enable_min_tokens:
                held["min_tokens_mask"] = at(masks[step], self.place)
            tokens, *rest = self.model(*in_order(self.types, held))
            held["seed"] = rest.pop()
            held["prev_tokens"], *rest = rest
            if rest:
                (held["existing_logits"],) = rest
            found.append(numpy(tokens))
        assert numpy(held["prev_tokens"]).tolist() == np.stack(found, 1).tolist()
        self.last = {name: numpy(value) for name, value in held.items() if name != "logits"}
        return found


def wanted(context: TextContext, logits: Sequence[Array]) -> list[int]:
    """The tokens that the reference draws for a request alone, one step after the other, as far as
    the request goes."""
    found: list[int] = []
    for row in logits:
        if context.is_done:
            break
        drawn = next_distribution(row, context).draw(context.sampling_params.seed)
        context.update(int(drawn[0]))
        found.append(int(drawn[0]))
    return found

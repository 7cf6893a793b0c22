"""Embeddings: the state of a request, batches and results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import msgspec
import numpy as np
import numpy.typing as npt

from maxlab.interfaces import fields
from maxlab.interfaces.batches import BATCHES, PipelineInputs, distinct, merged
from maxlab.interfaces.contexts import BaseContext
from maxlab.interfaces.requests import RequestID
from maxlab.interfaces.showing import Shown


@runtime_checkable
class EmbeddingsContext(BaseContext, Protocol):
    """The state of a request for embeddings, which one step answers."""

    @property
    def tokens(self) -> npt.NDArray[np.integer[Any]]:
        """The tokens of the text."""
        ...

    @property
    def active_length(self) -> int:
        """The number of tokens."""
        ...

    @property
    def model_name(self) -> str:
        """The model that is asked."""
        ...


@dataclass(frozen=True)
class EmbeddingsGenerationInputs(PipelineInputs):
    """Batches of texts to embed, one for each device.

    Args:
        batches: The contexts by request.

    Raises:
        InputTypeError: ``batches`` is no list of dicts by `RequestID`.
        InputError: A request is in two batches.
    """

    batches: list[dict[RequestID, EmbeddingsContext]]

    def __post_init__(self) -> None:
        BATCHES("EmbeddingsGenerationInputs.batches", self.batches)
        distinct("EmbeddingsGenerationInputs", self.batches)

    @property
    def batch(self) -> dict[RequestID, EmbeddingsContext]:
        """All batches as one, in their order."""
        return merged(self.batches)


_RULES: fields.Rules = {"embeddings": fields.array(np.floating)}


class EmbeddingsGenerationOutput(Shown, msgspec.Struct, tag=True, omit_defaults=True, eq=False):
    """The embeddings of one request.

    Args:
        embeddings: Floating-point numbers, of shape [size], or [tokens, size] unpooled.

    Raises:
        InputTypeError: ``embeddings`` is no array of floating-point numbers.
    """

    embeddings: npt.NDArray[np.floating[Any]]

    def __post_init__(self) -> None:
        fields.check(self, _RULES)

    @property
    def is_done(self) -> bool:
        """True: one step makes the whole result."""
        return True


fields.declare(EmbeddingsGenerationOutput, _RULES)

"""Protocols of the state of a request, for the parts that serve it."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from maxlab.interfaces.outputs import GenerationStatus, LogProbabilities, TextGenerationOutput
from maxlab.interfaces.requests import RequestID
from maxlab.interfaces.sampling import SamplingParams
from maxlab.interfaces.vision import ImageMetadata


@runtime_checkable
class BaseContext(Protocol):
    """The state of a request as every part may ask for it, whatever its task is."""

    @property
    def request_id(self) -> RequestID:
        """The request that the state is of."""
        ...

    @property
    def status(self) -> GenerationStatus:
        """Whether the work goes on, or why it ended."""
        ...

    @property
    def is_done(self) -> bool:
        """Whether the work has ended."""
        ...


@runtime_checkable
class TextGenerationContext(BaseContext, Protocol):
    """The state of a text generation: an array of tokens, and three places in it.

    ::

        +--------------------+---------------+-----------------+----------------+
        |     completed      |  next_tokens  |                 |  preallocated  |
        +--------------------+---------------+-----------------+----------------+
                  start_idx ^    active_idx ^         end_idx ^

    Tokens before ``start_idx`` have been computed. Those up to ``active_idx`` are computed next:
    of a long prompt a chunk, later one token. ``end_idx`` is one past the last token, and the
    array behind it is room to grow, in whole chunks.
    """

    @property
    def eos_token_ids(self) -> set[int]:
        """The tokens that end the generation."""
        ...

    @property
    def active_idx(self) -> int:
        """One past the tokens that are computed next."""
        ...

    @property
    def start_idx(self) -> int:
        """The number of tokens that have been computed; the next ones begin here."""
        ...

    @property
    def end_idx(self) -> int:
        """One past the last token."""
        ...

    @property
    def active_length(self) -> int:
        """The number of tokens that are computed next."""
        ...

    @property
    def current_length(self) -> int:
        """The number of tokens, of the prompt and generated."""
        ...

    @property
    def max_length(self) -> int | None:
        """The largest number of tokens, the prompt's included; None without a limit."""
        ...

    @property
    def min_tokens(self) -> int:
        """The least number of tokens to generate."""
        ...

    @property
    def log_probabilities(self) -> int:
        """How many of the most probable tokens are told with their log probabilities; 0 of none."""
        ...

    @property
    def log_probabilities_echo(self) -> bool:
        """Whether log probabilities of the prompt's tokens are told too."""
        ...

    @property
    def all_tokens(self) -> npt.NDArray[np.integer[Any]]:
        """All tokens, of the prompt and generated, shape [current_length]."""
        ...

    @property
    def tokens(self) -> npt.NDArray[np.integer[Any]]:
        """The whole array, with the room to grow."""
        ...

    @property
    def next_tokens(self) -> npt.NDArray[np.integer[Any]]:
        """The tokens that are computed next, shape [active_length]."""
        ...

    @property
    def prompt_tokens(self) -> npt.NDArray[np.integer[Any]]:
        """The tokens of the prompt."""
        ...

    @property
    def generated_tokens(self) -> npt.NDArray[np.integer[Any]]:
        """The tokens that were generated."""
        ...

    @property
    def needs_ce(self) -> bool:
        """Whether tokens of the prompt are still to be computed."""
        ...

    @property
    def is_initial_prompt(self) -> bool:
        """Whether no token has been generated yet."""
        ...

    @property
    def json_schema(self) -> str | None:
        """The JSON schema that the generated text is to fit, if any."""
        ...

    @property
    def matcher(self) -> Any | None:
        """The matcher that follows the grammar of the generated text, if it has one."""
        ...

    @property
    def sampling_params(self) -> SamplingParams:
        """How tokens are drawn."""
        ...

    def get_last_generated_token(self) -> int:
        """The token that was generated last.

        Raises:
            ValueError: None has been generated.
        """
        ...

    def get_min_token_logit_mask(self, num_steps: int) -> list[npt.NDArray[np.int32]]:
        """The tokens that must not be drawn in each of the next steps.

        Args:
            num_steps: The number of steps.
        """
        ...

    def update(self, new_token: int, log_probabilities: LogProbabilities | None = None) -> None:
        """Takes a token that was generated, and sees whether that was the end.

        Args:
            new_token: The token.
            log_probabilities: What is told with it.
        """
        ...

    def jump_ahead(self, new_token: int) -> None:
        """Takes a token that is computed together with those before it.

        Args:
            new_token: The token.
        """
        ...

    def reset(self) -> None:
        """Asks for all tokens to be computed anew, as if they were a prompt."""
        ...

    def set_matcher(self, matcher: Any) -> None:
        """Sets the matcher that follows the grammar of the generated text.

        Args:
            matcher: It; its type depends on the library.
        """
        ...

    def bump_token_indices(self, start_idx: int = 0, active_idx: int = 0, end_idx: int = 0) -> None:
        """Moves the three places by numbers of tokens.

        Args:
            start_idx: By how much ``start_idx`` moves.
            active_idx: By how much ``active_idx`` moves.
            end_idx: By how much ``end_idx`` moves.
        """
        ...

    def set_token_indices(
        self,
        start_idx: int | None = None,
        active_idx: int | None = None,
        end_idx: int | None = None,
    ) -> None:
        """Sets the places that are given.

        Args:
            start_idx: The new ``start_idx``.
            active_idx: The new ``active_idx``.
            end_idx: The new ``end_idx``.
        """
        ...

    def compute_num_available_steps(self, max_seq_len: int) -> int:
        """The number of tokens that can be generated within ``max_seq_len``.

        Args:
            max_seq_len: The largest number of tokens.
        """
        ...

    def to_generation_output(self) -> TextGenerationOutput:
        """The tokens that were generated and not told yet, with the status."""
        ...


@runtime_checkable
class VLMTextGenerationContext(TextGenerationContext, Protocol):
    """The state of a text generation whose prompt has images."""

    @property
    def image_idx(self) -> int:
        """The number of the first image that is not encoded yet."""
        ...

    @property
    def images(self) -> list[ImageMetadata]:
        """All images of the prompt, in their order."""
        ...

    @property
    def next_images(self) -> list[ImageMetadata]:
        """The images that are not encoded yet."""
        ...

    @property
    def needs_vision_encoding(self) -> bool:
        """Whether an image is not encoded yet."""
        ...

    def compute_image_aligned_idx(self, idx: int) -> int:
        """``idx``, or the start of the image that it lies in the middle of.

        Args:
            idx: A place in the tokens.
        """
        ...

"""The state of a text generation whose prompt has images."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from maxlab.errors import InputError
from maxlab.interfaces import ImageMetadata, fields
from maxlab.pipelines.core.text import TOKEN, TextContext

_RULES: fields.Rules = {
    "vision_token_ids": fields.listed(TOKEN),
    "images": fields.listed(fields.instance(ImageMetadata)),
    "extra_model_args": fields.mapped(fields.text, fields.instance(np.ndarray)),
}


class TextAndVisionContext(TextContext, kw_only=True, omit_defaults=True, eq=False):
    """A `TextContext` with images, each of which stands for a range of the prompt's tokens.

    An image is encoded as a whole: neither ``start_idx`` nor ``active_idx`` lies inside of one.

    Args:
        vision_token_ids: The tokens that stand for parts of images.
        images: The images, in the order of their tokens.
        extra_model_args: Arrays that the model takes besides, by name.

    Raises:
        InputTypeError: A field of another type.
        InputError: As by `TextContext`; images that overlap, lie outside of the prompt, or do not
            begin and end with one of ``vision_token_ids``.

    Example:
        >>> image = ImageMetadata(start_idx=1, end_idx=3, pixel_values=np.zeros((2, 2)))
        >>> context = TextAndVisionContext(max_length=9, tokens=np.array([5, 98, 98, 6]),
        ...                                vision_token_ids=[98], images=[image])
        >>> context.image_idx, context.compute_image_aligned_idx(2)
        (0, 1)
        >>> context.update(7)
        >>> context.needs_vision_encoding
        False
    """

    vision_token_ids: list[int]
    images: list[ImageMetadata] = msgspec.field(default_factory=list)
    extra_model_args: dict[str, npt.NDArray[Any]] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        fields.check(self, _RULES)
        for before, after in pairwise(self.images):
            if after.start_idx < before.end_idx:
                raise fields.out_of_range(
                    "TextAndVisionContext.images",
                    [(one.start_idx, one.end_idx) for one in self.images],
                    "images that follow each other",
                )
        super().__post_init__()
        for image in self.images:
            ends = (
                self.tokens[[image.start_idx, image.end_idx - 1]].tolist()
                if (image.end_idx <= self._prompt_len)
                else []
            )
            if not ends or not set(ends) <= set(self.vision_token_ids):
                raise InputError(
                    "ML992",
                    f"an image of the tokens [{image.start_idx}, {image.end_idx}), which do not "
                    f"begin and end with one of vision_token_ids = {self.vision_token_ids} in a "
                    f"prompt of {self._prompt_len}",
                )

    def _check_state(self) -> None:
        super()._check_state()
        for name, index in (("start_idx", self._start_idx), ("active_idx", self._active_idx)):
            if (whole := self.compute_image_aligned_idx(index)) != index:
                raise InputError(
                    "ML992",
                    f"{name} = {index} lies inside of the image that begins at {whole}",
                    fix="compute_image_aligned_idx() gives the place before the image",
                )

    @property
    def pixel_values(self) -> list[npt.NDArray[np.floating[Any]]]:
        """The pixels of each image, in their order."""
        return [image.pixel_values for image in self.images]

    @property
    def image_idx(self) -> int:
        """The number of the first image that is not encoded yet."""
        return sum(image.end_idx <= self._start_idx for image in self.images)

    @property
    def next_images(self) -> list[ImageMetadata]:
        """The images that are not encoded yet."""
        return self.images[self.image_idx :]

    @property
    def needs_vision_encoding(self) -> bool:
        """Whether an image is not encoded yet."""
        return self.image_idx < len(self.images)

    def compute_image_aligned_idx(self, idx: int) -> int:
        """``idx``, or the start of the image that it lies in the middle of.

        Args:
            idx: A place in the tokens.

        Raises:
            InputTypeError: ``idx`` is no int.
        """
        fields.integer()("idx", idx)
        for image in self.images:
            if image.start_idx < idx < image.end_idx:
                return image.start_idx
        return idx

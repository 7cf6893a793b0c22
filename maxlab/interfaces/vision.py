"""An image of a prompt, and the tokens that stand for it."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from maxlab.interfaces import fields

_RULES: fields.Rules = {
    "start_idx": fields.integer(0),
    "end_idx": fields.integer(0),
    "pixel_values": fields.array(np.floating),
    "image_hash": fields.integer(-fields.INT64 - 1, fields.UINT64),
}


class ImageMetadata(msgspec.Struct, tag=True, kw_only=True, omit_defaults=True, eq=False):
    """An image that stands for the tokens [``start_idx``, ``end_idx``) of a prompt.

    Two of them are equal only when they are one object; `msgpack_eq` compares their contents.

    Args:
        start_idx: The first token of the image.
        end_idx: One after its last token.
        pixel_values: The pixels, floating-point, of any shape.
        image_hash: A hash of the image, which keeps cached prefixes apart; -1 where unknown.

    Raises:
        InputTypeError: A field of another type.
        InputError: The range is empty or negative.
    """

    start_idx: int
    end_idx: int
    pixel_values: npt.NDArray[np.floating[Any]]
    image_hash: int = -1

    def __post_init__(self) -> None:
        fields.check(self, _RULES)
        if self.end_idx <= self.start_idx:
            raise fields.out_of_range(
                "ImageMetadata.end_idx", self.end_idx, f"an int above start_idx, {self.start_idx},"
            )


IMAGES = fields.listed(fields.instance(ImageMetadata))
"""The rule of a field that holds images."""

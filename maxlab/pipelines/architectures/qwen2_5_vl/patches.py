"""Pictures as patches: what the model's preprocessor_config.json says, in NumPy and Pillow.

It needs neither PyTorch nor torchvision, which the processor of transformers for this family does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from maxlab.errors import FileError, InputError, shown

MOST_RATIO = 200
"""The most times that a picture may be longer than it is wide, or wider than it is long."""
_MEAN = (0.48145466, 0.4578275, 0.40821073)
_DEVIATION = (0.26862954, 0.26130258, 0.27577711)
_ON = ("do_resize", "do_rescale", "do_normalize")


@dataclass(frozen=True)
class PatchSettings:
    """How pictures become patches.

    Args:
        patch_size: The pixels along a side of a patch.
        merge_size: The patches along a side of a token.
        temporal_patch_size: The frames of a patch; a picture is repeated.
        min_pixels: The fewest pixels of a picture; a smaller one is enlarged.
        max_pixels: The most pixels of a picture; a larger one is made smaller.
        resample: The number of Pillow's filter.
        rescale_factor: The factor of the numbers of pixels, which are 0 to 255.
        image_mean: What is taken off each channel.
        image_std: What each channel is divided by then.
    """

    patch_size: int = 14
    merge_size: int = 2
    temporal_patch_size: int = 2
    min_pixels: int = 56 * 56
    max_pixels: int = 28 * 28 * 1280
    resample: int = 3
    rescale_factor: float = 1 / 255
    image_mean: tuple[float, ...] = _MEAN
    image_std: tuple[float, ...] = _DEVIATION

    @classmethod
    def read(cls, found: Mapping[str, Any], where: str) -> PatchSettings:
        """The settings of a model.

        Args:
            found: The entries of preprocessor_config.json.
            where: The model, as errors call it.

        Raises:
            FileError: ML152 (a ValueError), an entry that is not read, or of another kind.
        """
        for name in _ON:
            if found.get(name, True) is not True:
                raise _wrong(where, name, "true", found[name])
        size = found.get("size") or {}
        if not isinstance(size, Mapping):
            raise _wrong(where, "size", "an object", size)
        entries: dict[str, Any] = {
            **{name: found.get(name) for name in cls.__dataclass_fields__},
            "min_pixels": found.get("min_pixels") or size.get("shortest_edge"),
            "max_pixels": found.get("max_pixels") or size.get("longest_edge"),
        }
        entries = {name: value for name, value in entries.items() if value is not None}
        for name, value in entries.items():
            if name.startswith("image_"):
                fits = (
                    isinstance(value, (list, tuple))
                    and len(value) == 3
                    and all(_is_number(one) for one in value)
                    and (name == "image_mean" or all(value))
                )
                if not fits:
                    raise _wrong(where, name, "three numbers", value)
                entries[name] = tuple(map(float, value))
            elif name == "rescale_factor":
                if not _is_number(value):
                    raise _wrong(where, name, "a number", value)
            elif not _is_number(value) or value != int(value) or value < (name != "resample"):
                raise _wrong(where, name, "a positive integer", value)
            else:
                entries[name] = int(value)
        return cls(**entries)

    def size_of(self, height: int, width: int) -> tuple[int, int]:
        """The height and width that a picture is brought to: whole tokens, as many pixels as
        allowed, and nearly the same shape.

        Args:
            height: The height of the picture.
            width: Its width.

        Raises:
            InputError: ML162 (a ValueError), a picture that is too long for its width.

        Example:
            >>> PatchSettings().size_of(480, 640)
            (476, 644)
        """
        if max(height, width) > MOST_RATIO * min(height, width):
            raise InputError(
                "ML162",
                f"an image at most {MOST_RATIO} times as long as wide expected ≠ "
                f"{width} x {height} pixels given",
                fix="cut the image to what it shows",
            )
        unit = self.patch_size * self.merge_size
        sides = round(height / unit) * unit, round(width / unit) * unit
        if math.prod(sides) > self.max_pixels:
            factor = math.sqrt(height * width / self.max_pixels)
            return (
                max(unit, math.floor(height / factor / unit) * unit),
                max(unit, math.floor(width / factor / unit) * unit),
            )
        if math.prod(sides) < self.min_pixels:
            factor = math.sqrt(self.min_pixels / (height * width))
            return (
                math.ceil(height * factor / unit) * unit,
                math.ceil(width * factor / unit) * unit,
            )
        return sides

    def patches(self, picture: Any) -> tuple[npt.NDArray[np.float32], tuple[int, int, int]]:
        """The pixels of the patches of a picture, float32 [patches, pixels], and its grid.

        Args:
            picture: A picture of Pillow in RGB.

        Raises:
            InputError: ML162 (a ValueError), a picture that is too long for its width.
        """
        height, width = self.size_of(picture.height, picture.width)
        if (width, height) != picture.size:
            picture = picture.resize((width, height), resample=self.resample)
        pixels = np.asarray(picture, np.uint8).transpose(2, 0, 1)  # [channels, height, width]
        values = (pixels.astype(np.float64) * self.rescale_factor).astype(np.float32)
        mean, deviation = (
            np.array(one, np.float32).reshape(3, 1, 1) for one in (self.image_mean, self.image_std)
        )
        values = (values - mean) / deviation
        side, merge, frames = self.patch_size, self.merge_size, self.temporal_patch_size
        rows, columns = height // side, width // side
        squares = values.reshape(
            3, rows // merge, merge, side, columns // merge, merge, side
        ).transpose(1, 4, 2, 5, 0, 3, 6)
        found = np.repeat(squares[:, :, :, :, :, None], frames, axis=5)
        return found.reshape(rows * columns, -1), (1, rows, columns)


class PatchProcessor:
    """Puts a token for each square of patches where a text has the token of an image.

    It is called as the processors of transformers are, and has their attributes.

    Args:
        tokenizer: The tokenizer of transformers.
        settings: How pictures become patches.
        image_token_id: The token of an image.
        chat_template: The chat template of the processor, or None for that of the tokenizer.
    """

    def __init__(
        self,
        tokenizer: Any,
        settings: PatchSettings,
        image_token_id: int,
        chat_template: Any = None,
    ) -> None:
        self.tokenizer, self.settings = tokenizer, settings
        self.image_token_id = image_token_id
        self.image_token = str(tokenizer.convert_ids_to_tokens(image_token_id))
        self.chat_template = chat_template

    def __call__(
        self,
        text: str,
        images: Sequence[Any],
        add_special_tokens: bool = True,
        return_tensors: str = "np",
    ) -> dict[str, npt.NDArray[Any]]:
        """``input_ids`` [1, tokens], ``pixel_values`` [patches, pixels] of all pictures, and
        ``image_grid_thw`` [pictures, 3].

        Args:
            text: The text, with a token for each picture.
            images: The pictures, in RGB.
            add_special_tokens: Whether the tokenizer adds tokens such as the one that begins a
                sequence.
            return_tensors: ``"np"``.

        Raises:
            InputError: ML162 (a ValueError), as many tokens of images as pictures are not there; a
                picture that is too long for its width.
        """
        if return_tensors != "np":
            raise InputError(
                "ML162", f"return_tensors: 'np' expected ≠ {shown(return_tensors)} given"
            )
        parts = text.split(self.image_token)
        if len(parts) != len(images) + 1:
            raise InputError(
                "ML162",
                f"a text with {self.image_token} for each of {len(images)} images expected ≠ "
                f"{len(parts) - 1} of them given",
                fix="write the token where an image is meant, and nowhere else",
            )
        made = [self.settings.patches(one) for one in images]
        whole = parts[0]
        for (_, grid), part in zip(made, parts[1:], strict=True):
            whole += self.image_token * (math.prod(grid) // self.settings.merge_size**2) + part
        tokens = self.tokenizer.encode(whole, add_special_tokens=add_special_tokens, verbose=False)
        return {
            "input_ids": np.array([tokens], np.int64),
            "pixel_values": np.concatenate([pixels for pixels, _ in made]),
            "image_grid_thw": np.array([grid for _, grid in made], np.int64),
        }


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _wrong(where: str, name: str, expected: str, got: Any) -> FileError:
    return FileError(
        "ML152",
        f"{where}: {name} of preprocessor_config.json: {expected} expected ≠ {shown(got)} given",
        fix="download the file again, or correct the entry",
    )


__all__ = ["MOST_RATIO", "PatchProcessor", "PatchSettings"]

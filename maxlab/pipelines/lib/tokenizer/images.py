"""Images of requests: their bytes as pictures, and the tokens that stand for them."""

from __future__ import annotations

import hashlib
import io
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from maxlab.errors import InputError, MaxlabError, shown
from maxlab.interfaces import ImageMetadata
from maxlab.pipelines.lib.tokenizer import packages

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")
"""The formats that are read; others have decoders that run programs, or that nobody needs here."""
MOST_BYTES = 64 << 20
"""The most bytes of an image's file."""
MOST_PIXELS = 64 << 20
"""The most pixels of an image."""


def open_image(data: bytes, where: str) -> Any:
    """The picture in the bytes of a file, in RGB and upright; of several pictures the first. What
    is transparent lies on white.

    Args:
        data: The bytes.
        where: What it is called in errors.

    Raises:
        InputError: ML162, the bytes are no image of `FORMATS`, are cut off, or have too many
            pixels.
        MissingPackageError: ML979, Pillow is not installed.
    """
    _, changes = packages.pillow()
    with _reading(data, where):
        image = _opened(data, where)
        image.load()
        return _on_white(changes.exif_transpose(image))


def size_of(data: bytes, where: str) -> tuple[int, int]:
    """The width and height that the head of an image's file says; nothing is unpacked.

    Args:
        data: The bytes.
        where: What it is called in errors.

    Raises:
        InputError: ML162, as by `open_image`.
        MissingPackageError: ML979, Pillow is not installed.
    """
    packages.pillow()
    with _reading(data, where):
        image = _opened(data, where)
        return image.width, image.height


def _opened(data: bytes, where: str) -> Any:
    """The picture in the bytes of a file, of which the head is read."""
    reader, _ = packages.pillow()
    if len(data) > MOST_BYTES:
        raise _refused(where, f"at most {MOST_BYTES:,} bytes", f"{len(data):,}")
    image = reader.open(io.BytesIO(data), formats=FORMATS)
    if (pixels := image.width * image.height) > MOST_PIXELS:
        raise _refused(where, f"at most {MOST_PIXELS:,} pixels", f"{pixels:,}")
    return image


@contextmanager
def _reading(data: bytes, where: str) -> Iterator[None]:
    """Turns what Pillow raises for the bytes of a file into an `InputError`."""
    try:
        yield
    except MaxlabError:
        raise
    except Exception as error:  # each format of Pillow has errors of its own
        raise _refused(
            where, f"an image in {', '.join(FORMATS)}", f"{shown(data[:16])}: {error}"
        ) from error


def _on_white(image: Any) -> Any:
    """The picture in RGB; its colours alone would show what is meant not to be seen."""
    reader, _ = packages.pillow()
    if image.mode.startswith("I"):  # grey of 16 bits, of which Pillow would keep the lowest 8
        image = reader.fromarray((np.asarray(image).astype(np.uint32) >> 8).astype(np.uint8))
    if not image.has_transparency_data:
        return image.convert("RGB")
    shown_parts = image.convert("RGBA")
    ground = reader.new("RGBA", image.size, "white")
    return reader.alpha_composite(ground, shown_parts).convert("RGB")


def _refused(where: str, expected: str, got: str) -> InputError:
    return InputError("ML162", f"{where}: {expected} expected ≠ {got} given")


def pixels_of(output: Any, count: int) -> list[npt.NDArray[np.floating[Any]]]:
    """The pixels of each image, out of what a processor of transformers made of all of them.

    Args:
        output: The processor's output, a mapping with ``pixel_values``.
        count: The number of images.

    Raises:
        InputError: ML162, it cannot be told which pixels are of which image.
    """
    found = output["pixel_values"]
    if not isinstance(found, np.ndarray):
        while len(found) == 1 and isinstance(found[0], (list, tuple)):
            found = found[0]  # a list for each text
        found = [np.asarray(one) for one in found]
    elif "image_grid_thw" in output and found.ndim == 2:
        sizes = np.asarray(output["image_grid_thw"]).reshape(-1, 3).prod(axis=1)
        found = np.split(found, np.cumsum(sizes)[:-1]) if sizes.sum() == len(found) else []
    elif len(found) == 1 and count > 1:
        found = list(found[0])  # of one text
    found = [np.asarray(one) for one in found]
    if len(found) != count or not all(np.issubdtype(one.dtype, np.floating) for one in found):
        raise InputError(
            "ML162",
            f"pixels of {count} images expected ≠ {len(found)} parts found in "
            f"{type(output).__name__}['pixel_values']",
        )
    return found


def ranges_of(
    tokens: Sequence[int],
    vision: Sequence[int],
    count: int,
    sizes: Sequence[int] | None = None,
) -> list[tuple[int, int]]:
    """The first token of each image, and the one after its last.

    Images that follow each other without a token between them share their tokens evenly, unless it
    is known how many each has.

    Args:
        tokens: The tokens of the prompt.
        vision: The tokens that stand for parts of images.
        count: The number of images.
        sizes: The number of tokens of each image; None where it is not known.

    Raises:
        InputError: ML162, the tokens of images cannot be divided among them.

    Example:
        >>> ranges_of([5, 9, 9, 6, 9, 9], [9], 2), ranges_of([9, 9, 9, 9], [9], 2)
        ([(1, 3), (4, 6)], [(0, 2), (2, 4)])
        >>> ranges_of([9, 9, 9, 9], [9], 2, sizes=[1, 3])
        [(0, 1), (1, 4)]
    """
    inside = set(vision)
    runs, place = [], 0
    for is_image, group in itertools.groupby(tokens, inside.__contains__):
        size = len(list(group))
        if is_image:
            runs.append((place, place + size))
        place += size
    total = sum(end - start for start, end in runs)
    if sizes is not None:
        runs = _cut(runs, sizes)
    elif len(runs) != count and count and total % count == 0:
        part = total // count
        if all((end - start) % part == 0 for start, end in runs):
            runs = [
                (first, first + part) for start, end in runs for first in range(start, end, part)
            ]
    if len(runs) != count:
        raise InputError(
            "ML162",
            f"tokens of {count} images expected ≠ {total} tokens in "
            f"{len(runs)} {'place' if len(runs) == 1 else 'places'} given",
            fix="write no text of an image's token into a message: images are parts of messages",
        )
    return runs


def _cut(runs: list[tuple[int, int]], sizes: Sequence[int]) -> list[tuple[int, int]]:
    """The ranges of images with so many tokens each; [] where they are not those of the runs."""
    found: list[tuple[int, int]] = []
    left = list(sizes)
    for start, end in runs:
        while start < end and left and left[0] <= end - start:
            found.append((start, start + left.pop(0)))
            start = found[-1][1]
        if start != end:
            return []
    return [] if left else found


def described(
    tokens: Sequence[int],
    vision: Sequence[int],
    pixels: Sequence[npt.NDArray[np.floating[Any]]],
    others: Mapping[str, npt.NDArray[Any]] = MappingProxyType({}),
    sizes: Sequence[int] | None = None,
) -> list[ImageMetadata]:
    """The images of a prompt with their tokens and their pixels.

    Args:
        tokens: The tokens of the prompt.
        vision: The tokens that stand for parts of images.
        pixels: The pixels of each image.
        others: What a processor tells besides. Of what has a row for each image, such as the size
            of its grid, the row is a part of what makes an image another one.
        sizes: The number of tokens of each image; None where it is not known.

    Raises:
        InputError: ML162, the tokens of images cannot be divided among them.
    """
    count = len(pixels)
    rows = [one for _, one in sorted(others.items()) if one.ndim and len(one) == count]
    ranges = ranges_of(tokens, vision, count, sizes)
    return [
        ImageMetadata(
            start_idx=start,
            end_idx=end,
            pixel_values=values,
            image_hash=hash_of(values, *(row[number] for row in rows)),
        )
        for number, ((start, end), values) in enumerate(zip(ranges, pixels, strict=True))
    ]


def hash_of(pixels: npt.NDArray[Any], *others: npt.NDArray[Any]) -> int:
    """A number of 63 bits that equal images share, and others as good as never.

    Args:
        pixels: The pixels of an image.
        *others: What else the model is told of it, such as the size of its grid.

    Example:
        >>> first, same, other = map(hash_of, (np.zeros(3), np.zeros(3), np.ones(3)))
        >>> first == same, first == other
        (True, False)
    """
    made = hashlib.blake2b(digest_size=8)
    for one in (pixels, *others):
        made.update(f"{one.dtype}{one.shape}".encode())
        made.update(np.ascontiguousarray(one).data)
    return int.from_bytes(made.digest()) >> 1


def others_of(output: Any) -> dict[str, npt.NDArray[Any]]:
    """The arrays of a processor's output besides tokens and pixels, by name.

    Args:
        output: The processor's output.

    Raises:
        InputError: ML162, one is no array.
    """
    found = {}
    for name, value in output.items():
        if name in ("input_ids", "attention_mask", "pixel_values", "token_type_ids"):
            continue
        array = np.asarray(value)
        if array.dtype == object or math.prod(array.shape) == 0:
            raise InputError("ML162", f"{name}: an array expected ≠ {shown(value)} given")
        found[str(name)] = array
    return found


__all__ = [
    "FORMATS",
    "MOST_BYTES",
    "MOST_PIXELS",
    "described",
    "hash_of",
    "open_image",
    "others_of",
    "pixels_of",
    "ranges_of",
    "size_of",
]

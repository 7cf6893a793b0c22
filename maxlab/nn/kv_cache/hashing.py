"""Hashes of pages: two pages with one hash hold the keys and values of the same tokens.

A page's keys and values depend on its tokens and on all tokens before them, so each hash takes in
the hash of the page before. They depend on the pixels of images, and on the model's adapter, too.
128 bits of BLAKE2 [1]_ keep pages apart even where prompts are made to collide.

.. [1] M.-J. Saarinen, J.-P. Aumasson, "The BLAKE2 Cryptographic Hash and Message Authentication
   Code (MAC)", RFC 7693, 2015.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

from maxlab.interfaces import ImageMetadata

SIZE = 16
"""Bytes of a hash."""


def root(adapter: str) -> bytes:
    """The hash that stands before the first page of a sequence.

    Args:
        adapter: The name of the model or adapter that computes the sequence.
    """
    return blake2b(adapter.encode("utf-8", "surrogatepass"), digest_size=SIZE).digest()


def image(one: ImageMetadata) -> bytes:
    """The hash of an image: of its own hash where it has one, and of its pixels otherwise.

    Args:
        one: The image.
    """
    if one.image_hash != -1:
        return blake2b(f"hash {one.image_hash}".encode(), digest_size=SIZE).digest()
    pixels = np.ascontiguousarray(one.pixel_values)
    told = f"pixels {pixels.dtype.str} {pixels.shape} "
    return blake2b(told.encode() + pixels.tobytes(), digest_size=SIZE).digest()


def pages(
    tokens: npt.NDArray[np.integer[Any]],
    size: int,
    first: int,
    parent: bytes,
    images: Sequence[ImageMetadata] = (),
) -> list[bytes]:
    """The hashes of the full pages of ``tokens`` from the page ``first`` on.

    Args:
        tokens: The tokens of the sequence from its start, [tokens].
        size: The number of tokens of a page.
        first: The number of the first page that is hashed.
        parent: The hash of the page before it, or `root`.
        images: The images of the prompt.

    Example:
        >>> tokens = np.arange(10)
        >>> both = pages(tokens, 4, 0, root(""))
        >>> len(both), pages(tokens, 4, 1, both[0]) == both[1:]
        (2, True)
        >>> tokens[0] = 7
        >>> pages(tokens, 4, 0, root(""))[1] == both[1]
        False
    """
    count = len(tokens) // size
    if count <= first:
        return []
    data = np.ascontiguousarray(tokens[first * size : count * size], "<i8").tobytes()
    shown = [one for one in images if one.end_idx > first * size]
    digests = [image(one) for one in shown]
    found = []
    for number in range(first, count):
        start, stop = number * size, (number + 1) * size
        hasher = blake2b(parent, digest_size=SIZE)
        hasher.update(data[(start - first * size) * 8 : (stop - first * size) * 8])
        for one, digest in zip(shown, digests, strict=True):
            if one.start_idx < stop and one.end_idx > start:
                # Where the image begins keeps two pages apart that show other parts of it.
                hasher.update((start - one.start_idx).to_bytes(8, "little", signed=True) + digest)
        parent = hasher.digest()
        found.append(parent)
    return found


__all__ = ["SIZE", "image", "pages", "root"]

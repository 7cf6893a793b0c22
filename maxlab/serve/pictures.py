"""Images in the messages of chats: their bytes out of data: URLs (RFC 2397). Nothing is fetched."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote_to_bytes

from maxlab.errors import InputError
from maxlab.pipelines.lib.tokenizer.images import size_of
from maxlab.serve.errors import ApiError
from maxlab.serve.limits import Limits

_KIND = "image_url"


def images_of(messages: Sequence[dict[str, Any]], limits: Limits) -> list[bytes]:
    """The bytes of the images of a conversation, in the order of their parts.

    Args:
        messages: The messages; a part that is an image is
            ``{"type": "image_url", "image_url": {"url": "data:image/png;base64,..."}}``.
        limits: How many images there may be, and how large.

    Raises:
        ApiError: 400, a part without such a URL, or with another one; bytes that are no image; too
            many images, or one with too many pixels.
    """
    found: list[bytes] = []
    for where, part in _parts(messages):
        if len(found) == limits.images:
            raise ApiError(
                400,
                f"at most {limits.images} images in a request expected ≠ more given",
                param=where,
                code="too_many_images",
            )
        data = _bytes_of(part, where)
        _require_size(data, where, limits)
        found.append(data)
    return found


def has_images(messages: Sequence[dict[str, Any]]) -> str | None:
    """The place of the first image in messages; None without one.

    Args:
        messages: The messages.

    Example:
        >>> has_images([{"content": "a"}, {"content": [{"type": "text"}, {"type": "image_url"}]}])
        'messages[1].content[1]'
    """
    return next((where for where, _ in _parts(messages)), None)


def _parts(messages: Sequence[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    """The parts that are images, with their places."""
    return [
        (f"messages[{n}].content[{k}]", part)
        for n, message in enumerate(messages)
        if isinstance(message.get("content"), list)
        for k, part in enumerate(message["content"])
        if isinstance(part, dict) and part.get("type") == _KIND
    ]


def _bytes_of(part: dict[str, Any], where: str) -> bytes:
    """The bytes that the URL of a part has.

    Raises:
        ApiError: 400, there is no URL, or not one with bytes in it.
    """
    given = part.get(_KIND)
    unknown = set(part) - {"type", _KIND}
    if not isinstance(given, dict) or not isinstance(given.get("url"), str) or unknown:
        raise _refused(where, 'a part {"type": "image_url", "image_url": {"url": ...}} expected')
    if unknown := set(given) - {"url", "detail"}:
        raise _refused(where, f"url and detail expected ≠ {', '.join(sorted(unknown))} given")
    if given.get("detail") not in (None, "auto"):
        raise _refused(where, "the model's own detail alone is offered: detail is auto")
    scheme, _, rest = given["url"].partition(":")
    if scheme.lower() != "data":
        raise _refused(
            where,
            "a data: URL with the bytes of the image expected: this server fetches nothing",
            "image_url_not_data",
        )
    kind, comma, data = rest.partition(",")
    media, *options = kind.lower().split(";")
    if not comma or not media.startswith("image/"):
        raise _refused(where, "data:image/...;base64, expected")
    try:
        if options and options[-1].strip() == "base64":
            return base64.b64decode(unquote_to_bytes(data), validate=True)
        return unquote_to_bytes(data)
    except (binascii.Error, ValueError) as error:
        raise _refused(where, f"base64 expected: {error}") from None


def _require_size(data: bytes, where: str, limits: Limits) -> None:
    """Raises unless the head of an image says that it is not too large, before it is unpacked.

    Raises:
        ApiError: 400, it is too large, or no image.
    """
    try:
        width, height = size_of(data, where)
    except InputError as error:
        raise _refused(where, error.what) from None
    if width * height > limits.image_pixels:
        raise _refused(
            where,
            f"at most {limits.image_pixels:,} pixels expected ≠ {width} x {height} given",
            "image_too_large",
        )


def _refused(where: str, told: str, code: str = "invalid_image") -> ApiError:
    return ApiError(400, f"{where}: {told}", param=where, code=code)


__all__ = ["has_images", "images_of"]

"""Reads the bodies of requests, within limits."""

from __future__ import annotations

import asyncio
import re
from typing import TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request

from maxlab.serve.errors import ApiError
from maxlab.serve.limits import Limits

B = TypeVar("B", bound=msgspec.Struct)
_PLACE = re.compile(r" - at `\$\.?([^`]*)`$")
_FIELD = re.compile(r"(?:field|unknown field) `([^`]*)`$")
_CLOSE = {"Connection": "close"}
_PASSED_OVER = 4
"""How many times the limit is read of a body that is too large. A client that still sends when the
connection is closed does not see the answer."""


async def read_body(request: Request, kind: type[B], limits: Limits) -> B:
    """The body of a request.

    Args:
        request: The request.
        kind: What the body is.
        limits: How large it may be, and how long it may take.

    Raises:
        ApiError: It is too large (413), comes too slowly (408), is of another type than JSON (415),
            or is not what it should be (400).
    """
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media != "application/json":
        # A page of another site may send other types without asking, and must not ask this server.
        raise ApiError(
            415, "a body of the type application/json expected", code="unsupported_media_type"
        )
    return decoded(await _read(request, limits), kind)


async def _read(request: Request, limits: Limits) -> bytes:
    """The bytes of a body."""
    told = request.headers.get("content-length", "0")
    most = limits.body_bytes * _PASSED_OVER
    if told.isdecimal() and int(told[:20]) > most:
        raise _too_large(limits)
    found, size = bytearray(), 0
    try:
        async with asyncio.timeout(limits.receive_s):
            async for part in request.stream():
                size += len(part)
                if size <= limits.body_bytes:
                    found += part
                elif size > most:
                    break
    except TimeoutError:
        raise ApiError(
            408,
            f"the body was not complete after {limits.receive_s:g} s",
            code="timeout",
            headers=_CLOSE,
        ) from None
    except ClientDisconnect:
        raise ApiError(400, "the body is not complete", headers=_CLOSE) from None
    if size > limits.body_bytes:
        raise _too_large(limits)
    return bytes(found)


def _too_large(limits: Limits) -> ApiError:
    return ApiError(
        413,
        f"a body of at most {limits.body_bytes} bytes expected",
        code="body_too_large",
        headers=_CLOSE,
    )


def decoded(data: bytes, kind: type[B]) -> B:
    """A body of its bytes.

    Args:
        data: JSON in UTF-8.
        kind: What the body is.

    Raises:
        ApiError: 400, it is not UTF-8, no JSON, or not what it should be.

    Example:
        >>> from maxlab.serve.requests import EmbeddingRequest
        >>> decoded(b'{"model": "m", "input": "text"}', EmbeddingRequest).input
        'text'
    """
    try:
        data.decode()
        return msgspec.json.decode(data, type=kind)
    except UnicodeDecodeError as error:
        raise ApiError(400, f"the body is not UTF-8: {error}", code="invalid_utf8") from None
    except msgspec.ValidationError as error:
        raise _invalid(str(error)) from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise ApiError(400, f"the body is no JSON: {error}", code="invalid_json") from None


def _invalid(told: str) -> ApiError:
    """The error of a body whose fields are not what they should be."""
    place = _PLACE.search(told)
    param = place[1] if place else None
    found = _FIELD.search(told if place is None else told[: place.start()])
    if found:
        param = found[1] if param is None else f"{param}.{found[1]}"
    code = "unknown_field" if "unknown field" in told else None
    return ApiError(400, told, param=param, code=code)


__all__ = ["decoded", "read_body"]

"""Errors of HTTP requests in the form of OpenAI's API, and what other errors become."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

from maxlab.errors import MaxlabError

_LOG = logging.getLogger(__name__)
INVALID = "invalid_request_error"
SERVER = "server_error"
_KNOWN: Mapping[str, tuple[int, str, str]] = {
    "ML142": (503, SERVER, "model_ended"),
    "ML160": (400, INVALID, "context_length_exceeded"),
    "ML191": (400, INVALID, "invalid_json_schema"),
    "ML539": (404, INVALID, "model_not_found"),
}
"""By the code of an error: the status, the type and the code that clients know it by."""


class ApiError(Exception):
    """A request that gets an error for an answer.

    Args:
        status: The status of HTTP.
        message: What is wrong.
        kind: The type of the error, as OpenAI's API names them.
        param: The field of the request that is wrong.
        code: The code of the error.
        headers: Headers of the response.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str = INVALID,
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.kind = status, message, kind
        self.param, self.code = param, code
        self.headers = dict(headers or {})

    def data(self) -> dict[str, Any]:
        """The body of the response as a dict."""
        return {
            "error": {
                "message": self.message,
                "type": self.kind,
                "param": self.param,
                "code": self.code,
            }
        }

    def body(self) -> bytes:
        """The body of the response, JSON in ASCII."""
        return json.dumps(self.data()).encode()


def api_error(error: BaseException) -> ApiError:
    """The answer to a request that ``error`` was raised for.

    What the request did wrong is told. What went wrong here is logged, and only its code is told.

    Args:
        error: What was raised.

    Example:
        >>> from maxlab.errors import InputError
        >>> found = api_error(InputError("ML160", "at most 8 tokens expected ≠ 9 given"))
        >>> found.status, found.code
        (400, 'context_length_exceeded')
    """
    if isinstance(error, ApiError):
        return error
    code: str | None = getattr(error, "code", None)
    if isinstance(error, MaxlabError) and code is not None and code in _KNOWN:
        status, kind, name = _KNOWN[code]
        retry = {"x-should-retry": "false"} if status >= 500 else None
        return ApiError(status, str(error), kind=kind, code=name, headers=retry)
    is_ours = isinstance(error, (RuntimeError, OSError)) or not isinstance(error, MaxlabError)
    # A NotImplementedError is a RuntimeError, and says what was asked for.
    if isinstance(error, NotImplementedError) and isinstance(error, MaxlabError):
        is_ours = False
    if not is_ours:
        return ApiError(400, str(error), code=code)
    _LOG.error("a request failed", exc_info=error)
    return ApiError(
        500, "the server failed to answer this request", kind=SERVER, code=code or "internal_error"
    )


def timed_out(seconds: float) -> ApiError:
    """The error of a request that took longer than ``seconds``."""
    return ApiError(
        504,
        f"the answer was not complete after {seconds:g} s",
        kind=SERVER,
        code="timeout",
        headers={"x-should-retry": "false"},
    )


__all__ = ["INVALID", "SERVER", "ApiError", "api_error", "timed_out"]

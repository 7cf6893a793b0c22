"""How much of everything a server takes, and the addresses that it may listen on."""

from __future__ import annotations

import ipaddress
import math
from dataclasses import dataclass, fields

from maxlab.errors import InputError, shown
from maxlab.interfaces import fields as rules

LEAST_TOKEN = 16
"""The fewest characters of a token."""
LOCAL_NAMES = frozenset({"localhost", "ip6-localhost"})


@dataclass(frozen=True)
class Limits:
    """How much a server takes before it refuses, and how long it waits before it gives up.

    Args:
        body_bytes: The most bytes of a request's body; a longer one gets 413.
        answers: The most answers that are written or wait at a time; a request for more gets 429.
        answers_each: The most answers of one request: prompts times ``n``.
        images: The most images of one request, each counted ``n`` times.
        image_pixels: The most pixels of an image.
        connections: The most connections; one more gets 503.
        request_s: Seconds for an answer; 504 after that.
        receive_s: Seconds for a request to arrive whole; its connection is closed after that.
        send_s: Seconds that a client may read nothing while there is something to read; its
            connection is closed after that, and its request called off.
        shutdown_s: Seconds for answers to end after the server was told to; they are called off
            then.

    Raises:
        InputTypeError: ML980, a limit of another type (a TypeError).
        InputError: ML981, a limit below 1, or of no time (a ValueError).

    Example:
        >>> Limits(answers=8).answers
        8
    """

    body_bytes: int = 4 << 20
    answers: int = 256
    answers_each: int = 128
    images: int = 16
    image_pixels: int = 1 << 24
    connections: int = 1024
    request_s: float = 600.0
    receive_s: float = 30.0
    send_s: float = 60.0
    shutdown_s: float = 30.0

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            name = f"Limits.{one.name}"
            if one.name.endswith("_s"):
                rules.real(0, math.inf, above=True)(name, value)
            else:
                rules.integer(1)(name, value)


def is_local(host: str) -> bool:
    """Whether only this machine can reach ``host``.

    Args:
        host: A name or an address.

    Example:
        >>> is_local("127.0.0.1"), is_local("::1"), is_local("0.0.0.0"), is_local("example.org")
        (True, True, False, False)
    """
    if host in LOCAL_NAMES:
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def check_address(host: str, token: str | None) -> None:
    """Raises unless a server may listen on ``host``: with a token, or for this machine alone.

    Args:
        host: A name or an address.
        token: The token that requests have to bring; None without one.

    Raises:
        InputError: ML188, no token, and others can reach the address; ML190, a token that is short
            or has characters that no header can have (each a ValueError).
    """
    if token is None:
        if not is_local(host):
            raise InputError(
                "ML188",
                f"a token is needed to listen on {shown(host)}, which other machines can reach",
                fix="set MAXLAB_SERVE_TOKEN or pass --token-file, or listen on 127.0.0.1",
            )
        return
    if len(token) < LEAST_TOKEN or not all("!" <= one <= "~" for one in token):
        raise InputError(
            "ML190",
            f"a token of at least {LEAST_TOKEN} visible ASCII characters expected ≠ "
            f"{len(token)} characters given",
            fix="python -c 'import secrets; print(secrets.token_urlsafe(32))'",
        )


__all__ = ["LEAST_TOKEN", "Limits", "check_address", "is_local"]

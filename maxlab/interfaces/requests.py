"""The request that every other one extends, and the identifier that names it."""

from __future__ import annotations

from dataclasses import dataclass, field

from maxlab.interfaces import fields
from maxlab.interfaces.showing import Shown


def _new() -> str:
    import uuid

    return str(uuid.uuid4())


@dataclass(frozen=True)
class RequestID:
    """A name of one request, which no string is taken for.

    Args:
        value: The text; without it a new random one (UUID4).

    Raises:
        InputTypeError: ``value`` is no string.
        InputError: ``value`` is empty.

    Example:
        >>> RequestID("a") == RequestID("a"), RequestID("a") == "a", RequestID() == RequestID()
        (True, False, False)
    """

    value: str = field(default_factory=_new)

    def __post_init__(self) -> None:
        fields.word("RequestID.value", self.value)

    def __str__(self) -> str:
        return self.value

    def __hash__(self) -> int:
        return hash(self.value)  # of the string, which keeps it


ID = fields.instance(RequestID, name="a RequestID")
"""The rule of a field that names a request."""


@dataclass(frozen=True)
class Request(Shown):
    """A request with its identifier; each task extends it with what it needs.

    Args:
        request_id: What the request is known by.

    Raises:
        InputTypeError: ``request_id`` is no `RequestID`.
    """

    request_id: RequestID

    def __post_init__(self) -> None:
        ID(f"{type(self).__name__}.request_id", self.request_id)


fields.declare(Request, {"request_id": ID})

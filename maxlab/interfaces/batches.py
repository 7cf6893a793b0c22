"""The inputs of pipelines: batches of contexts, of one device or of several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from maxlab.interfaces import fields
from maxlab.interfaces.requests import ID, RequestID
from maxlab.interfaces.showing import Shown

Context = TypeVar("Context")


class PipelineInputs(Shown):
    """The inputs of a pipeline; each pipeline extends it with what it takes.

    Example:
        >>> class Words(PipelineInputs):
        ...     def __init__(self, data: str, config: dict):
        ...         self.data = data
        ...         self.config = config
        >>> Words("once", {}).data
        'once'
    """


BATCH = fields.mapped(ID, fields.anything)
"""The rule of a batch: a dict from requests to contexts."""
BATCHES = fields.listed(BATCH)
"""The rule of a list of batches, one for each device."""


def distinct(owner: str, batches: Sequence[dict[RequestID, Context]]) -> None:
    """Raises when a request is in two of ``batches``.

    Raises:
        InputError: A request is in two batches.
    """
    seen: set[RequestID] = set()
    for batch in batches:
        if twice := seen & batch.keys():
            raise fields.contradiction(
                f"{owner}.batches: the request {next(iter(twice)).value!r} is in two batches",
                "put each request into the batch of one device",
            )
        seen |= batch.keys()


def merged(batches: Sequence[dict[RequestID, Context]]) -> dict[RequestID, Context]:
    """All of ``batches`` as one dict, in their order."""
    return {key: context for batch in batches for key, context in batch.items()}

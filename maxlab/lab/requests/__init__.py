"""Requests, parameters, contexts, batches and results in a notebook, and the view of sampling.

``facts``     the fields of an object as a table
``tokens``    the tokens of a context, coloured by state
``batches``   the contexts of a batch, a row each; outputs of a pipeline
``chart``     a distribution of the next token, before and after the rules
``widget``    ``SamplingView``, whose controls move that distribution
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from maxlab.lab.mime import wish
from maxlab.lab.requests import batches, facts, tokens
from maxlab.lab.requests.style import page
from maxlab.markup import visible
from maxlab.pipelines.core.showing import (
    ShownContext,
    ShowsTokens,
    headline,
    listing,
    runs_of,
)


def mimebundle(
    obj: Any, include: Collection[str] | None, exclude: Collection[str] | None
) -> dict[str, Any]:
    """The MIME bundle of a request, a context, a batch or a result.

    Args:
        obj: What to show.
        include: MIME types to make; all when left out.
        exclude: MIME types to leave out.
    """
    wanted = wish(include, exclude)
    data: dict[str, Any] = {}
    if wanted("text/plain"):
        data["text/plain"] = visible(_plain(obj))
    if wanted("text/html"):
        data["text/html"] = _page(obj)
    return data


def _plain(obj: Any) -> str:
    if isinstance(obj, ShownContext):
        return repr(obj)
    if isinstance(obj, ShowsTokens):
        return listing(obj, runs_of(obj))
    if batches.is_batch(obj):
        return batches.text(obj)
    return facts.text(obj)


def _page(obj: Any) -> str:
    if isinstance(obj, ShowsTokens):
        obj = obj.show()
    if isinstance(obj, ShownContext):
        label = headline(obj.context)
        return page(label, tokens.body(obj) + facts.folded(obj.context))
    if batches.is_batch(obj):
        return page(batches.label(obj), batches.body(obj))
    return page(facts.label(obj), facts.body(obj))


__all__ = ["mimebundle"]

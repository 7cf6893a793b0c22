"""Requests, parameters, contexts, batches and results in a notebook, and the view of sampling.

``facts``     the fields of an object as a table
``tokens``    the tokens of a context, coloured by state
``batches``   the contexts of a batch, a row each; outputs of a pipeline
``audio``     a player of an output with sound, and its waveform
``chart``     a distribution of the next token, before and after the rules
``widget``    ``SamplingView``, whose controls move that distribution
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from maxlab.interfaces import AudioGenerationOutput
from maxlab.lab.mime import forms_of
from maxlab.lab.requests import audio, batches, facts, tokens
from maxlab.lab.requests.style import page
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
    return forms_of(include, exclude, text=lambda: _plain(obj), page=lambda: _page(obj))


def _plain(obj: Any) -> str:
    if isinstance(obj, ShownContext):
        return repr(obj)
    if isinstance(obj, ShowsTokens):
        return listing(obj, runs_of(obj))
    if batches.is_batch(obj):
        return batches.text(obj)
    if isinstance(obj, AudioGenerationOutput):
        return "\n".join([audio.label(obj), *facts.text(obj).splitlines()[1:]])
    return facts.text(obj)


def _page(obj: Any) -> str:
    if isinstance(obj, ShowsTokens):
        obj = obj.show()
    if isinstance(obj, ShownContext):
        label = headline(obj.context)
        return page(label, tokens.body(obj) + facts.folded(obj.context))
    if batches.is_batch(obj):
        return page(batches.label(obj), batches.body(obj))
    if isinstance(obj, AudioGenerationOutput):
        return page(audio.label(obj), audio.body(obj) + facts.folded(obj))
    return page(facts.label(obj), facts.body(obj))


__all__ = ["mimebundle"]

"""The messages of an answer whose tokens can be chosen, and its synced traits.

The kernel draws: `page` is the answer as HTML and `about` what is told of the chosen token, whose
texts are escaped. The graph of its step is a view of its own below.
"""

from __future__ import annotations

from typing import Literal, TypedDict

from maxlab.lab.protocol.messages import NeedBundle, ProtocolVersion


class ChooseToken(TypedDict):
    """The user wants the graph of the step that gave a token."""

    type: Literal["choose"]
    protocol: ProtocolVersion
    token: int
    """Its place in the answer; -1 closes the graph."""


GenerationClientMessage = NeedBundle | ChooseToken
"""Answer to kernel."""


class GenerationTraits(TypedDict):
    """Traits of the widget model, all synced."""

    kind: Literal["generation"]
    page: str
    """The answer as HTML, with its style sheet."""
    about: str
    """The step of the chosen token as HTML; empty without one."""
    chosen: int
    """The place of the chosen token; -1 without one."""
    revision: int
    """Grows with every answer of the kernel."""

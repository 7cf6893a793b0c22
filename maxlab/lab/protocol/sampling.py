"""The messages of a view of sampling, and its synced traits.

The kernel computes and draws: `page` is the chart as HTML, whose texts are escaped. What a control
is set to goes to the kernel as the trait of its name.
"""

from __future__ import annotations

from typing import Literal, TypedDict

from maxlab.lab.protocol.messages import NeedBundle, ProtocolVersion

SamplingName = Literal[
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "repetition_penalty",
    "frequency_penalty",
    "presence_penalty",
]
"""A parameter with a slider."""


class SamplingControl(TypedDict):
    """A slider of a parameter, and the box for its number."""

    name: SamplingName
    label: str
    help: str
    """The effect of the parameter, in a sentence."""
    least: float
    most: float
    """The end of the slider; the box takes larger numbers, where the parameter does."""
    step: float
    limit: float | None
    """The largest number of the box; null where there is none."""


class DrawTokens(TypedDict):
    """The user wants `count` tokens drawn."""

    type: Literal["draw"]
    protocol: ProtocolVersion
    count: int


SamplingClientMessage = NeedBundle | DrawTokens
"""View of sampling to kernel."""


class SamplingTraits(TypedDict):
    """Traits of the widget model, all synced."""

    kind: Literal["sampling"]
    controls: list[SamplingControl]
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    repetition_penalty: float
    frequency_penalty: float
    presence_penalty: float
    seed: str
    """An integer in [0, 2**64), as text, since numbers of JavaScript cannot hold all of them."""
    label: str
    """The heading of the view."""
    css: str
    """The style sheet of the chart and the controls."""
    page: str
    """The chart as HTML."""
    problem: str
    """Why the chart is not of these settings; empty when it is."""
    revision: int
    """Grows with every answer of the kernel."""

"""The messages of the board of a scheduler, and its synced traits.

The kernel draws: `page` is the board as HTML, whose texts are escaped. The number of steps that are
shown goes to the kernel as the trait `position`.
"""

from __future__ import annotations

from typing import Literal, TypedDict

from maxlab.lab.protocol.messages import NeedBundle, ProtocolVersion


class ControlScheduler(TypedDict):
    """The user wants the scheduler paused or resumed, or one step taken."""

    type: Literal["control"]
    protocol: ProtocolVersion
    action: Literal["pause", "resume", "step"]


BoardClientMessage = NeedBundle | ControlScheduler
"""Board to kernel."""


class BoardTraits(TypedDict):
    """Traits of the widget model, all synced."""

    kind: Literal["board"]
    page: str
    """The board as HTML, with its style sheet."""
    position: int
    """The number of steps that are shown, from the beginning."""
    count: int
    """The number of steps."""
    is_live: bool
    """Whether steps may be added; a recorded run is replayed."""
    can_control: bool
    """Whether there is a scheduler that can be paused."""
    is_paused: bool
    problem: str
    """Why what was asked for last was not done; empty when it was."""
    revision: int
    """Grows with every answer of the kernel."""

"""The messages between a dashboard and the kernel, or the Jupyter server, and its synced traits.

Samples travel in the first buffer of a message: `count` times (float64, seconds since the first
sample of the recording), then `count` rows of `width` values (float32, NaN where there is none).
"""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from maxlab.lab.protocol.messages import (
    BundleMessage,
    FailedMessage,
    NeedBundle,
    ProtocolVersion,
    Theme,
)

# ---------------------------------------------------------------- dashboard to kernel


class Watch(TypedDict):
    """Somebody looks at the dashboard: send what is newer than `cursor`, now and as it comes.

    Sent again every ten seconds; a kernel that is not told so for thirty stops sending.
    """

    type: Literal["watch"]
    protocol: ProtocolVersion
    cursor: str


class StartMonitor(TypedDict):
    """The user pressed Start: sample every `period` seconds."""

    type: Literal["start"]
    protocol: ProtocolVersion
    period: float


class StopMonitor(TypedDict):
    """The user pressed Stop."""

    type: Literal["stop"]
    protocol: ProtocolVersion


class DetailRequest(TypedDict):
    """All samples between these seconds are wanted: what was sent of them was thinned out."""

    type: Literal["detail"]
    protocol: ProtocolVersion
    start: float
    end: float


class RecordingRequest(TypedDict):
    """The user wants the recording as a file."""

    type: Literal["recording"]
    protocol: ProtocolVersion


DashboardClientMessage = (
    NeedBundle | Watch | StartMonitor | StopMonitor | DetailRequest | RecordingRequest
)
"""Dashboard to kernel."""

# ---------------------------------------------------------------- kernel to dashboard


class MetricColumn(TypedDict):
    """One counter of a recording."""

    key: str
    """Its name, unique in a recording, such as `nv0.util`."""
    device: str
    """The device that it belongs to: `host`, `tree`, `nv0`, `amd0`…"""
    quantity: str
    """The quantity that it measures; columns of one quantity share a chart."""
    unit: str
    label: str
    """Its name for people, beside the device."""
    top: float | None
    """The most that it can be; null when there is no such."""
    average: bool
    """Whether a value is the mean of a window that ends at the sample."""
    window_ns: int | None
    """Nanoseconds of that window; null when it reaches back to the sample before."""


MarkRow = tuple[str, float, float | None, str, str, int, int, str, str]
"""Id, start and length in seconds (null while it lasts), kind, name, count, process of a mark; and
of a cell, its id in the notebook and its first line."""

ProcessRow = tuple[int, str, int]
"""Number, name and bytes of a process that holds memory of a GPU."""

ProcessTable = tuple[float, dict[str, list[ProcessRow]]]
"""The processes that held memory of each GPU from this second on."""


UserRow = tuple[int, int, float | None, int, int, str]
"""Number of a process, and of the kernel that it belongs to (that of the session where it belongs
to none, 0 outside of the session); its share of all cores in percent, null while that is not known;
bytes in memory; bytes of GPUs; name."""

KernelOwner = tuple[str, str]
"""Id of a kernel, and the name of its notebook; empty when Jupyter does not say."""

UserTable = tuple[float, list[UserRow], dict[str, KernelOwner]]
"""The use of the host by processes of the user from this second on, and the kernels among them."""


class MonitorState(TypedDict):
    """The state of the monitor now."""

    running: bool
    replay: bool
    title: str
    label: str
    period: float
    """Seconds from one sample to the next."""
    names: dict[str, str]
    """The names of GPUs."""
    ended: str
    """Why the recording ended; empty while it goes on."""
    epoch: float
    """Milliseconds of the calendar at second 0; 0 when they are not known."""
    now: float
    """The second that it is now."""
    recorded: bool


class Samples(TypedDict):
    """How many samples the first buffer has, and of how many columns."""

    count: int
    width: int


class FrameMessage(Samples):
    """New samples, marks and state."""

    type: Literal["frame"]
    protocol: ProtocolVersion
    reset: bool
    """It begins anew, and carries the columns."""
    cursor: str
    """Names all that the view has then."""
    continues: NotRequired[str | None]
    """The cursor that it continues; null when it begins anew."""
    columns: NotRequired[list[MetricColumn]]
    breaks: list[float]
    """Seconds at which a new run of samples begins, with a gap before."""
    marks: list[MarkRow]
    problems: dict[str, str]
    processes: list[ProcessTable]
    """The changes, oldest first."""
    users: list[UserTable]
    """The changes, oldest first; thinned out when it begins anew."""
    state: MonitorState
    thin: bool
    """Samples were left out, so that a closer look needs to ask for them."""


class DetailMessage(Samples):
    """The samples of a stretch of time."""

    type: Literal["detail"]
    protocol: ProtocolVersion
    generation: str
    start: float
    end: float


class RecordingMessage(TypedDict):
    """The recording as a file, in the first buffer."""

    type: Literal["recording"]
    protocol: ProtocolVersion


DashboardServerMessage = (
    BundleMessage | FrameMessage | DetailMessage | RecordingMessage | FailedMessage
)
"""Kernel to dashboard."""


# ---------------------------------------------------------------- the server, asked for this moment


class GpuNow(TypedDict):
    """One GPU of the machine, for a line in the status bar."""

    id: str
    """Such as `nv0`."""
    percent: float
    """Share of the time in which it computed."""
    used: int
    """Bytes of its memory in use."""
    total: int


class MachineNow(TypedDict):
    """How busy the machine is, whether or not anything is recorded."""

    cpu: float | None
    """Share of all cores since the question before, in percent; null at the first."""
    memory: int
    """Bytes in use."""
    memory_total: int
    gpus: list[GpuNow]
    recording: bool


class DashboardTraits(TypedDict):
    """Traits of the dashboard's widget model, all synced."""

    kind: Literal["dashboard"]
    height: int
    """Height in CSS pixels; 0 is that of the charts."""
    theme: Theme
    not_live: str
    """Empty while a kernel stands behind the view; otherwise why it cannot record."""

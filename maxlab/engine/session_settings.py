"""The settings of sessions that are one of a few words."""

from __future__ import annotations

import enum
from typing import TypeVar

from maxlab.errors import ArgumentTypeError

Kind = TypeVar("Kind", bound=enum.Enum)


class GPUProfilingMode(enum.Enum):
    """How much GPU profiling records."""

    OFF = "off"
    ON = "on"
    DETAILED = "detailed"


class LogLevel(enum.Enum):
    """The log levels of kernels."""

    NOTSET = "notset"
    TRACE = "trace"
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    CRITICAL = "critical"


class AssertLevel(enum.Enum):
    """Which assertions are kept in compiled kernels."""

    NONE = "none"
    WARN = "warn"
    SAFE = "safe"
    ALL = "all"


class SplitKReductionPrecision(enum.Enum):
    """In which precision partial products are added."""

    ACCUM = "ACCUM"
    OUTPUT = "OUTPUT"


def member_of(kind: type[Kind], given: object, what: str) -> Kind:
    """The member of the enum ``kind`` that ``given`` is or names, in any case.

    Raises:
        ArgumentTypeError: ML622, it names none.
    """
    if isinstance(given, kind):
        return given
    if isinstance(given, str):
        for member in kind:
            if given.lower() in (member.name.lower(), str(member.value).lower()):
                return member
    names = ", ".join(str(m.value) for m in kind)
    raise ArgumentTypeError(
        "ML622",
        f"{what} must be one of {names}, got {given!r}",
        fix=f"pass a member of {kind.__name__}, or its name",
    )


__all__ = [
    "AssertLevel",
    "GPUProfilingMode",
    "LogLevel",
    "SplitKReductionPrecision",
    "member_of",
]

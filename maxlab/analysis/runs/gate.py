"""Limits of what may become slower, for programs that must say yes or no."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from maxlab.analysis.runs.diff import Diff, interval_text, kernels_text
from maxlab.analysis.runs.noise import Estimate
from maxlab.analysis.runs.pairs import Pair, percent
from maxlab.errors import ArgumentError

What = Literal["run", "kernels", "kernel"]

_WHATS: dict[str, What] = {"run": "run", "kernels": "kernels", "kernel": "kernel"}
_TEXT = re.compile(r"(?:(run|kernels|kernel):)?\+?(\d+(?:\.\d+)?)%")


@dataclass(frozen=True, slots=True)
class Limit:
    """How much slower something may become.

    Attributes:
        what: ``"run"``, the time of a whole run; ``"kernels"``, of all kernels together; or
            ``"kernel"``, of any kernel.
        fraction: 0.05 for 5%.
    """

    what: What
    fraction: float

    def __str__(self) -> str:
        return f"{self.what}:+{100 * self.fraction:g}%"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict of a comparison on a limit.

    Attributes:
        limit: The limit.
        exceeded: A sentence for each thing that is shown to be slower by as much.
        unclear: A sentence for each thing that may be, and is not shown to be.
    """

    limit: Limit
    exceeded: tuple[str, ...]
    unclear: tuple[str, ...]


def parse_limit(text: str) -> Limit:
    """The limit that ``text`` stands for.

    Raises:
        ArgumentError: ML849, it is none.

    Example:
        >>> parse_limit("+5%"), str(parse_limit("kernel:+12.5%"))
        (Limit(what='run', fraction=0.05), 'kernel:+12.5%')
    """
    found = _TEXT.fullmatch(text.strip())
    if found is None:
        raise ArgumentError(
            "ML849",
            f"{text!r} is no limit",
            fix="write +5% for whole runs, kernels:+5% for their sum, kernel:+5% for any of them",
        )
    what = _WHATS[found[1] or "run"]
    return Limit(what, float(found[2]) / 100)


def judge(diff: Diff, limit: Limit) -> Verdict:
    """The ``Verdict`` of ``diff`` on ``limit``.

    A limit is exceeded when the ratio of medians reaches it *and* a difference is shown; a ratio
    that reaches it within its noise is unclear.
    """
    exceeded: list[str] = []
    unclear: list[str] = []
    for pair in diff.pairs:
        for name, found, is_shown in _measured(pair, limit.what):
            if found.ratio >= 1 + limit.fraction:
                said = f"{pair.after.label}: {name} {percent(found.ratio)} {interval_text(found)}"
                (exceeded if is_shown else unclear).append(said)
    return Verdict(limit, tuple(exceeded), tuple(unclear))


def _measured(pair: Pair, what: What) -> list[tuple[str, Estimate, bool]]:
    """Measurements that the limit is about: the name, the change, and whether it is shown to be
    slower.
    """
    if what == "run":
        return [("one run", pair.wall, pair.wall_state == "slower")]
    if what == "kernels":
        return [("its kernels", pair.total, pair.total_state == "slower")]
    return [
        (f"{kernels_text(c)} {c.name}", c.estimate, c.state == "slower")
        for c in pair.changes
        if c.before and c.after
    ]

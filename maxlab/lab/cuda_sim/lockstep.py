"""The recorded threads of a block as warps would have run them on a device: `replay`.

The simulator runs one thread after another. Here the lanes of each warp are put side by side again,
by the model that SIMT hardware is described with (Fung et al., "Dynamic Warp Formation and
Scheduling for Efficient GPU Control Flow", MICRO 2007): lanes that go different ways at a branch
run one way after the other, and meet again at the branch's immediate post-dominator, the first
place that all ways lead to. Post-dominators are taken in the graph of the ways that threads of the
block went.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from maxlab.driver.sim import Recording
from maxlab.driver.sim.record import BEGINS, KINDS

WARP = 32
_EXIT = -1
_VECTOR = r"(?:u?(?:char|short|int|longlong)|float|double|half|__half|__nv_bfloat16)[248]"
_VECTOR_VARIABLE = re.compile(rf"\b{_VECTOR}\b[\s*&]*(?:const\b|__restrict__|\s)*(\w+)")


@dataclass(frozen=True, slots=True)
class Request:
    """One memory instruction of a warp: what its active lanes asked for together.

    Attributes:
        warp: the warp, in its block.
        line: where it is in the text, or None.
        kind: ``"read"``, ``"write"``, ``"atomic"`` or ``"asynchronous copy"``.
        region: the buffer, by its number in the recording.
        size: bytes for each lane.
        offsets: for each active lane, the lane and its bytes from the beginning of the buffer.
    """

    warp: int
    line: int | None
    kind: str
    region: int
    size: int
    offsets: tuple[tuple[int, int], ...]


@dataclass(slots=True)
class LineCount:
    """How often the warps of the block ran a line, and with how many lanes.

    Attributes:
        issues: times that a warp ran it.
        active: lanes that took part, summed over the issues.
        lanes: lanes that these warps have, summed over the issues.
        masks: for each warp that ran it, the lanes that ever took part, as bits.
    """

    issues: int = 0
    active: int = 0
    lanes: int = 0
    masks: dict[int, int] = field(default_factory=dict)

    @property
    def diverged(self) -> bool:
        """Whether a warp ran it without some of its lanes."""
        return self.active < self.lanes


@dataclass(frozen=True, slots=True)
class Replay:
    """The steps of the warps of a block.

    Attributes:
        requests: their memory instructions, warp after warp.
        lines: the counts of each line of the text that begins a stretch of code without branches,
            or has an access to memory.
        last: the last line that each thread is known to have reached, or None.
    """

    requests: tuple[Request, ...]
    lines: dict[int, LineCount]
    last: tuple[int | None, ...]


@dataclass(slots=True)
class _Stretch:
    """A stretch of code without branches that one lane ran: its place and its accesses."""

    pc: int
    accesses: list[tuple[int, int, int, int, int]]  # pc, kind, region, size, offset


def replay(recording: Recording, source: str) -> Replay:
    """The steps of the warps of the recorded block.

    Args:
        recording: what each thread did alone.
        source: the text; a line that names a vector (``float4``, or a variable declared with it)
            has accesses of vectors, which the compiler may have taken apart.
    """
    lanes = _stretches(recording)
    meets = _post_dominators(recording, lanes)
    vectors = _vector_lines(source)
    requests: list[Request] = []
    lines: dict[int, LineCount] = {}
    for warp in range((len(lanes) + WARP - 1) // WARP):
        own = lanes[warp * WARP : (warp + 1) * WARP]
        _Warp(warp, own, meets, recording, vectors, requests, lines).run()
    events = recording.events
    last: list[int | None] = [None] * len(lanes)
    for thread, pc in zip(events["thread"].tolist(), events["pc"].tolist(), strict=True):
        last[thread] = recording.lines.get(pc) or last[thread]
    return Replay(tuple(requests), lines, tuple(last))


class _CutError(Exception):
    """The record of a lane has come to its end, and the lane had not."""


class _Warp:
    """The lanes of one warp while they are put side by side."""

    def __init__(
        self,
        number: int,
        lanes: Sequence[list[_Stretch]],
        meets: dict[int, int],
        recording: Recording,
        vectors: set[int],
        requests: list[Request],
        lines: dict[int, LineCount],
    ) -> None:
        self._number = number
        self._lanes = lanes
        self._at = [0] * len(lanes)
        self._meets = meets
        self._line_of = recording.lines
        self._vectors = vectors
        self._requests = requests
        self._lines = lines
        ends = recording.ends[number * WARP : (number + 1) * WARP]
        self._cut = {lane for lane, end in enumerate(ends) if end.cut}

    def run(self) -> None:
        """Run all lanes to their ends, or until the record of one is cut: what comes later would
        lack it."""
        with contextlib.suppress(_CutError):
            self._walk(range(len(self._lanes)), _EXIT)

    def _head(self, lane: int) -> int:
        stretches, at = self._lanes[lane], self._at[lane]
        return stretches[at].pc if at < len(stretches) else _EXIT

    def _walk(self, lanes: Iterable[int], stop: int) -> None:
        """Run ``lanes`` until each has ended or is at ``stop``.

        Each call for one way of a branch has fewer lanes than its caller: at most 32 are nested.
        """
        active, last = list(lanes), _EXIT
        while active := [n for n in active if self._head(n) not in (stop, _EXIT)]:
            ways: dict[int, list[int]] = {}
            for lane in active:
                ways.setdefault(self._head(lane), []).append(lane)
            if len(ways) == 1:
                (last,) = ways
                self._issue(active)
                continue
            meet = self._meets.get(last, _EXIT)
            for way in sorted(ways):
                if way != meet:
                    self._walk(ways[way], meet)

    def _issue(self, lanes: list[int]) -> None:
        """Run one stretch with ``lanes``, which are all at its beginning."""
        if any(self._at[n] == len(self._lanes[n]) - 1 for n in self._cut.intersection(lanes)):
            raise _CutError  # within the stretch, or behind it
        together: dict[tuple[int, int], list[tuple[int, tuple[int, int, int, int, int]]]] = {}
        for lane in lanes:
            stretch = self._lanes[lane][self._at[lane]]
            self._at[lane] += 1
            seen: dict[int, int] = {}
            for access in stretch.accesses:
                count = seen[access[0]] = seen.get(access[0], -1) + 1
                together.setdefault((access[0], count), []).append((lane, access))
        touched = {self._line_of.get(stretch.pc): lanes}
        made: list[Request] = []
        for (pc, _), group in together.items():
            line = self._line_of.get(pc)
            touched.setdefault(line, [lane for lane, _ in group])
            by_place: dict[tuple[int, int, int], list[tuple[int, int]]] = {}
            for lane, (_, kind, region, size, offset) in group:
                by_place.setdefault((kind, region, size), []).append((lane, offset))
            for (kind, region, size), offsets in by_place.items():
                made.append(Request(self._number, line, KINDS[kind], region, size, tuple(offsets)))
        self._requests += _joined(made, self._vectors)
        for line, active in touched.items():
            if line is not None:
                self._count(line, active)

    def _count(self, line: int, active: Sequence[int]) -> None:
        count = self._lines.setdefault(line, LineCount())
        count.issues += 1
        count.active += len(active)
        count.lanes += len(self._lanes)
        mask = count.masks.get(self._number, 0)
        for lane in active:
            mask |= 1 << lane
        count.masks[self._number] = mask


def _stretches(recording: Recording) -> list[list[_Stretch]]:
    lanes: list[list[_Stretch]] = [[] for _ in recording.ends]
    for thread, kind, pc, _, size, region, offset in recording.events.tolist():
        if kind == BEGINS:
            lanes[thread].append(_Stretch(pc, []))
        elif lanes[thread]:
            lanes[thread][-1].accesses.append((pc, kind, region, size, offset))
    return lanes


def _post_dominators(recording: Recording, lanes: Sequence[list[_Stretch]]) -> dict[int, int]:
    """Where the ways from each stretch meet again, by its place."""
    after: dict[int, set[int]] = {}
    for end, stretches in zip(recording.ends, lanes, strict=True):
        for here, following in itertools.pairwise(stretches):
            after.setdefault(here.pc, set()).add(following.pc)
        if stretches:
            after_last = after.setdefault(stretches[-1].pc, set())
            # Where a launch was stopped, or the record, is no end of the program.
            if end.state == "ended" and not end.cut:
                after_last.add(_EXIT)
    for ways in after.values():
        if not ways:
            ways.add(_EXIT)
    number_of = {pc: n for n, pc in enumerate([_EXIT, *sorted(after)])}
    everything = (1 << len(number_of)) - 1
    after_all = dict.fromkeys(after, everything)
    after_all[_EXIT] = 1
    changed = True
    while changed:
        changed = False
        for pc in sorted(after, reverse=True):
            common = everything
            for way in after[pc]:
                common &= after_all[way]
            common |= 1 << number_of[pc]
            if common != after_all[pc]:
                after_all[pc], changed = common, True
    places = list(number_of)
    meets: dict[int, int] = {}
    for pc in after:
        # Of those that all ways lead to, the nearest is the one that all the others follow.
        strict = after_all[pc] & ~(1 << number_of[pc])
        meets[pc] = next((p for p in places if after_all[p] == strict), _EXIT)
    return meets


def _joined(requests: list[Request], vectors: set[int]) -> list[Request]:
    """``requests`` of one stretch, those of the parts of a vector as one."""
    joined: list[Request] = []
    at = 0
    while at < len(requests):
        first = requests[at]
        count = 1
        if first.line in vectors:
            count = next((n for n in (4, 2) if _is_vector(requests[at : at + n], n)), 1)
        whole = min(requests[at : at + count], key=lambda r: r.offsets[0][1])
        joined.append(
            Request(first.warp, first.line, first.kind, first.region, count * first.size,
                    whole.offsets)
        )  # fmt: skip
        at += count
    return joined


def _is_vector(parts: list[Request], count: int) -> bool:
    """Whether ``parts`` are the elements of one aligned vector in each lane."""
    first = parts[0]
    same = {(p.line, p.kind, p.region, p.size, tuple(n for n, _ in p.offsets)) for p in parts}
    if len(parts) < count or len(same) > 1 or count * first.size > 16:
        return False
    for elements in zip(*(p.offsets for p in parts), strict=True):
        offsets = sorted(offset for _, offset in elements)
        wanted = range(offsets[0], offsets[0] + count * first.size, first.size)
        if offsets[0] % (count * first.size) or offsets != list(wanted):
            return False
    return True


def _vector_lines(source: str) -> set[int]:
    """The lines of ``source`` that name a vector type or a variable declared with one."""
    names = {match[1] for match in _VECTOR_VARIABLE.finditer(source)}
    words = "|".join([_VECTOR, *map(re.escape, sorted(names))])
    pattern = re.compile(rf"\b(?:{words})\b")
    lines = source.splitlines()
    return {number for number, text in enumerate(lines, 1) if pattern.search(text)}

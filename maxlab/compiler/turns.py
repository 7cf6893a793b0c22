"""From one turn of a loop to the next: where the body writes what is carried, and which slots get
each other's memory then.

``reuse`` has given memory that is carried to some outputs of the body. The others get memory beside
what they become. A *ring* is a list of slots each of which gets the memory of the next one::

    x = a @ x            x → beside → x             the two change places
    a, b = b, a          a → b → a
    a, b = b, f(a)       a → b → beside → a         where f reads a elsewhere than it writes
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from maxlab.compiler.groups import Group
from maxlab.compiler.launches import Items
from maxlab.compiler.plan import Exchange, Plan, Slot
from maxlab.compiler.plan_sink import PlanSink
from maxlab.compiler.traffic import Counted
from maxlab.ir import DeviceRef
from maxlab.ir.poly import Poly

SMALL_BYTES = 64
"""Bytes that are copied from turn to turn rather than exchanged."""
SETTLE_BYTES = 4096
"""Bytes of each value that ``mx_k_settle`` holds at once (``MX_SETTLE`` of mx_abi.h)."""


@dataclass(frozen=True, slots=True)
class Turn:
    """The work between two turns.

    Attributes:
        following: The slots of the outputs of the body.
        copies: (slot, the slot that is copied to it).
        rings: Slots, each of which gets the memory of the next one in its ring.
    """

    following: list[int]
    copies: list[tuple[int, int]]
    rings: list[list[int]]

    @property
    def moves(self) -> list[tuple[int, int]]:
        """(slot, the slot whose memory it gets), of all rings."""
        return [pair for r in self.rings for pair in zip(r, (*r[1:], r[0]), strict=True)]

    @property
    def homes(self) -> list[tuple[int, int]]:
        """The same where each slot has its own memory."""
        return [(slot, slot) for ring in self.rings for slot in ring]


def next_turn(
    plan: Plan, changed: Sequence[int], homes: Mapping[int, int], states: Sequence[int]
) -> Turn:
    """The work from one turn to the next.

    Args:
        plan: To which slots are added.
        changed: For each output of the body, the number of the carried value that it becomes.
        homes: By the place of an output in ``changed``, the number of the carried value whose
            memory it has; the others get new slots.
        states: The slots of what is carried.
    """
    slots = plan.slots
    following: list[int] = []
    moves: dict[int, int] = {}
    for place, number in enumerate(changed):
        state = states[number]
        if place in homes:
            following.append(states[homes[place]])
        else:
            following.append(len(slots))
            slots.append(
                dataclasses.replace(
                    slots[state], number=len(slots), kind="arena", value="", index=-1
                )
            )
        moves[state] = following[-1]
    taken = set(moves.values())
    copies = [
        (state, source)
        for state, source in moves.items()
        if source not in moves and state not in taken and _is_small(slots[state])
    ]
    for state, _ in copies:
        del moves[state]
    for state in list(moves):
        if state not in taken:
            # Close the chain: its free slot goes to the slot that lost its memory.
            end = state
            while end in moves:
                end = moves[end]
            moves[end] = state
    return Turn(following, copies, rings_of(moves))


def _is_small(slot: Slot) -> bool:
    """Whether it is as much to copy ``slot`` as to exchange it."""
    size = slot.nbytes
    return not slot.device.is_gpu() and size.is_constant and size.value <= SMALL_BYTES


def rings_of(moves: Mapping[int, int]) -> list[list[int]]:
    """The rings of a permutation, without what stays.

    Example:
        >>> rings_of({0: 1, 1: 0, 2: 2, 3: 5, 5: 4, 4: 3})
        [[0, 1], [3, 5, 4]]
    """
    found: list[list[int]] = []
    seen: set[int] = set()
    for start in moves:
        if start in seen or moves[start] == start:
            continue
        ring = [start]
        while moves[ring[-1]] != start:
            ring.append(moves[ring[-1]])
        seen.update(ring)
        found.append(ring)
    return found


def add_settling(
    sink: PlanSink, group: Group, rings: Sequence[Sequence[int]], states: Sequence[int]
) -> None:
    """Add steps that bring ``states`` home, from where the last turn has put them: one for all
    slots of a size and device, because some may be where others belong."""
    alike: dict[tuple[Poly, DeviceRef], list[int]] = {}
    for ring in rings:
        slot = sink.plan.slots[ring[0]]
        alike.setdefault((slot.nbytes, slot.device), []).extend(ring)
    for (nbytes, device), cells in alike.items():
        _settle(sink, group, nbytes, device, cells, [n for n in cells if n in states])


def _settle(
    sink: PlanSink,
    group: Group,
    nbytes: Poly,
    device: DeviceRef,
    cells: Sequence[int],
    homes: Sequence[int],
) -> None:
    count = len(homes)
    launch = Items(
        nbytes,
        Poly.constant(SETTLE_BYTES // 8),
        Poly.constant(count * SETTLE_BYTES),
        unit=SETTLE_BYTES,
        extra=(count,),
    )
    step = sink.add(
        group, "settle", None, [*homes, *homes], launch, nbytes,
        sizes=[], builtin="mx_k_settle", touching=Counted(), computed=(),
    )  # fmt: skip
    step.device = device
    step.keeps = tuple(n for n in cells if n not in homes)
    step.exchange = Exchange(tuple((n, n) for n in cells))


__all__ = ["Turn", "add_settling", "next_turn", "rings_of"]

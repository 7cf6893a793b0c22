"""Memory that the steps of a loop exchange, where devices work in it: what the executor does for
loops of the host alone (``MX_EXCHANGE``, ``mx_k_settle``), for slots of any device.
"""

from __future__ import annotations

from typing import Any, Protocol

from maxlab.compiler.plan import Step


class Places(Protocol):
    """Where the slots of one execution are, as a frame says it.

    Attributes:
        addresses: The address of each slot.
        homes: By the number of a step that settles: the own addresses of the slots that it brings
            home.
    """

    addresses: Any
    homes: dict[int, dict[int, int]]


def exchange(step: Step, frame: Places) -> None:
    """Let slots of ``frame`` have the memory that ``step`` gives them from here on."""
    assert step.exchange is not None
    addresses = frame.addresses
    if all(slot == source for slot, source in step.exchange.moves):  # a loop begins
        homes = {slot: addresses[slot] for slot, _ in step.exchange.moves}
        for at in step.exchange.settling:
            frame.homes[step.number + at] = homes
        return
    made = [(slot, addresses[source]) for slot, source in step.exchange.moves]
    for slot, address in made:
        addresses[slot] = address


def in_turn(sources: dict[int, int]) -> list[tuple[int | None, int | None]]:
    """The copies (target, source), one after another, that bring to each place of ``sources`` what
    is at another one now. None is a place for one of them beside all others.

    Example:
        >>> in_turn({1: 2, 2: 3, 4: 4})
        [(1, 2), (2, 3)]
        >>> in_turn({1: 2, 2: 1})
        [(None, 1), (1, 2), (2, None)]
    """
    left: dict[int, int | None] = {to: at for to, at in sources.items() if to != at}
    found: list[tuple[int | None, int | None]] = []
    while left:
        needed = set(left.values())
        free = next((to for to in left if to not in needed), None)
        if free is None:  # only rings are left: one place of a ring is emptied
            free = next(iter(left))
            found.append((None, free))
            left = {to: None if at == free else at for to, at in left.items()}
        found.append((free, left.pop(free)))
    return found


__all__ = ["exchange", "in_turn"]

"""Binds programs anew when the variants of their kernels were measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from maxlab.compiler.plan import GpuLaunch, Launch

if TYPE_CHECKING:
    from maxlab.toolchain.variants import Choice, Variant

Launches = Mapping[int, Launch | GpuLaunch]
"""How the steps of a program are launched, by their numbers."""


def chosen(launches: Launches) -> dict[int, tuple[Choice, Variant]]:
    """The choices among ``launches`` by the numbers of the steps, each with the variant that the
    step was bound with."""
    return {
        number: (launch.choice, launch.variant)
        for number, launch in launches.items()
        if isinstance(launch, Launch) and launch.choice is not None and launch.variant is not None
    }


def when_measured(launches: Launches, renew: Callable[[], None]) -> None:
    """Call ``renew`` when all variants of the kernels of ``launches`` are measured, if another one
    than what they were bound with is to be taken; by the thread that measures, or at once.

    ``renew`` must not keep their program alive for longer than its model does.
    """
    mine = list(chosen(launches).values())
    pending = {choice for choice, _ in mine if choice.is_pending}
    if not pending:
        return  # what was chosen had been measured before
    left = _Left(pending, mine, renew)
    for choice in pending:
        choice.then(left.one_less)


class _Left:
    """The choices of a program that are not made yet."""

    def __init__(
        self,
        pending: set[Choice],
        taken: list[tuple[Choice, Variant]],
        renew: Callable[[], None],
    ) -> None:
        self._pending = pending
        self._taken = taken
        self._renew = renew
        self._is_done = False

    def one_less(self) -> None:
        if self._is_done or any(choice.is_pending for choice in self._pending):
            return
        self._is_done = True
        if any(choice.variant is not variant for choice, variant in self._taken):
            self._renew()


__all__ = ["chosen", "when_measured"]

"""Chooses variants: the guess at once, and what was measured as soon as it is known."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from maxlab import trace
from maxlab.config import config
from maxlab.errors import MaxlabError
from maxlab.toolchain.compiler import cpu_digest
from maxlab.toolchain.variants import timing, verdicts
from maxlab.toolchain.variants.family import Case, Family, Variant
from maxlab.toolchain.variants.measurer import Measurer

Origin = Literal["only", "off", "guess", "measured", "kept"]


class State(NamedTuple):
    """The state of a choice.

    Attributes:
        variant: What is taken.
        origin: Where it comes from: ``"only"`` no other one applies here; ``"off"`` the guess,
            since choosing is off; ``"guess"`` nothing was measured yet; ``"measured"`` by this
            process; ``"kept"`` measured before, by any process.
        times: Nanoseconds of the variants by their names; empty when nothing was measured.
        trial: The work that they were timed on, in words.
        note: What went wrong on the way, in words; empty for nothing.
    """

    variant: Variant
    origin: Origin
    times: dict[str, int]
    trial: str = ""
    note: str = ""


class Choice:
    """The choice for a class of sizes of a family, in this process.

    Attributes:
        family: The family.
        case: The class.
        variants: Those that apply here, the guess first.
        state: What is chosen now, as a whole: it is exchanged, never changed.
    """

    def __init__(
        self, family: Family, case: Case, variants: Sequence[Variant], state: State
    ) -> None:
        self.family = family
        self.case = case
        self.variants = variants
        self.state = state
        self.is_pending = False
        self._calls: list[Callable[[], None]] = []
        self._lock = threading.Lock()

    @property
    def variant(self) -> Variant:
        """The variant that is taken now."""
        return self.state.variant

    def then(self, call: Callable[[], None]) -> None:
        """Call ``call`` once the measurement that is pending has ended, by the thread that made it;
        at once when none is pending."""
        with self._lock:
            if self.is_pending:
                self._calls.append(call)
                return
        call()

    def settle(self, state: State) -> None:
        """Let ``state`` be the state, and nothing be pending any more."""
        with self._lock:
            self.state = state
            self.is_pending = False
            calls, self._calls = self._calls, []
        for call in calls:
            call()

    def decide(self, stopped: Callable[[], bool] = lambda: False) -> None:
        """Measure the variants, keep the verdict, and take what it says. The guess stays where that
        fails, or ``stopped`` ends it."""
        guess = self.state.variant
        if stopped():
            return
        try:
            trial = self.family.trial(self.case)
            times = timing.measured(self.variants, trial, stopped)
            chosen = timing.fastest(self.variants, times)
            if stopped():
                self.settle(State(guess, "guess", {}))
                return
            found = verdicts.Verdict(
                self.family.name,
                self.case,
                tuple(one.name for one in self.variants),
                chosen.name,
                times,
                trial.words,
                cpu_digest(),
                verdicts.made_of(),
            )
            counts, note = verdicts.keep(self.family, found, self.variants)
            self.settle(_state_of(counts, self.variants, "measured", note))
        except (MaxlabError, MemoryError, OSError) as error:
            note = f"nothing was measured: {error}"
            trace.emit("warning", "variants", message=note, fix="the guess is used")
            self.settle(State(guess, "guess", {}, "", note))


def _state_of(
    verdict: verdicts.Verdict, variants: Sequence[Variant], origin: Origin, note: str = ""
) -> State:
    by_name = {one.name: one for one in variants}
    return State(by_name[verdict.chosen], origin, verdict.times, verdict.trial, note)


_Key = tuple[Path, str, Case, bool, str]
_choices: dict[_Key, Choice] = {}
_lock = threading.Lock()
_measurer = Measurer()


def choose(family: Family, case: Case, *, exact: bool = True) -> Choice:
    """The choice for ``case``: the verdict that is known, or else the guess, while the variants are
    measured by another thread. See `maxlab.config` for ``MAXLAB_VARIANTS``.

    Args:
        family: The family of kernels.
        case: The sizes.
        exact: Take no variant that gives other bits than the guess.
    """
    shape_class = family.shape_class(case)
    mode = config().variants
    name = f"{family.name} {family.member}"
    key = config().cache_dir, name, shape_class, exact or mode == "deterministic", mode
    found = _choices.get(key)
    if found is not None:
        return found
    with _lock:
        found = _choices.get(key)
        if found is None:
            found = _choices[key] = _new(family, shape_class, exact=key[3], mode=mode)
    return found


def _new(family: Family, case: Case, *, exact: bool, mode: str) -> Choice:
    variants = family.usable(case, exact=exact)
    guess = variants[0]
    if len(variants) == 1:
        return Choice(family, case, variants, State(guess, "only", {}))
    if mode == "off":
        return Choice(family, case, variants, State(guess, "off", {}))
    verdict, note = verdicts.kept(family, case, variants)
    if verdict is not None:
        return Choice(family, case, variants, _state_of(verdict, variants, "kept"))
    made = Choice(family, case, variants, State(guess, "guess", {}, "", note))
    if mode == "deterministic":
        made.decide()
    else:
        made.is_pending = True
        _measurer.add(made.decide)
    return made


def wait(timeout_s: float | None = None) -> bool:
    """Whether all that was to be measured is measured; waits for that, ``timeout_s`` at most."""
    return _measurer.wait(timeout_s)


def forget() -> None:
    """Forget all choices of this process; verdicts on disk stay."""
    with _lock:
        _choices.clear()


def _after_fork() -> None:
    """In a child, where the thread that measures is not."""
    global _lock, _measurer
    _lock = threading.Lock()
    _measurer = Measurer()
    for key, choice in list(_choices.items()):
        if choice.is_pending:
            del _choices[key]


os.register_at_fork(after_in_child=_after_fork)

__all__ = ["Choice", "State", "choose", "forget", "wait"]

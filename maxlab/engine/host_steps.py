"""Steps of the host for one tuple of sizes, written down for the C executor."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from maxlab.compiler import Compiled
from maxlab.compiler.launches import HostFormula
from maxlab.compiler.plan import Launch, Step
from maxlab.engine.launching import host_launch
from maxlab.engine.size_rules import past_counting
from maxlab.ir.dims import LARGEST
from maxlab.ir.poly import Poly

ON_CALLER = 1
"""The kind of a step that only the thread that calls the executor may run (mx_abi.h)."""
CONTROL = {"branch": 2, "jump": 3, "exchange": 4}
"""The kinds of steps that say where to go on, or which memory the next ones have."""


def refused_steps(steps: Sequence[Step], env: Mapping[str, int]) -> frozenset[int]:
    """The numbers of the steps that cannot run for these sizes: those behind a ``refuse`` whose
    guard does not hold."""
    found: set[int] = set()
    for step in steps:
        if step.guard is not None and step.number not in found and not step.guard.holds(env):
            found.update(range(step.number + 1, step.number + step.jump))
    return frozenset(found)


def exchanged(own: int, steps: Sequence[Step], starts: Sequence[int]) -> list[int]:
    """The numbers that tell the executor of an ``exchange``: how many pointers it takes and where
    each is, how many it sets and, of each, where it is and which of those taken it becomes.

    Args:
        own: The place of the step in its table.
        steps: All steps of that.
        starts: Where the pointers of each begin.
    """
    step = steps[own]
    assert step.exchange is not None
    taken = dict(zip(step.pointers, range(starts[own], starts[own + 1]), strict=True))
    moves = dict(step.exchange.moves)
    numbers = {slot: n for n, slot in enumerate(moves)}
    listed = [len(moves), *(taken[source] for source in moves.values())]
    places: list[int] = []
    for at in (*step.exchange.steps, *step.exchange.settling):
        other = steps[own + at]
        first = len(other.pointers) // 2 if at in step.exchange.settling else 0
        for n, slot in enumerate(other.pointers[first:], starts[own + at] + first):
            if slot in numbers:
                places += (n, numbers[slot])
    return [*listed, len(places) // 2, *places]


class Formulas:
    """The formulas of the steps of a plan, each once: layers of a model have equal ones, and to
    compare them takes longer than to evaluate them.

    Args:
        steps: All steps, by their numbers.

    Attributes:
        launches: How steps are launched.
        launch_of: Of each step, the number of its formula in ``launches``.
        sizes: What kernels are told.
        sizes_of: Of each step, the numbers of its sizes in ``sizes``.
    """

    def __init__(self, steps: Sequence[Step]) -> None:
        launches: dict[HostFormula | None, int] = {}
        sizes: dict[Poly, int] = {}
        self.launch_of = [launches.setdefault(step.launch, len(launches)) for step in steps]
        self.sizes_of = [
            tuple(sizes.setdefault(size, len(sizes)) for size in step.sizes) for step in steps
        ]
        self.launches = list(launches)
        self.sizes = list(sizes)


class _Values:
    """The values of ``formulas`` for the sizes ``env``, as far as they were asked for."""

    def __init__(
        self,
        formulas: Formulas,
        compiled: Compiled,
        env: Mapping[str, int],
        threads: int,
        runtime: Any,
    ) -> None:
        self._formulas = formulas
        self._compiled = compiled
        self._env = env
        self._given = threads, runtime
        self._launches: list[Launch | None] = [None] * len(formulas.launches)
        self._sizes: list[int | None] = [None] * len(formulas.sizes)

    def launch(self, step: Step) -> Launch:
        """The launch of ``step``, with the text that it runs where there are several."""
        at = self._formulas.launch_of[step.number]
        launch = self._launches[at]
        if launch is None:
            formula = self._formulas.launches[at]
            launch = self._launches[at] = host_launch(formula, self._env, *self._given)
        if not launch.extent or not step.others:
            return launch
        from maxlab.engine.text_variants import with_text

        return with_text(launch, step, self._compiled)

    def sizes(self, step: Step, launch: Launch) -> list[int]:
        """The sizes that ``step`` is told.

        Raises:
            ShapeError: ML223, more than 63 bits can count.
        """
        known, found = self._sizes, []
        for at in self._formulas.sizes_of[step.number]:
            value = known[at]
            if value is None:
                value = known[at] = self._formulas.sizes[at].evaluate(self._env)
            found.append(value)
        if max((launch.extent, *found, *launch.extra)) > LARGEST:
            op = self._compiled.plan.facts.ops.get(step.nodes[0]) if step.nodes else None
            what = f"a size of {step.id}, which computes {', '.join(step.nodes) or step.kind}"
            raise past_counting(what, self._env, op.at if op is not None else None)
        return found


class HostSteps:
    """Steps that the C executor walks.

    Args:
        kept: The slots whose addresses a frame never changes: pointers to others are read from the
            frame when the steps are run.
        refused: The numbers of the steps that cannot run for these sizes.

    Attributes:
        walked: The steps.
        env: The sizes.
        launches: How each step is cut into chunks.
        pointers: The slots that the pointers of all steps stand for, one behind the other.
        is_program: Whether some steps say where to go on.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        compiled: Compiled,
        formulas: Formulas,
        env: Mapping[str, int],
        threads: int,
        runtime: Any,
        builtins: Mapping[str, int],
        kept: Collection[int],
        refused: frozenset[int],
    ) -> None:
        ffi = runtime.ffi
        rows: list[tuple[Any, int, int, int, int, int, int]] = []
        dims: list[int] = []
        self.pointers: list[int] = []
        self.scratch = 64
        self.launches: list[Launch] = []
        self._held: list[Any] = []
        self.env = env
        self._rows: dict[int, int] = {}  # of steps whose kernel better code may take the place of
        self.is_program = any(step.kind in CONTROL for step in steps)
        starts = [0, *itertools.accumulate(len(step.pointers) for step in steps)]
        values = _Values(formulas, compiled, env, threads, runtime)
        for step in steps:
            idle = step.number in refused or (step.guard is not None and step.guard.holds(env))
            launch = Launch((), 0, 1, 0) if idle else values.launch(step)
            self.launches.append(launch)
            if step.kind in CONTROL:
                kind = CONTROL[step.kind]
                rows.append((ffi.NULL, len(self.pointers), len(dims), step.jump, 1, kind, 0))
                if step.exchange is not None:
                    listed = exchanged(len(rows) - 1, steps, starts)
                    dims.extend(listed)
                    self.scratch = max(self.scratch, listed[0] * 8)
                self.pointers.extend(step.pointers)
                continue
            name = "" if launch.variant is None else launch.variant.name
            if step.builtin:
                address = builtins[step.builtin]
            elif name in step.others:
                address = compiled.other_address(step, name)
            else:
                address = compiled.address_of(step, env)
            function = ffi.cast("mx_fn", address)
            kind = ON_CALLER if step.call is not None else 0
            if not step.builtin and step.long is None and name not in step.others:
                self._rows[step.number] = len(rows)
            if compiled.guard is not None and step.arguments and launch.extent:
                self._rows.pop(step.number, None)
                function = compiled.guard.entry(step, env, launch, threads)
                kind = ON_CALLER
                self._held.append(function)
            if compiled.log is not None and step.printed is not None and step.printed.logs:
                dims.append(compiled.log.address(step.number))  # the word before the sizes
            place = len(self.pointers), len(dims)
            piece = 0 if kind == ON_CALLER else launch.piece  # Python is called once
            rows.append((function, *place, launch.extent, launch.grain, kind, piece))
            if launch.extent:
                dims.extend(values.sizes(step, launch))
                dims.extend(launch.extra)
            self.pointers.extend(step.pointers)
            self.scratch = max(self.scratch, launch.scratch)
        self.walked = list(steps)
        self.steps = ffi.new("mx_step[]", rows) if rows else ffi.NULL
        self.dims = ffi.new("i64[]", dims or [0])
        patches = [(n, slot) for n, slot in enumerate(self.pointers) if slot not in kept]
        self.patches = ffi.new("mx_patch[]", patches) if patches else ffi.NULL
        self.npatch = len(patches)
        self._function = ffi.typeof("mx_fn")
        self._ffi = ffi
        if not compiled.kernels.are_final:
            compiled.kernels.write_in(self)

    def put(self, number: int, address: int) -> None:
        """Let the step ``number`` run the code at ``address`` from now on, if it is in here.

        The executor reads the address for each chunk, so some chunks of a step may be of one code
        and some of the other, whose results are the same.
        """
        row = self._rows.get(number)
        if row is not None:
            self.steps[row].fn = self._ffi.cast(self._function, address)

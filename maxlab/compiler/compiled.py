"""``Compiled``: a graph as a plan and loaded kernels, and what only debuggers ask of how it became
them.

A model runs by its plan and its kernels alone. The passes, the schedule and the loops are `Debug`:
whoever compiled has them, and a model whose plan came from the cache compiles its graph once more
when they are first asked for.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from maxlab.compiler.conventions import LONG_ROW_COST
from maxlab.compiler.early import MANY_KERNELS, Early, recipes_in
from maxlab.compiler.loops import Kernel
from maxlab.compiler.options import DEFAULT, Options
from maxlab.compiler.plan import Plan, Slot, Step
from maxlab.compiler.step_kernels import StepKernels
from maxlab.errors import GraphError
from maxlab.toolchain import KernelSource, LoadedKernel, compile_units
from maxlab.toolchain.flags import Flags

if TYPE_CHECKING:
    from maxlab.compiler.lower import Lowered
    from maxlab.compiler.passes import PassRecord
    from maxlab.compiler.passes.ahead import Ahead
    from maxlab.compiler.printed import Printed
    from maxlab.compiler.schedule import Schedule
    from maxlab.ir import Function, Op, Value


@dataclass(slots=True)
class Debug:
    """How a graph became a plan.

    Attributes:
        source: The function that was compiled.
        function: The function after all passes.
        plan: The plan, with the loops of its steps.
        schedule: The groups of the function.
        passes: What each pass did.
        kept: By the ids of ``options.keep``, the value of ``function`` that each became; of an op,
            also by the ids of its results.
        slots: The number of the slot that holds a value of ``function``, for those in memory.
        bodies: The functions that loops and branches run, after all passes.
        schedules: The schedules of all bodies, each with the subgraph that it is of, or that it is
            a part of; None for what the graph itself runs.
        ahead: The function of what is computed when the model is loaded, if anything.
        timings_ns: Nanoseconds of the phases ``passes``, ``schedule`` and ``plan``.
    """

    source: Function
    function: Function
    plan: Plan
    schedule: Schedule
    passes: list[PassRecord]
    kept: dict[str, Value] = field(default_factory=dict)
    slots: dict[Value, int] = field(default_factory=dict)
    bodies: list[Function] = field(default_factory=list)
    schedules: list[tuple[Function | None, Schedule]] = field(default_factory=list)
    ahead: Ahead | None = None
    timings_ns: dict[str, int] = field(default_factory=dict)


class Compiled:
    """A compiled function.

    Args:
        debug: How it was compiled, or what compiles it once more when that is asked for.
        source: The function that was compiled; that of ``debug`` where it is not given.

    Attributes:
        plan: Slots and steps.
        kernels: The loaded machine code of each step, by step number; built-in kernels have none.
        timings_ns: Nanoseconds of the phases ``passes``, ``schedule``, ``plan`` and ``kernels``, or
            ``cached`` and ``kernels``, to which the engine adds ``weights`` and the newest
            ``bind``.
        options: What was asked for.
        cached: Where the plan came from, or why it did not come from the cache, in words.
        later_kernels: Those that were compiled when they were needed, by symbol: for very long rows
            (``address_of``), and of other variants (``other_address``).
        log: Where its kernels on the host write messages, once the engine has made it.
        guard: What runs its kernels of users in another process, where the engine guards them.
    """

    def __init__(
        self,
        plan: Plan,
        debug: Debug | Callable[[], Debug],
        kernels: StepKernels,
        timings_ns: dict[str, int],
        options: Options = DEFAULT,
        cached: str = "",
        source: Function | None = None,
    ) -> None:
        self.plan = plan
        self.kernels = kernels
        self.timings_ns = timings_ns
        self.options = options
        self.cached = cached
        self.later_kernels: dict[str, LoadedKernel] = {}
        self.log: Any = None
        self.guard: Any = None
        self._debug = debug
        self._source = source
        self._lock = threading.RLock()

    # ------------------------------------------------------------ how it was compiled
    @property
    def debug(self) -> Debug:
        """How it was compiled; compiled once more where the plan came from the cache."""
        if not isinstance(self._debug, Debug):
            with self._lock:
                if not isinstance(self._debug, Debug):
                    self._debug = self._debug()
        return self._debug

    @property
    def source(self) -> Function:
        """The function that was compiled."""
        return self.debug.source if self._source is None else self._source

    @property
    def function(self) -> Function:
        """The function after all passes."""
        return self.debug.function

    @property
    def schedule(self) -> Schedule:
        """The groups of ``function``."""
        return self.debug.schedule

    @property
    def passes(self) -> list[PassRecord]:
        """The record of each pass."""
        return self.debug.passes

    @property
    def kept(self) -> dict[str, Value]:
        """The values that ``options.keep`` names; see ``Debug``."""
        return self.debug.kept

    @property
    def slots(self) -> dict[Value, int]:
        """The number of the slot that holds a value of ``function``, for those in memory."""
        return self.debug.slots

    @property
    def bodies(self) -> list[Function]:
        """The functions that loops and branches run, after all passes."""
        return self.debug.bodies

    @property
    def schedules(self) -> list[tuple[Function | None, Schedule]]:
        """The schedules of all bodies; see ``Debug``."""
        return self.debug.schedules

    @property
    def ahead(self) -> Ahead | None:
        """The function of what is computed when the model is loaded; ``plan.facts.ahead`` says what
        that is."""
        return None if self.plan.facts.ahead is None else self.debug.ahead

    def loops_of(self, step: Step) -> Lowered | None:
        """The loops that the kernel of ``step`` is printed from; None of products and of what has
        kernels of its own."""
        return step.loops if step.loops is not None else self.debug.plan.steps[step.number].loops

    # ------------------------------------------------------------ running
    def address_of(self, step: Step, env: Mapping[str, int]) -> int:
        """The address of the kernel that ``step``, which has a text, runs for dims of these sizes.

        Raises:
            ToolchainError: A kernel for long rows, which is compiled when it is first needed, could
                not be compiled.
        """
        if step.long is None or step.long.evaluate(env) <= LONG_ROW_COST:
            return self.kernels[step.number].address
        printed = step.in_strips()
        assert printed is not None, "what may have long rows has a text for them"
        return self._later(printed)

    def other_address(self, step: Step, name: str) -> int:
        """The address of the kernel that the variant ``name`` of ``step`` runs.

        Raises:
            ToolchainError: It is compiled when it is first needed, and could not be.
        """
        return self._later(step.other(name))

    def _later(self, printed: Printed) -> int:
        """The address of a kernel that is compiled when it is first needed."""
        found = self.later_kernels.get(printed.symbol)
        if found is None:
            source = KernelSource(printed.symbol, printed.text)
            (found,) = compile_units([source], flags=Flags(accuracy=self.options.accuracy))
            self.later_kernels[printed.symbol] = found
        return found.address

    # ------------------------------------------------------------ looking
    def find(self, id: str) -> Op | None:
        """The op with this id, as it was compiled or as it was written."""
        for function in (self.function, *self.bodies, self.source):
            found = function.find(id)
            if found is not None:
                return found
        return None

    def slot_of(self, value: Value) -> Slot | None:
        """The slot that holds ``value`` of ``function``, or, of a view, what it looks at; None when
        it is in no memory.
        """
        base = value
        while base not in self.slots and self.schedule.is_view(base):
            assert base.op is not None
            base = base.op.operands[0]
        number = self.slots.get(base)
        return None if number is None else self.plan.slots[number]

    def step(self, id: str) -> Step:
        """The step ``k<number>``.

        Raises:
            KeyError: There is no such step.
        """
        for step in self.plan.steps:
            if step.id == id:
                return step
        raise KeyError(id)


def compilable(function: Function, options: Options) -> Function:
    """``function`` as it is compiled, with opaque values as numbers.

    Raises:
        GraphError: ML322, it has no output; ML784, two kernels declare one opaque type otherwise.
        ArgumentError: ML626, ``options`` name what it does not have.
    """
    from maxlab.compiler.handles import numbered

    if function.output is None:
        raise GraphError(
            "ML322", f"the graph {function.name!r} has no output yet", fix="call graph.output(...)"
        )
    function = numbered(function)
    if options.apart:
        from maxlab.compiler.marking import check_ids

        check_ids(function, options)
    return function


def units_of(plan: Plan) -> dict[int, KernelSource]:
    """The source to compile for each step of ``plan`` on the CPU that has a text, by its number.

    Where there are many, those of one loop begin as quick code. Not those that add up: vectors add
    in another order.
    """
    printed = {s.number: s.printed for s in plan.steps if s.printed and s.gpu is None}
    many = len({one.text for one in printed.values()}) >= MANY_KERNELS
    return {
        number: KernelSource(one.symbol, one.text, *_how(one.text, many))
        for number, one in printed.items()
    }


def _loops(text: str) -> int:
    """The loops of a kernel, without those over the lanes of a vector."""
    return text.count("for (") - text.count("for (i64 l = 0")


def early_for(options: Options) -> Early:
    """An ``Early`` for the kernels of a plan that is to be made with ``options``."""
    return Early(options, lambda name, text: KernelSource(name, text, *_how(text, True)))


def loaded_kernels(
    plan: Plan, options: Options, made: Mapping[KernelSource, LoadedKernel] | None = None
) -> StepKernels:
    """The kernels of ``plan`` on the CPU, by the numbers of their steps; compiled if they are new.

    Args:
        plan: Its steps.
        options: What it was compiled with.
        made: What was compiled for it already.

    Raises:
        ToolchainError: No compiler, or one that failed.
    """
    units = units_of(plan)
    names = {unit.name: plan.steps[number].name for number, unit in units.items()}
    flags = Flags(accuracy=options.accuracy)
    kernels = StepKernels()
    here = weakref.ref(kernels)

    def better(unit: KernelSource, kernel: LoadedKernel) -> None:
        found = here()
        if found is not None:
            found.improve(unit, kernel)

    exact = options.accuracy != "fast"  # what may be rewritten may be so in one of them only
    loaded = compile_units(
        list(units.values()), flags=flags, called=names, better=better if exact else None,
        recipe=recipes_in(_loops_of(plan, options)),
    )  # fmt: skip
    if made:  # not found, but made for it
        loaded = [made.get(one, k) for one, k in zip(units.values(), loaded, strict=True)]
    kernels.loaded(units, loaded)
    return kernels


def _loops_of(plan: Plan, options: Options) -> dict[str, Kernel]:
    """The loops that the kernels of ``plan`` are printed from, by their symbols; without those
    whose text somebody has replaced."""
    replaced = {symbol for symbol, _ in options.replaced}
    found: dict[str, Kernel] = {}
    for step in plan.steps:
        if step.printed is not None and step.loops is not None:
            if step.printed.symbol not in replaced:
                found[step.printed.symbol] = step.loops.kernel
    return found


def _how(text: str, many: bool) -> tuple[bool, bool]:
    """Whether the kernel ``text`` is compiled briefly, and whether it begins as quick code."""
    brief = many and _loops(text) == 1
    return brief, brief and "reduction(" not in text


__all__ = ["Compiled", "Debug", "compilable", "loaded_kernels", "units_of"]

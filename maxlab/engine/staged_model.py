"""A model of the CPU that binds dims while it runs: its plan in stages, each bound when the sizes
are known that the stages before it computed.

A stage is one call of the executor. Behind it the numbers are read that become sizes, and the next
stage is bound for them, or found: bindings are kept by these numbers, as those of a whole plan are
by the shapes of the inputs.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxlab import trace
from maxlab.compiler import Compiled
from maxlab.driver import Tensor
from maxlab.driver.tensor import host_tensor
from maxlab.engine.binding import (
    CONTROL,
    HostSteps,
    add_buffers,
    allocate,
    layout_arena,
    output_shape,
    slot_uses,
    stage_slots,
)
from maxlab.engine.file_watch import settled
from maxlab.engine.model import MAX_BINDINGS, Loader, Model
from maxlab.engine.size_rules import SizeRules
from maxlab.engine.stamps import BEGIN, END, Taken, side_by_side
from maxlab.engine.weights import Prepared
from maxlab.engine.whole import Outputs
from maxlab.opset.effects import silent

Array = np.ndarray[Any, Any]
BLOCKS = 4
"""Blocks of memory that a model keeps for the stages of its next runs."""
MAX_LATER = 16
"""Tuples of computed sizes for which a stage keeps the next one; the oldest goes first."""


@dataclass(frozen=True, slots=True)
class Program:
    """What the stages of one model share, and keep alive for runs that are going on."""

    compiled: Compiled
    rules: SizeRules
    prepared: Prepared
    threads: int
    runtime: Any
    builtins: Mapping[str, int]


class Stage:
    """One stage of a plan for one tuple of sizes.

    Attributes:
        program: What all stages share.
        number: Which stage it is.
        env: The size of every symbol that is known in it.
        host: The steps.
        offsets: The places in its memory of the slots that it is the first to use.
        arena_nbytes: The bytes of its memory.
        outputs: The outputs that it is the first to write: (number, slot, dtype, shape, bytes).
        later: The next stage, by the sizes that this one computed.
    """

    def __init__(self, program: Program, number: int, env: dict[str, int]) -> None:
        compiled, plan = program.compiled, program.compiled.plan
        self.program = program
        self.number = number
        self.env = env
        steps = [plan.steps[n] for n in plan.stages[number]]
        self.host = HostSteps(
            steps, compiled, env, program.threads, program.runtime, program.builtins
        )
        here = stage_slots(compiled)[number]
        self.arena, self.arena_nbytes = layout_arena(here, slot_uses(compiled), env)
        self.offsets = {entry.slot: entry.offset for entry in self.arena}
        self.outputs: list[tuple[int, int, Any, tuple[int, ...], int]] = []
        for slot in here:
            if slot.kind == "output":  # which may have another shape than what it is made of
                shape, _ = output_shape(plan.facts.outputs[slot.index], env)
                nbytes = slot.nbytes.evaluate(env)
                self.outputs.append((slot.index, slot.number, slot.dtype, shape, nbytes))
        self.binds = [step.binds.slot for step in steps if step.binds is not None]
        self.later: dict[tuple[int, ...], Stage] = {}
        self.held: object = None

    @property
    def is_last(self) -> bool:
        """Whether no stage comes behind it."""
        return self.number + 1 == len(self.program.compiled.plan.stages)

    def next(self, sizes: tuple[int, ...]) -> Stage:
        """The stage behind this one, which computed ``sizes``.

        Raises:
            InputError: ML603, a condition that an op states.
            ExecutionError: ML726, a dim has another size already; ML727, a size is negative.
        """
        found = self.later.get(sizes)
        if found is None:
            env = self.program.rules.bind(self.env, self.number, sizes)
            name = self.program.compiled.plan.facts.name
            with trace.span("bind", name, dims=dict(env)):
                found = Stage(self.program, self.number + 1, env)
            kept = dict(list(self.later.items())[1 - MAX_LATER :])
            self.later = {**kept, sizes: found}  # other threads may look at the old one
        return found


class Blocks:
    """Memory for stages: their sizes differ from run to run, so that blocks are shared by all."""

    def __init__(self, runtime: Any) -> None:
        self._runtime = runtime
        self._free: list[tuple[int, Any]] = []
        self._lock = threading.Lock()

    def take(self, nbytes: int) -> tuple[int, Any]:
        """A block of at least ``nbytes``, and how many it has.

        Raises:
            ExecutionError: ML654, there is not enough memory.
        """
        with self._lock:
            for n, (size, _) in enumerate(self._free):  # the smallest first
                if size >= nbytes:
                    return self._free.pop(n)
        size = max(nbytes + nbytes // 4, 64)  # the next run may need a little more
        return size, allocate(self._runtime, size)

    def give(self, blocks: Sequence[tuple[int, Any]]) -> None:
        """Keep ``blocks``, or the largest of those that there are."""
        with self._lock:
            self._free.extend(blocks)
            self._free.sort(key=lambda block: block[0])
            del self._free[: max(len(self._free) - BLOCKS, 0)]


class Run:
    """The memory of one execution: where each slot is, and what has been made so far."""

    def __init__(self, program: Program, inputs: Sequence[Tensor], blocks: Blocks) -> None:
        self.program = program
        self.addresses: dict[int, int] = dict(program.prepared.addresses)
        self.made: dict[int, Tensor] = {}
        self.blocks: list[tuple[int, Any]] = []
        self._pool = blocks
        for slot in program.compiled.plan.slots:
            if slot.kind == "input":
                self.addresses[slot.number] = inputs[slot.index].address
        self._inputs = inputs

    def enter(self, stage: Stage) -> None:
        """Give memory to what ``stage`` is the first to use."""
        if stage.offsets:
            block = self._pool.take(stage.arena_nbytes)
            self.blocks.append(block)
            base = int(self.program.runtime.ffi.cast("uintptr_t", block[1]))
            for number, offset in stage.offsets.items():
                self.addresses[number] = base + offset
        for index, number, dtype, shape, nbytes in stage.outputs:
            made = self.made[index] = host_tensor(dtype, shape, nbytes)
            self.addresses[number] = made.address

    def sizes(self, stage: Stage) -> tuple[int, ...]:
        """The numbers that ``stage`` computed for sizes."""
        ffi = self.program.runtime.ffi
        return tuple(int(ffi.cast("i64 *", self.addresses[n])[0]) for n in stage.binds)

    def outputs(self) -> list[Tensor]:
        """The outputs, when all stages have run."""
        add_buffers(self.program.compiled.plan, self._inputs, self.made)
        return Outputs(self.made[n] for n in sorted(self.made))

    def leave(self) -> None:
        """Give the memory back that only this run used."""
        self._pool.give(self.blocks)
        self.blocks = []


class StagedModel(Model):
    """A loaded graph whose dims are in part computed. ``InferenceSession.load`` makes it.

    Example:
        >>> import numpy as np
        >>> from maxlab import engine
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType, ops
        >>> with Graph("where", input_types=[TensorType(DType.float32, ["n"])]) as graph:
        ...     graph.output(ops.nonzero(graph.inputs[0], "hits"))
        >>> model = engine.InferenceSession().load(graph)
        >>> model(np.array([0, 2, 0, 3], np.float32))[0].to_numpy()
        array([[1],
               [3]])
    """

    _bindings: dict[Any, Any]

    def __init__(
        self,
        compiled: Compiled,
        prepared: Prepared,
        threads: int,
        runtime: Any,
        graph: Any,
        loader: Loader,
    ) -> None:
        super().__init__(compiled, prepared, threads, runtime, graph, loader)
        self._blocks = Blocks(runtime)
        self._last: dict[str, int] = {}

    # ------------------------------------------------------------ running
    def _run(self, args: Sequence[Any], times: Any) -> list[Tensor]:
        return self._stages(self._accepted(args), times)[0]

    def _stages(self, tensors: Sequence[Tensor], times: Any) -> tuple[list[Tensor], list[Stage]]:
        """The outputs, and the stages that made them. ``times`` has the ``mx_times`` of each."""
        stage = self._first(tuple(x._shape for x in tensors))
        run = Run(stage.program, tensors, self._blocks)
        passed: list[Stage] = []
        try:
            while True:
                run.enter(stage)
                passed.append(stage)
                self._execute_stage(stage, run, None if times is None else times[stage.number])
                if stage.is_last:
                    break
                stage = stage.next(run.sizes(stage))
        finally:
            run.leave()
        self._last = stage.env
        return run.outputs(), passed

    def _execute_stage(self, stage: Stage, run: Run, times: Any) -> None:
        host = stage.host
        self.execute_steps(host, run.addresses, 0, len(host.walked), times)

    def execute_steps(
        self, host: HostSteps, addresses: Mapping[int, int], first: int, count: int, times: Any
    ) -> None:
        """Run ``count`` steps of ``host`` from ``first`` on, with slots at ``addresses``.

        Raises:
            ExecutionError: What a step found wrong.
        """
        if not count:
            return
        ffi = self._runtime.ffi
        table = ffi.new("uintptr_t[]", [addresses.get(n, 0) for n in host.pointers] or [0])
        info = ffi.new("i64[6]")
        run = self._execute_program if host.is_program and count > 1 else self._execute_c
        code = run(
            self._team,
            host.steps + first,
            count,
            ffi.cast("void **", table),
            host.dims,
            self._null,
            0,
            self._null,
            host.scratch,
            self._null if times is None else times,
            info,
        )
        code = settled(code, self.prepared.watch, addresses.values())
        if code:
            info[0] = host.walked[first + info[0]].number
            self._failed(code, list(info), host.env)

    def _first(self, key: tuple[tuple[int, ...], ...]) -> Stage:
        found: Stage | None = self._bindings.get(key)
        return found if found is not None else self._bind(key)

    def _bind(self, key: tuple[tuple[int, ...], ...]) -> Any:
        """The first stage for inputs of the shapes ``key``."""
        with self._lock:
            found = self._bindings.get(key)
            if found is not None:
                return found
            env = self._rules.resolve(key)
            start = time.perf_counter_ns()
            with trace.span("bind", self.name, dims=dict(env)):
                program = Program(
                    self.compiled,
                    self._rules,
                    self.prepared,
                    self.num_threads,
                    self._runtime,
                    self._builtins,
                )
                made = Stage(program, 0, env)
            self.compiled.timings_ns["bind"] = time.perf_counter_ns() - start
            if len(self._bindings) >= MAX_BINDINGS:
                del self._bindings[next(iter(self._bindings))]
            self._bindings[key] = made
            return made

    # ------------------------------------------------------------ looking
    def timer(self) -> StagedTimer:
        return StagedTimer(self)

    @property
    def last_sizes(self) -> dict[str, int]:
        """The size of every symbol in the last run; empty before the first."""
        return self._last

    def stages_of(self, inputs: Sequence[Tensor]) -> list[Stage]:
        """The stages of a run on ``inputs``, which is made to know them."""
        with silent():  # the caller's buffers stay as they are
            return self._stages(self._copies(inputs), None)[1]

    def sizes_of(self, tensors: Sequence[Tensor]) -> dict[str, int]:
        return self.stages_of(tensors)[-1].env


class StagedTimer:
    """Runs a model in stages and keeps when each step ran, and on which threads."""

    def __init__(self, model: StagedModel) -> None:
        ffi = model._runtime.ffi
        self._model = model
        self._keep: list[Any] = []
        self._times: list[Any] = []
        self._rows: list[tuple[Array, Array]] = []
        for numbers in model.compiled.plan.stages:
            count, threads = len(numbers), model.num_threads
            steps = ffi.new("i64[]", max(2 * count, 1))
            rows = ffi.new("i64[]", max(3 * threads * count, 1))
            self._keep += [steps, rows]
            self._times.append(ffi.new("mx_times *", {"steps": steps, "threads": rows}))
            stamps = np.frombuffer(ffi.buffer(steps), np.int64)[: 2 * count]
            by_thread = np.frombuffer(ffi.buffer(rows), np.int64)[: 3 * threads * count]
            self._rows.append((stamps.reshape(count, 2), by_thread.reshape(threads, count, 3)))
        self._call = (0, 0)
        plan = model.compiled.plan
        programs = [any(plan.steps[n].kind in CONTROL for n in numbers) for numbers in plan.stages]
        self._summed = any(programs)
        self._in_loops = np.repeat(programs, [len(numbers) for numbers in plan.stages])

    def run(self, tensors: Sequence[Any]) -> list[Tensor]:
        """The outputs of the model, run once."""
        for steps, threads in self._rows:
            steps[:] = 0
            threads[:] = 0
        begin = time.monotonic_ns()
        made = type(self._model)._run(self._model, tensors, self._times)
        self._call = (begin, time.monotonic_ns())
        return made

    def taken(self) -> Taken:
        """The stamps of the last run, which this thread made: those of all stages."""
        steps = np.concatenate([steps for steps, _ in self._rows])
        threads = np.concatenate([threads for _, threads in self._rows], axis=1)
        turns = np.ones(len(steps), np.int64)
        if self._summed:
            # The stages without loops have stamps that are no sums: they become such.
            once = ~self._in_loops
            steps[once, 1] -= steps[once, 0]
            steps[once, 0] = 1
            threads[:, once, END] -= threads[:, once, BEGIN]
            turns = side_by_side(steps, threads, self._call[0])
        return Taken(self._call, steps, threads, threading.get_ident(), turns)


__all__ = ["Run", "Stage", "StagedModel", "StagedTimer"]

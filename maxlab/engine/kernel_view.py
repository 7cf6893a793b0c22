"""A kernel of a model to look at: its C, and which op of the graph each of its lines became."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Protocol

from maxlab import trace
from maxlab.compiler import Compiled
from maxlab.compiler.plan import Step
from maxlab.compiler.printed import Printed
from maxlab.engine.host_steps import CONTROL
from maxlab.engine.times import plural
from maxlab.errors import Location, UnsupportedError, elsewhere


class Shown(Protocol):
    """A model, as far as its kernels can be looked at."""

    compiled: Compiled

    def printed(self, step: Step) -> Printed | None:
        """The text of the kernel that ``step`` runs; None when it is no generated text."""


class KernelView:
    """One kernel of a model to look at: ``model.kernels["k4"]``.

    Attributes:
        id: The kernel, ``"k4"``.
        name: What it computes.
        kind: The kind of kernel.
        nodes: Ids of the ops of the graph that it computes.
        flops: Arithmetic operations of one launch, a polynomial of the dims.
        nbytes: Bytes that its buffers hold, a polynomial of the dims.
        parallel: Items of the axis that threads share, as text.
    """

    def __init__(self, model: Shown, step: Step) -> None:
        self._model = model
        self.step = step
        self.id = step.id
        self.name = step.name
        self.kind = step.kind
        self.nodes = step.nodes
        self.flops = step.flops
        self.nbytes = step.nbytes
        self.parallel = str(step.parallel)

    @property
    def symbol(self) -> str:
        """The name of the C function."""
        printed = self._model.printed(self.step)
        return printed.symbol if printed is not None else self.step.callee

    @property
    def source(self) -> str:
        """The generated C. Equal kernels of different layers have equal text."""
        return source_of(self._model, self.step)

    @property
    def cuda(self) -> str:
        """The same loops as CUDA: what a GPU would run.

        Raises:
            UnsupportedError: ML902, a product or attention on the CPU, which is a call of a library
                there; build the graph on a GPU to see its CUDA.
        """
        from maxlab.compiler.steps_gpu import cuda_of

        loops = self._model.compiled.loops_of(self.step)
        if loops is None:
            raise UnsupportedError(
                "ML902",
                f"the kernel {self.id} ({self.kind}) is a call of a library on the CPU",
                fix="look at .source, its C, or load the graph on a GPU: DeviceRef.GPU()",
            )
        return cuda_of(loops).text

    @property
    def lines(self) -> list[tuple[int, int, str]]:
        """(first line, last line, op id) for the lines of ``source`` that an op of the graph
        became; lines count from 1."""
        return user_lines(self._model, self.step, origins_of(self._model))

    def edit(self, source: str, *inputs: Any, runs: int = 20) -> Any:
        """An ``Edit``: what becomes of the kernel with the text ``source``. It is compiled, tried
        in a process of its own, checked against the references and timed beside this one; its
        ``keep()`` lets the model run it, ``discard()`` forgets it.

        Args:
            source: The text: a function of the same name and arguments.
            *inputs: As for ``Model.execute``; those of the newest profile when left out.
            runs: Timed runs of each.

        Raises:
            ArgumentError: ML638, the kernel is no generated text.
            InputError: ML662, no inputs are given and none are known.
        """
        return trace.reading("edit_kernel")(self._model, self.id, source, *inputs, runs=runs)

    def annotated(self) -> str:
        """The generated C with, behind the first line of each op, the op and where it was
        written."""
        ops = {op.id: op for op in self._model.compiled.source.walk()}
        lines = self.source.splitlines()
        notes: dict[int, list[str]] = {}
        for first, _, node in self.lines:
            op = ops.get(node)
            if op is not None:
                note = f"{node} {op.name.removeprefix('mo.')}"
                place: Location | None = op.loc
                notes.setdefault(first, []).append(f"{note} {place}" if place else note)
        width = min(max((len(line) for line in lines), default=0), 72)
        return "\n".join(
            f"{line.ljust(width)}  // {'; '.join(notes[n])}" if n in notes else line
            for n, line in enumerate(lines, 1)
        )

    def __repr__(self) -> str:
        return f"Kernel({self.id}, {self.name!r}, {self.kind}, {plural(len(self.nodes), 'op')})"


def origins_of(model: Shown) -> Mapping[str, tuple[str, ...]]:
    """For each op that was compiled, the ids of the ops of the graph that it stands for."""
    compiled = model.compiled
    functions = (compiled.function, *compiled.bodies)
    return MappingProxyType({op.id: op.origins for one in functions for op in one.walk()})


def source_of(model: Shown, step: Step) -> str:
    """The C or CUDA of ``step``; of a kernel that the runtime library brings, where to read it."""
    printed = model.printed(step)
    if printed is not None:
        return printed.text
    if step.call is not None:
        return step.call.text
    if step.exchange is not None and step.kind in CONTROL:
        became = ", ".join(f"b{to} is b{source}" for to, source in step.exchange.moves)
        return f"/* in the steps of the loop, from here on: {became} */\n"
    if step.kind in CONTROL:
        where = f"k{step.number + step.jump}"
        when = " when its flag is false" if step.kind == "branch" else ""
        return f"/* the run goes on at {where}{when} */\n"
    if step.kind == "transfer":
        return f"/* a copy to {step.device}, by the device's driver */\n"
    return (
        f"/* {step.builtin} is not generated: it is part of the runtime library,\n"
        " * in the folder kernels/c of maxlab. */\n"
    )


def user_lines(
    model: Shown, step: Step, origins: Mapping[str, tuple[str, ...]]
) -> list[tuple[int, int, str]]:
    """The source map of ``step`` in terms of the graph's own ops.

    Only ops that the step is said to compute are named: a compiled op that stands for several of
    the user's is named by all of them.
    """
    printed = model.printed(step)
    if printed is None:
        return []
    nodes = step.nodes
    known = set(nodes)
    found: dict[tuple[int, int, str], None] = {}
    for first, last, made in printed.lines:
        renamed = step.renamed
        for node in origins.get(made, (made,)) if renamed is None else renamed.get(made, ()):
            if node in known:
                found[first, last, node] = None
    return list(found)


elsewhere(
    KernelView,
    "kernel",
    {
        **dict.fromkeys(("code", "text", "c", "src"), 'model.kernels["k0"].source'),
        **dict.fromkeys(("asm", "assembly", "ptx", "sass"), 'model.kernels["k0"].source is its C'),
        **dict.fromkeys(("time", "ns", "ms", "us"), "model.profile(array).kernels[0].ns"),
        "ops": 'model.kernels["k0"].nodes',
    },
)


__all__ = ["KernelView", "origins_of", "source_of", "user_lines"]

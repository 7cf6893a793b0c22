"""Functions with their ops on random devices, and the programs of many seeds compiled together."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

import numpy as np

from maxlab import opset
from maxlab.compiler import compile_function
from maxlab.driver import CPU, Accelerator, Tensor
from maxlab.driver.backend import DeviceSource
from maxlab.engine import InferenceSession
from maxlab.engine.executable import known_kernels
from maxlab.graph import Graph
from maxlab.ir import DeviceRef, Function, TensorType, Value
from tests.compiler.interpret import Array, host, interpret, load, outputs_of, same
from tests.compiler.programs import Generator, Program
from tests.cuda.placing import on_gpu

HOST = DeviceRef.CPU()
MOVES = ("uploads", "downloads", "copies")


def scattered(function: Function, seed: int, devices: Sequence[DeviceRef]) -> Function:
    """A copy of ``function`` whose inputs and ops are each on one of ``devices``.

    An operand that is elsewhere is transferred, once for each device; sometimes a value makes a
    detour over another device, and sometimes an output comes back to the host.
    """
    rng = random.Random(seed)
    made = Function(function.name)
    known: dict[Value, Value] = {}
    moved: dict[tuple[Value, DeviceRef], Value] = {}

    def emit(name: str, operands: Sequence[Value], attrs: dict[str, object]) -> list[Value]:
        types = [v.type for v in operands if isinstance(v.type, TensorType)]
        op = made.create(name, operands, opset.lookup(name).infer(types, attrs), attrs)
        made.block.append(op)
        return list(op.results)

    def there(value: Value, place: DeviceRef) -> Value:
        if value.tensor_type.device == place:
            return value
        if (value, place) not in moved:
            start = value
            if rng.random() < 0.1:
                start = there(value, rng.choice(devices))
            if start.tensor_type.device != place:
                (start,) = emit("mo.transfer", [start], {"device": place})
            moved[value, place] = start
        return moved[value, place]

    # Neighbours are often on one device, so that there is something to fuse.
    place = rng.choice(devices)
    for value in function.inputs:
        typed = value.tensor_type
        known[value] = made.add_input(
            TensorType(typed.dtype, typed.shape, rng.choice(devices)), value.name
        )
    for op in function.ops:
        if op.name == "mo.output":
            found = [known[v] for v in op.operands]
            outputs = [there(v, HOST) if rng.random() < 0.2 else v for v in found]
            made.block.append(made.create("mo.output", outputs, []))
            break
        if rng.random() < 0.25:
            place = rng.choice(devices)
        attrs = dict(op.attrs)
        if "device" in attrs:
            attrs["device"] = place
        if isinstance(attrs.get("type"), TensorType):
            typed = attrs["type"]
            attrs["type"] = TensorType(typed.dtype, typed.shape, place)
        operands = [there(known[v], place) for v in op.operands]
        known.update(zip(op.results, emit(op.name, operands, attrs), strict=True))
    return made


class Placed:
    """The program of one seed on devices: all on one GPU, or scattered.

    Raises:
        AssertionError: `compare` found a result that differs from the reference.
    """

    def __init__(self, seed: int, devices: Sequence[DeviceRef]) -> None:
        self.seed = seed
        self.program: Program = Generator(seed).make()
        single = len(devices) == 1
        work = self.program.function
        self.function = on_gpu(work, devices[0]) if single else scattered(work, seed, devices)

    def compare(self, gpus: Sequence[Accelerator], *, on_cpu: bool) -> int:
        """Compare with the interpretation, and the CPU path; the number of steps."""
        program = self.program
        with np.errstate(all="ignore"):
            want = interpret(program.function, program.inputs, program.weights)
        graph = Graph(self.function.name)
        graph.function = self.function
        session = InferenceSession(devices=[CPU(), *gpus])
        model = session.load(graph, weights_registry=program.weights)
        by_place = {HOST: CPU(), **{DeviceRef.GPU(g.id): g for g in gpus}}
        given = [
            Tensor.from_numpy(np.require(x, requirements="C")).to(
                by_place[value.tensor_type.device]
            )
            for x, value in zip(program.inputs, self.function.inputs, strict=True)
        ]
        before = [g.stats for g in gpus]
        made = model.execute(*given)
        moves = sum(
            g.stats[kind] - was[kind] for g, was in zip(gpus, before, strict=True) for kind in MOVES
        )
        transfers = sum(op.name == "mo.transfer" for op in self.function.ops)
        assert moves <= transfers, f"seed {self.seed}: {moves} moves for {transfers} transfers"
        output = self.function.output
        assert output is not None
        places = [v.tensor_type.device for v in output.operands]
        assert [t.device for t in made] == [by_place[p] for p in places]
        first = [host(t.to(CPU())) for t in made]
        again = [host(t.to(CPU())) for t in model.execute(*given)]
        for number, (g, w, a) in enumerate(zip(first, want, again, strict=True)):
            self._same(f"output {number}", g, w)
            np.testing.assert_array_equal(g, a, f"seed {self.seed}: the second run differs")
        for x, was in zip(given, program.inputs, strict=True):
            np.testing.assert_array_equal(host(x.to(CPU())), was, "an input was written to")
        if on_cpu:
            others = outputs_of(load(program.function, program.weights), program.inputs)
            for number, (g, w) in enumerate(zip(first, others, strict=True)):
                self._same(f"output {number} beside the CPU's", g, w)
        return len(model.compiled.plan.steps) if model.devices else 0

    def _same(self, what: str, got: Array, want: Array) -> None:
        scale = 1.0
        if want.dtype.kind == "f":
            finite = want[np.isfinite(want)].astype(np.float64)
            scale = float(np.max(np.abs(finite), initial=1.0))
        try:
            same(got, want, rtol=1e-3, atol=1e-4 * scale)
        except AssertionError as error:
            raise AssertionError(f"seed {self.seed}, {what}: {error}") from None


def load_together(gpu: Accelerator, functions: Iterable[Function]) -> int:
    """Compile what the models of ``functions`` will ask for, which is far faster when it is done
    together; the number of kernels.
    """
    found: dict[DeviceSource, None] = {}
    for function in functions:
        compiled = compile_function(function)
        gpus = dict.fromkeys((s.device for s in compiled.plan.steps if s.gpu is not None), gpu)
        for number, variant in known_kernels(compiled, gpus):
            step = compiled.plan.steps[number]
            assert step.gpu is not None
            printed = step.gpu.printed(variant)
            found[DeviceSource(printed.symbol, printed.text, printed.headers)] = None
    if found:
        gpu.context.call(lambda: gpu.context.load(list(found)))
    return len(found)

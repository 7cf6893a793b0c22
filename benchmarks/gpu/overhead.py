"""What a launch costs: a hundred tiny kernels one by one, and recorded as a CUDA graph."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from benchmarks.gpu import data, peers
from benchmarks.gpu.case import Bench, Goal, Row
from benchmarks.gpu.launching import Launches, down, load, up
from benchmarks.gpu.timing import Contender, Play, repeated
from maxlab.driver.backend import DeviceSource, Queue
from maxlab.dtype import DType
from maxlab.engine import Model
from maxlab.engine.segments import KernelSegment
from maxlab.graph import DeviceRef, Graph, TensorType

KERNELS, SIZE = 100, 32
GOAL = Goal(below_us=3.0)
F32 = DType.float32
TINY_KERNEL = DeviceSource(
    "bench_tiny",
    """extern "C" __global__ void bench_tiny(f32 *x) { x[threadIdx.x] += 1.0f; }
""",
)


def run(bench: Bench) -> None:
    """A kernel by itself, and a model of a hundred kernels."""
    bench.guarded("launch", "a tiny kernel", lambda: kernels(bench))
    bench.guarded("launch", "model", lambda: models(bench))


def kernels(bench: Bench) -> None:
    """The same kernel a hundred times: by the device's clock, each waiting for the one before."""
    context = bench.context
    x = up(bench.device, np.zeros(32, np.float32))
    (loaded,) = context.call(lambda: context.load([TINY_KERNEL]))
    words = [x.address]

    def hundred(queue: Queue) -> None:
        for _ in range(KERNELS):
            context.launch(queue, loaded.function, (1, 1, 1), (32, 1, 1), 0, words)

    bench.timer.once(hundred)
    if not np.array_equal(down(x), np.full(32, KERNELS, np.float32)):
        raise data.WrongResultError("the tiny kernel was not run a hundred times")

    queue = context.default_queue
    one_by_one = repeated(lambda: hundred(queue))

    def recorded(runs: int) -> Play:
        recording = context.call(lambda: context.record(hundred))
        if recording is None:
            return one_by_one(runs)
        return repeated(lambda: recording.launch(queue))(runs)

    contenders = [
        Contender("plain", [hundred], capture=one_by_one),
        Contender("CUDA graph", [hundred], capture=recorded, note="one graph of 100 kernels"),
    ]
    torch = peers.torch_on_a_gpu()
    if torch is not None:
        there = torch.zeros(32, device="cuda")

        def their_hundred() -> None:
            for _ in range(KERNELS):
                there.add_(1)

        note = "add_ of 32 elements, CUDA graph"
        contenders.append(peers.contender(context, [their_hundred], "torch", note))
    bench.compare(
        "launch", "a tiny kernel", contenders, work=1.0, unit="", own="plain", each=KERNELS,
        goals=[("CUDA graph", GOAL)],
    )  # fmt: skip
    host(bench, "a tiny kernel", "plain, host", lambda: hundred(queue))


def models(bench: Bench) -> None:
    """A model whose plan has a hundred kernels, as a user calls it."""
    model, plain = _model(bench), _model(bench)
    count = len(model.plan.steps)
    array = data.normal(0, (4, SIZE), F32)
    if count != KERNELS:
        raise ValueError(f"the plan has {count} kernels, not {KERNELS}")
    # A rotation, so that what is multiplied a hundred times neither grows nor vanishes.
    turn = np.linalg.qr(data.normal(1, (SIZE, SIZE), F32))[0]
    x, w = up(bench.device, array), up(bench.device, turn)
    (got,) = Launches(_model(bench), [x, w]).results()
    want = array.astype(np.float64) @ np.linalg.matrix_power(turn.astype(np.float64), KERNELS)
    error = data.check(got, want, F32, "a hundred products")
    (kernels,) = plain.bind((array.shape, turn.shape)).segments
    if not isinstance(kernels, KernelSegment):
        raise TypeError("all work is the device's")
    kernels.is_recordable = False

    def called(model: Model) -> Callable[[int], Play]:
        for _ in range(3):  # the second call of the same memory records
            model(x, w)
        return repeated(lambda: model(x, w))

    contenders = [
        Contender("plain", capture=called(plain), note=f"{count} kernels"),
        Contender("CUDA graph", capture=called(model), note=f"{count} kernels"),
    ]
    bench.compare(
        "launch", "model of 100 kernels, per kernel", contenders, work=1.0, unit="", own="plain",
        each=count, goals=[("CUDA graph", GOAL)], errors={"plain": error, "CUDA graph": error},
    )  # fmt: skip
    host(bench, "model of 100 kernels, per kernel", "plain, host", lambda: plain(x, w), count)
    host(bench, "model of 100 kernels, per kernel", "CUDA graph, host", lambda: model(x, w), count)


def _model(bench: Bench) -> Model:
    """A chain of small products: each needs all of the one before, so nothing can be fused."""
    place = DeviceRef.GPU()
    types = [TensorType(F32, (4, SIZE), place), TensorType(F32, (SIZE, SIZE), place)]
    with Graph("chain", input_types=types) as graph:
        x, w = (value.tensor for value in graph.inputs)
        for _ in range(KERNELS):
            x = x @ w
        graph.output(x)
    return load(bench.device, graph)


def host(
    bench: Bench, case: str, name: str, give: Callable[[], object], each: int = KERNELS
) -> None:
    """The host's time to give work away, by its own clock; it waits outside of the region."""
    context = bench.context

    def sample() -> float:
        begin = time.perf_counter_ns()
        give()
        spent = time.perf_counter_ns() - begin
        context.default_queue.synchronize()
        return spent / 1e3 / each

    samples = [context.call(sample) for _ in range(3 if bench.tiny else 40)]
    low, middle, high = (float(q) for q in np.quantile(samples, (0.25, 0.5, 0.75)))
    bench.add(
        Row(
            "launch", case, name, median_us=middle, q1_us=low, q3_us=high,
            least_us=min(samples), samples=len(samples), runs=1, note="the host's clock",
        )
    )  # fmt: skip

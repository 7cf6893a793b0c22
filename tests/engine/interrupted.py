"""A program that `test_interrupt.py` starts: ``interrupted.py FAMILY …`` interrupts runs of models.

It runs the model of each family on sizes that take minutes or for ever, with 1 thread and with 2,
gets a SIGINT in the middle, and runs the same model again on small sizes. It prints a line of JSON
each: the family, the number of threads, the seconds from the signal to the exception, and by how
many MiB the memory of the process has grown behind it.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from maxlab import engine
from maxlab.dtype import DType
from maxlab.graph import DeviceRef, Graph, TensorType, TensorValue, ops

CPU = DeviceRef.CPU()
F32, F64, I64, BF16 = DType.float32, DType.float64, DType.int64, DType.bfloat16


@dataclass(frozen=True)
class Family:
    """A model whose time grows with the size ``n``, and whose memory does not, or not much.

    Attributes:
        kind: What its kernels are alike in.
        build: The output for the input, an ``[n, 0]`` tensor that says how large n is, and n.
        long: A size that takes many seconds.
        short: A size that is run after the interrupt.
        want: What the model gives then; None: what another model gives, which nobody interrupts.
    """

    kind: str
    build: Callable[[TensorValue, Any], TensorValue]
    long: int
    short: int = 100
    want: float | None = None


def ones(shape: list[Any], value: float = 1, dtype: DType = F32) -> TensorValue:
    """One number as a tensor of ``shape``, which takes no memory."""
    return ops.broadcast_to(ops.constant(value, dtype, CPU), shape)


def data(*shape: int, dtype: DType = F32) -> TensorValue:
    """A constant, the same in every process."""
    values = np.random.default_rng(3).standard_normal(shape).astype(np.float32)
    return ops.cast(ops.constant(values, F32, CPU), dtype)


def chain(size: TensorValue, n: Any) -> TensorValue:
    """A map of n elements with so many functions that a few million take minutes."""
    x = ops.cast(ops.range(0, n, 1, out_dim=n, dtype=I64, device=CPU), F64)
    for _ in range(60):
        x = ops.sin(ops.exp(ops.cos(x)))
    return x


def rows(size: TensorValue, n: Any) -> TensorValue:
    """n rows, each of which is the softmax of a row of data."""
    x = ops.reshape(data(8192), [1, 8192]) * ones([n, 1])
    return ops.max(ops.softmax(x), axis=-1)


def long_rows(size: TensorValue, n: Any) -> TensorValue:
    """A few rows of n elements, which are gone through several times."""
    x = ones([4, n])
    return ops.sum(ops.exp(x - ops.max(x, axis=-1)), axis=-1)


def columns(size: TensorValue, n: Any) -> TensorValue:
    """The columns of n rows."""
    return ops.max(ops.reshape(data(300), [1, 300]) * ones([n, 1]), axis=0)


def product(dtype: DType) -> Callable[[TensorValue, Any], TensorValue]:
    """A product of n rows that are one row in memory."""

    def build(size: TensorValue, n: Any) -> TensorValue:
        left = ops.broadcast_to(data(1, 2**16, dtype=dtype), [n, 2**16])
        return ops.cast(left @ data(2**16, 64, dtype=dtype), F32)

    return build


def batched(size: TensorValue, n: Any) -> TensorValue:
    """n products of the same matrices."""
    left = ops.broadcast_to(data(1, 64, 16384), [n, 64, 16384])
    return left @ ops.broadcast_to(data(1, 16384, 32), [n, 16384, 32])


def attention(size: TensorValue, n: Any) -> TensorValue:
    """n keys that are one key in memory."""
    q, kv = data(1, 8, 2000, 64), [1, 8, n, 64]
    k, v = (ops.broadcast_to(data(1, 8, 1, 64), kv) for _ in range(2))
    return ops.softmax(q @ ops.transpose(k, 2, 3) * 0.125) @ v


def convolution(size: TensorValue, n: Any) -> TensorValue:
    """n images, with large filters."""
    x = ops.broadcast_to(data(1, 64, 64, 64), [n, 64, 64, 64])
    return ops.conv2d(x, data(15, 15, 64, 64), padding=(7, 7, 7, 7))


def pooling(size: TensorValue, n: Any) -> TensorValue:
    """n images and a window as large as they are."""
    x = ops.broadcast_to(data(1, 64, 64, 8), [n, 64, 64, 8])
    return ops.max_pool2d(x, (63, 63), stride=1, padding=31)


def loop_of_sorts(size: TensorValue, n: Any) -> TensorValue:
    """A loop of n turns, in each of which its body sorts."""
    x = data(1 << 22)
    return ops.while_loop(
        [ops.constant(0, I64, CPU), x],
        lambda i, x: i < n,
        lambda i, x: [i + 1, ops.cast(ops.argsort(x), F32)],
    )[0]


FAMILIES = {
    "sum": Family("rows", lambda s, n: ops.sum(ones([n])), 2**40, want=100),
    "map": Family("rows", chain, 2**24),
    "rows": Family("rows", rows, 2**24),
    "long_rows": Family("rows", long_rows, 2**38, want=100),
    "columns": Family("rows", columns, 2**38),
    "argmax": Family("rows", lambda s, n: ops.argmax(ones([n])), 2**40, want=0),
    "product": Family("product", product(F32), 2**18),
    "half_product": Family("product", product(BF16), 2**18),
    "batched_product": Family("product", batched, 2**15),
    "attention": Family("product", attention, 2**30),
    "convolution": Family("window", convolution, 2**8, 1),
    "pooling": Family("window", pooling, 2**11, 1),
    "loop_of_sorts": Family("loop", loop_of_sorts, 2**40, 3, want=3),
}


def build(family: Family) -> Graph:
    """The graph of a family."""
    with Graph("long", input_types=[TensorType(DType.uint8, ["n", 0], CPU)]) as graph:
        size = graph.inputs[0].tensor
        graph.output(family.build(size, size.shape[0]))
    return graph


def run(model: Any, n: int) -> Any:
    """The output for the size n."""
    return model(np.zeros((n, 0), np.uint8))[0].to_numpy()


def resident() -> int:
    """Bytes of memory that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def interrupted(model: Any, n: int, after: float = 0.3) -> float:
    """Seconds from the signal to the exception."""
    sent: list[float] = []

    def send() -> None:
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(after, send)
    timer.start()
    try:
        run(model, n)
    except KeyboardInterrupt:
        return time.monotonic() - sent[0]
    finally:
        timer.cancel()
    raise SystemExit("the run has ended by itself")


def main(names: list[str]) -> None:
    """Interrupts the models of some families."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # some shells ignore it
    for name in names:
        family = FAMILIES[name]
        graph = build(family)
        want = family.want
        if want is None:
            want = run(engine.InferenceSession(num_threads=1).load(graph), family.short)
        for threads in (1, 2):
            model = engine.InferenceSession(num_threads=threads).load(graph)
            run(model, family.short)
            before = resident()
            seconds = interrupted(model, family.long)
            gc.collect()
            grown = resident() - before
            np.testing.assert_array_equal(run(model, family.short), want)
            print(json.dumps([name, threads, round(seconds, 3), grown >> 20]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

"""Ops whose attributes ask for more memory than there is: refused with a reason, or lazy.

All of them are built and loaded in one process of little memory, which nothing may end.
"""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache

import pytest

HUGE = 2**40
CHILD = """
import json, resource, sys
import numpy as np
from maxlab import engine
from maxlab.dtype import DType
from maxlab.errors import MaxlabError
from maxlab.graph import BufferType, DeviceRef, Graph, TensorType, ops

resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
CPU, N, F = DeviceRef.CPU(), 2**40, DType.float32


def one(size=N, value=1.0, dtype=F):
    shape = [size] if isinstance(size, int) else size
    return ops.broadcast_to(ops.constant(value, dtype, CPU), shape)


def some(value, dtype=F):
    return ops.constant(np.asarray(value, dtype.ml_numpy))


def seeded(make):
    ops.random.set_seed(1)
    return make(TensorType(F, [N], CPU))


def image(x):
    return ops.reshape(x, [1, 2, 2, 1])


CASES = {
    "hann_window": lambda x: ops.hann_window(N, CPU),
    "hann_window of 2^62": lambda x: ops.hann_window(2**62, CPU, periodic=False),
    "irfft": lambda x: ops.irfft(x, n=N),
    "irfft of a prime": lambda x: ops.irfft(x, n=2**61 - 1),
    "range": lambda x: ops.range(0, N, 1, dtype=DType.int64, device=CPU),
    "range of floats": lambda x: ops.range(0.0, float(N), 1.0, dtype=F, device=CPU),
    "broadcast_to": lambda x: one(),
    "an op on a constant": lambda x: one() + 1,
    "tile": lambda x: ops.tile(x, [N]),
    "tile of a constant": lambda x: ops.tile(some([1.0]), [N]),
    "repeat_interleave": lambda x: ops.repeat_interleave(x, N, axis=0),
    "repeat_interleave of a constant": lambda x: ops.repeat_interleave(some([1.0]), N, axis=0),
    "pad": lambda x: ops.pad(x, [0, N]),
    "pad of a constant": lambda x: ops.pad(some([1.0]), [0, N]),
    "band_part": lambda x: ops.band_part(one([2**20, 2**20]), 1, 1),
    "outer": lambda x: ops.outer(one(2**20), one(2**20)),
    "uniform": lambda x: seeded(ops.random.uniform),
    "gaussian": lambda x: seeded(ops.random.gaussian),
    "resize": lambda x: ops.resize(
        ops.reshape(x, [1, 1, 2, 2]), [1, 1, 2**20, 2**20], ops.InterpolationMode.BICUBIC
    ),
    "fold": lambda x: ops.fold(ops.reshape(x, [1, 4, 1]), [2**20, 2**20], (2, 2), stride=2**21),
    "max_pool2d": lambda x: ops.max_pool2d(image(x), (2**20, 2**20), 1, 1, 2**19),
    "avg_pool2d": lambda x: ops.avg_pool2d(image(x), (2**20, 2**20), 1, 1, 2**19),
    "conv2d": lambda x: ops.conv2d(image(x), some([[[[1.0]]]]), padding=(2**20,) * 4),
    "gather": lambda x: ops.gather(some([1.0, 2.0]), one(N, 0, DType.int64), 0),
    "scatter": lambda x: ops.scatter(one(), x, some([0, 1, 2, 3], DType.int64), 0),
    "concat": lambda x: ops.concat([x, one()]),
    "split": lambda x: ops.split(one(), [4, N - 4])[0],
    "where": lambda x: ops.where(one(N, True, DType.bool), some(1.0), some(2.0)),
    "cumsum": lambda x: ops.cumsum(one()),
    "top_k": lambda x: ops.top_k(one(), 2**39)[0],
    "argsort": lambda x: ops.argsort(one()),
    "nonzero": lambda x: ops.nonzero(one(), "k"),
    "matmul": lambda x: ops.matmul(one([2, N]), one([N, 2])),
    "sum": lambda x: ops.sum(one([4, N])),
    "softmax": lambda x: ops.softmax(one([4, N])),
    "mean of integers": lambda x: ops.mean(one(N, 1, DType.int64)),
    "no elements": lambda x: one([N, 0]),
    "buffer_create": lambda x: ops.buffer_load(ops.buffer_create(BufferType(F, [N], CPU))),
}
for name in json.loads(sys.argv[1]):
    told = "built"
    try:
        with Graph("g", input_types=[TensorType(F, [4])]) as graph:
            graph.output(CASES[name](graph.inputs[0].tensor))
        engine.InferenceSession().load(graph)
        told = "loaded"
    except MaxlabError as error:
        told = f"{error.code} {error}"
    except BaseException as error:
        told = f"{type(error).__name__}: {error}"
    print(json.dumps([name, told]), flush=True)
"""
NAMES = [line.split('"')[1] for line in CHILD.splitlines() if line.startswith('    "')]
REFUSED = {
    "hann_window": "ML386",
    "hann_window of 2^62": "ML386",
    "irfft": "ML387",
    "irfft of a prime": "ML387",
    "mean of integers": "ML217",
}


@cache
def told() -> dict[str, str]:
    """What was said of each op; those behind a crash or a hang are missing."""
    command = [sys.executable, "-c", CHILD, json.dumps(NAMES)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        text = done.stdout
    except subprocess.TimeoutExpired as error:
        text = (error.stdout or b"").decode()
    return dict(json.loads(line) for line in text.splitlines())


@pytest.mark.parametrize("name", NAMES)
def test_no_op_takes_memory_while_it_is_built(name: str) -> None:
    assert name in told(), f"the process ended at the op behind {list(told())[-1:]}"
    said = told()[name]
    assert said == "loaded" or said.startswith("ML"), said
    if name in REFUSED:
        assert said.startswith(REFUSED[name]), said
        assert "fix:" in said, said

"""Launches on the simulated GPU: kernels that do harm, odd sizes, odd arguments, odd addresses.

One CUDA text, compiled with checks and without them, whose parameter says what it does wrong. With
checks it may do anything; without them, what a GPU and the simulator see as a fault.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from maxlab import driver, engine
from maxlab.driver import Accelerator, Tensor
from maxlab.driver.sim import SimModule
from maxlab.driver.sim.device import SimContext
from maxlab.dtype import DType
from maxlab.errors import ExecutionError, MaxlabError
from maxlab.graph import DeviceRef, Graph, TensorType, ops
from tests.hostile.harness import WEIRD, Case, Family, WrongResultError

DEEDS: dict[str, str] = {
    "nothing": "",
    "null is read": "if (!t) s[0] = *(volatile float *)(at & 4095);",
    "null is written": "if (!t) *(volatile float *)(at & 4095) = 1;",
    "a far store": "if (!t) ((volatile float *)y)[at | 1LL << 44] = 1;",
    "a far load": "if (!t) s[0] = ((volatile float *)y)[at | 1LL << 44];",
    "a far atomic": "if (!t) atomicAdd(y + (at | 1LL << 44), 1.f);",
    "a call of an address": "void (*volatile f)() = (void (*)())(at & 4095); if (!t) f();",
    "endless recursion": "if (!t) s[0] = deep(1);",
    "a division by zero": "volatile int zero = 0; if (!t) s[0] = 7 / zero;",
    "a quotient that is too large": "volatile int least = 1 << 31, minus = -1; "
    "if (!t) s[0] = least / minus;",
    "an assertion": "assert(at == 0.5);",
    "a trap": "if (!t) __trap();",
    "a barrier of some": "if (threadIdx.x & 1) __syncthreads();",
    "two barriers": "if (threadIdx.x & 1) __syncthreads(); else __syncthreads();",
    "a shuffle of some": "if (threadIdx.x < 7) s[0] = __shfl_sync(0xffffffff, 1.f, (int)at);",
    "words": 'if (!t) for (int k = 0; k < (at & 1023); k++) printf("%d %s\\n", k, "word");',
    # From here on only with checks, or with a time limit.
    "an endless loop": "for (volatile int go = 1; go;) {}",
    "an endless wait": "while (!atomicAdd((int *)y, 0)) {}",
    "a stray store": "if (!t) y[at] = 1;",
    "a stray load": "if (!t) s[0] = x[at];",
    "a store to what is only read": "if (!t) ((float *)x)[at] = 1;",
    "a stray atomic": "if (!t) atomicAdd(y + at, 1.f);",
    "a stray in shared memory": "if (!t) s[at] = 1;",
    "a stray in dynamic shared memory": "if (!t) own[at] = 1;",
    "a store between elements": "if (!t) *(volatile float *)((char *)y + (at & 15)) = 1;",
    "a race": "y[0] = t;",
    "a race in shared memory": "s[(at & 31)] += t;",
    "wild stores": "for (int k = 0; k < 100; k++) y[(t * 7919LL + k * at) % 100000] = 1;",
}
"""CUDA by what it does: ``at`` is a number of the case, ``t`` the thread."""
UNCHECKED = [*DEEDS][: [*DEEDS].index("an endless wait") + 1]
ENDLESS = ("an endless loop", "an endless wait")

_CASES = "\n".join(f"    case {n}: {{ {deed} }} break;" for n, deed in enumerate(DEEDS.values()))
_BODY = f"""
  switch (deed) {{
{_CASES}
  }}
"""
DEEP = """
static __device__ int deep(int n) {
  volatile char a[1000];
  a[0] = n;
  return n ? deep(n + 1) + a[0] : 0;
}
"""
TEXT = f"""
extern __shared__ float own[];
{DEEP}
extern "C" __global__ void misdeed(float *y, const float *x, int n, int deed, long long at) {{
  __shared__ float s[64];
  const int t = blockIdx.x * blockDim.x + threadIdx.x;
{_BODY}
  if (t < n) y[t] = 2 * x[t] + 1;
}}
"""
WORDS = f"""
{DEEP}
extern "C" __global__ void misdeed(float *y, const float *x, long long n, long long deed,
                                   long long at) {{
  __shared__ float s[64];
  float *const own = s;
  const int t = blockIdx.x * blockDim.x + threadIdx.x;
{_BODY}
  if (t < n) y[t] = 2 * x[t] + 1;
}}
"""
SAFE = "\n".join(
    f"case {n}: {{ {deed} }} break;"
    for n, (name, deed) in enumerate(DEEDS.items())
    if name in UNCHECKED and name not in (*ENDLESS, "endless recursion", "words", "an assertion")
)
OP = f"""
// @op misdeed(x: float32[n], order: int64[2]) -> (y: float32[n])
// @cuda block threads=64 shared=256
float *const s = (float *)shared;
const long long at = order[1];
const int t = i * 64 + threadIdx.x;
switch (order[0]) {{
{SAFE}
}}
if (threadIdx.x == 0) y[i] = 2 * x[i] + 1;
__syncthreads();
"""

_made: dict[Any, Any] = {}


def _ready() -> None:
    for check in (False, True):
        module = _made["module", check] = SimModule(TEXT, check=check)
        module.launch("misdeed", 1, 32, [np.zeros(32, "f4"), np.zeros(32, "f4"), 32, 0, 0])
        gpu = DeviceRef.GPU()
        vector = TensorType(DType.float32, ["n"], gpu)
        order = TensorType(DType.int64, [2], gpu)
        with driver.simulated(check=check):
            device = Accelerator()
            with Graph("misdeed", input_types=[vector, order], custom_extensions=OP) as graph:
                graph.output(*ops.custom("misdeed", gpu, list(graph.inputs), [vector]))
            model = engine.InferenceSession(devices=[device]).load(graph)
        _made["model", check] = model, device
        _compute(check, "nothing", 0, 5)


# ---------------------------------------------------------------- kernels of a model
def _compute(check: bool, deed: str, at: int, n: int) -> None:
    model, device = _made["model", check]
    x = np.arange(n, dtype=np.float32)
    given = Tensor.from_numpy(x).to(device)
    order = Tensor.from_numpy(np.array([[*DEEDS].index(deed), at], np.int64)).to(device)
    (made,) = model(given, order)
    got = made.to(driver.CPU()).to_numpy()
    if not np.array_equal(got, 2 * x + 1):
        raise WrongResultError(f"{got} instead of {2 * x + 1}")


def _model(check: bool, deed: str, at: int, n: int) -> Case:
    def run(folder: Path) -> None:
        try:
            _compute(check, deed, at, n)
        finally:
            _compute(check, "nothing", 0, 5)

    return Case(f"a model {'with' if check else 'without'} checks: {deed}, at {at}, n {n}", run)


# ---------------------------------------------------------------- launches
def _launch(
    check: bool, deed: str, at: int, grid: Any, block: Any, n: int = 32, shared: Any = 0
) -> Case:
    def run(folder: Path) -> None:
        module = _made["module", check]
        x, y = np.arange(n, dtype=np.float32), np.zeros(n, np.float32)
        kept = x.copy()
        number = [*DEEDS].index(deed)
        try:
            reports = module.launch(
                "misdeed", grid, block, [y, x, n, number, at], shared, timeout_s=0.3
            )
        except ExecutionError as error:
            # A big grid takes longer than a case has.
            if deed == "nothing" and error.code != "ML658":
                raise WrongResultError(f"a healthy kernel fails: {error}") from error
            raise
        finally:
            if check is False or deed != "a store to what is only read":
                _same("x", x, kept)
        for report in reports:
            str(report)
        if deed == "nothing" and _is_row(grid) and _is_row(block):
            if reports:
                raise WrongResultError(f"a healthy kernel has reports: {reports}")
            _same("y", y, _expected(x, grid, block))

    words = f"grid {grid!r:.60}, block {block!r:.60}, n {n}, shared {shared!r:.40}"
    return Case(f"{'checked' if check else 'unchecked'}: {deed}, at {at}, {words}", run)


def _is_row(size: Any) -> bool:
    """Whether only its first axis has more than one: else several threads are one item."""
    return isinstance(size, int) or all(n == 1 for n in size[1:])


def _expected(x: Any, grid: Any, block: Any) -> Any:
    """What a launch of so many threads computes."""
    first = [size if isinstance(size, int) else size[0] for size in (grid, block)]
    want = 2 * x + 1
    want[first[0] * first[1] :] = 0
    return want


def _same(name: str, got: Any, want: Any) -> None:
    if not np.array_equal(got, want):
        raise WrongResultError(f"{name} is {got}, not {want}")


def _arguments(check: bool, given: dict[int, Any], words: str) -> Case:
    """A launch with other arguments than those of the kernel."""

    def run(folder: Path) -> None:
        x, y = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
        arguments: list[Any] = [y, x, 32, 0, 0]
        for place, value in given.items():
            if place < len(arguments):
                arguments[place] = value() if callable(value) and place < 2 else value
            else:
                arguments.append(value)
        for report in _made["module", check].launch("misdeed", 1, 32, arguments, timeout_s=0.3):
            str(report)

    return Case(f"{'checked' if check else 'unchecked'}: arguments {words}", run)


ARRAYS: dict[str, Callable[[], Any]] = {
    "none": lambda: None,
    "too few": lambda: np.zeros(32, np.float32)[:0],
    "float64": lambda: np.zeros(32),
    "halves": lambda: np.zeros(64, np.float16),
    "strided": lambda: np.zeros(64, np.float32)[::2],
    "backwards": lambda: np.zeros(32, np.float32)[::-1],
    "read-only": lambda: np.frombuffer(bytes(128), np.float32),
    "objects": lambda: np.array([object()] * 32),
    "a tensor": lambda: Tensor.zeros([32], DType.float32),
    "a view": lambda: Tensor.zeros([64], DType.float32)[::2],
    "a list": lambda: [0.0] * 32,
    "an address": lambda: np.zeros(32, np.float32).ctypes.data,
    "a masked array": lambda: np.ma.masked_array(np.zeros(32, np.float32), mask=True),
}
"""What is given for a pointer."""


# ---------------------------------------------------------------- addresses
def _addresses(check: bool, seed: float) -> Case:
    """Copies, fills and frees with addresses of any kind, on a device that then still works."""

    def run(folder: Path) -> None:
        random = Random(seed)
        context = SimContext(0, check=check)
        queue, host = context.default_queue, np.zeros(4096, np.uint8)
        blocks = [context.allocate(size) for size in (64, 128, 0, 4096)]
        freed = context.allocate(256)
        context.release(freed)
        mine = host.ctypes.data
        good = np.arange(64, dtype=np.uint8)
        context.upload(queue, blocks[0], good.ctypes.data, 64)
        for _ in range(random.randrange(1, 6)):
            odd = (0, 8, 4095, freed, freed + 8, mine, 2**47, 2**63, 2**64 - 1, -1, 4096)
            a, b = (random.choice((*odd, *blocks[1:], blocks[1] + 32)) for _ in range(2))
            nbytes = random.choice((0, 1, 64, 65, 128, 4096, 4097, 2**31, 2**63, 2**64, -1))
            small = random.choice((0, 1, 64, 4096))
            deed = random.randrange(6)
            try:
                if deed == 0:
                    context.copy(queue, a, b, nbytes)
                elif deed == 1:
                    context.upload(queue, a, random.choice((0, 8, 4095, mine)), small)
                elif deed == 2:
                    context.download(queue, random.choice((0, 8, 4095, mine)), b, small)
                elif deed == 3:
                    context.fill(queue, a, random.randrange(256), nbytes)
                elif deed == 4:
                    context.release(random.choice((*odd, blocks[1] + 32)))
                else:
                    context.allocate(random.choice((2**62, 2**63, 2**64, 2**50)))
            except MaxlabError as error:
                if not error.fix:
                    raise WrongResultError(f"no fix: {error}") from error
        found = np.zeros(64, np.uint8)
        context.download(queue, found.ctypes.data, blocks[0], 64)
        _same("the block", found, good)

    return Case(f"addresses drawn from {seed}, {'checked' if check else 'unchecked'}", run)


ADDRESSES = ("null", "almost null", "freed", "the host's", "behind", "before", "none", "wild")


def _pointers(y: str, x: str, n: int) -> Case:
    """A checked launch by addresses, as generated kernels are launched."""

    def run(folder: Path) -> None:
        context = SimContext(0, check=True)
        host = np.zeros(4096, np.uint8)
        block, freed = context.allocate(256), context.allocate(256)
        places = {
            "null": 0, "almost null": 8, "freed": freed, "the host's": host.ctypes.data,
            "behind": block + 256, "before": block - 4, "none": context.allocate(0),
            "wild": 1 << 45, "good": context.allocate(256),
        }  # fmt: skip
        context.release(freed)  # the last one: a block that is allocated then may be in its place
        from maxlab.driver.backend import DeviceSource

        (loaded,) = context.load([DeviceSource("misdeed", WORDS)])
        arguments = [places[y], places[x], n, 0, 0]
        context.launch(context.default_queue, loaded.function, (2, 1, 1), (32, 1, 1), 0, arguments)
        if n and (y, x) != ("good", "good"):
            raise WrongResultError("nobody has seen it")

    return Case(f"launched with y {y}, x {x}, n {n}", run)


def _size(random: Random) -> Any:
    if random.random() < 0.2:
        return random.choice(WEIRD)
    numbers = (0, 1, 2, 31, 32, 33, 64, 1024, 1025, 65535, 65536, 2**31 - 1, 2**31, -1)
    if random.random() < 0.5:
        return random.choice(numbers)
    sizes = [random.choice((1, 1, 1, *numbers)) for _ in range(random.randrange(0, 5))]
    return random.choice((tuple, list))(sizes)


def _draw(random: Random) -> Case:
    turn, check = random.random(), random.random() < 0.6
    deed = random.choice([*DEEDS] if check else UNCHECKED)
    at = random.choice((0, 1, -1, 31, 32, 63, 64, 255, 256, 4096, 2**20, -64, 2**40))
    if turn < 0.3:
        block = random.choice((1, 7, 32, 33, 64, 128, 1024))
        return _launch(
            check, deed, at, random.choice((1, 2, 5)), block, random.choice((0, 1, 32, 500))
        )
    if turn < 0.45:
        return _launch(check, "nothing", 0, _size(random), _size(random))
    if turn < 0.5:
        return _launch(check, "nothing", 0, 1, 32, shared=_size(random))
    if turn < 0.6:
        name = random.choice(sorted(ARRAYS))
        if random.random() < 0.5:
            place = random.randrange(2)
            return _arguments(check, {place: ARRAYS[name]}, f"{place}: {name}")
        place, value = random.randrange(2, 6), random.choice(WEIRD)
        if place == 2:  # n is how many there are, so a number more is no mistake that is seen
            check = True
        if place == 3 and isinstance(value, int):
            value = float(value % 7)
        return _arguments(check, {place: value}, f"{place}: {value!r:.60}")
    if turn < 0.75:
        return _addresses(check, random.random())
    if turn < 0.85:
        x, y = random.choice((*ADDRESSES, "good")), random.choice((*ADDRESSES, "good"))
        return _pointers(y, x, random.choice((0, 1, 2, 64)))
    names = [name for name in UNCHECKED if name not in ENDLESS]
    return _model(check, random.choice(names), at, random.choice((0, 1, 5, 100)))


SEEDS = [
    *(_launch(check, deed, 100, 1, 32) for check in (False, True) for deed in DEEDS
      if check or deed in UNCHECKED),
    _launch(True, "nothing", 0, float("nan"), 32),
    _launch(False, "nothing", 0, 1, ...),
    *(_pointers(place, "good", 64) for place in ADDRESSES),
    *(_pointers("good", place, 64) for place in ADDRESSES),
    *(_arguments(False, {1: make}, f"1: {name}") for name, make in ARRAYS.items()),
    *(_model(check, deed, 100, 5) for check in (False, True)
      for deed in ("null is read", "a barrier of some", "a far atomic", "a division by zero")),
]  # fmt: skip

FAMILIES = (Family("gpu_launches", SEEDS, _draw, 1500, _ready, block=100),)

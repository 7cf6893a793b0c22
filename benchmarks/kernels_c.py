"""Times the C kernels beside numpy and torch: `python benchmarks/kernels_c.py [--rounds 5]`.

Each contender runs in a process of its own (their thread pools and spinning would disturb each
other), one after the other, for several rounds; a row is the median over the rounds of each
process's median, with the fastest and slowest round. torch may live in another environment:
`--torch-python /path/to/python`. Contenders that cannot be imported are left out.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

GEMMS = [(512, 384, 384), (512, 384, 1536), (512, 1536, 384), (16, 384, 384), (16, 384, 1536),
         (16, 1536, 384), (64, 512, 2048), (1024, 1024, 1024), (512, 4096, 4096),
         (1, 4096, 4096)]  # fmt: skip
"""(M, K, N)"""
ATTENTIONS = [(8, 12, 64, 32), (1, 12, 16, 32), (1, 12, 512, 64), (1, 32, 1, 128)]
"""(batch, heads, positions, head size); one position: against 2048 keys"""
MAPS = ["exp", "log", "tanh", "erf", "gelu", "sigmoid", "sin"]
MAP_SIZE = 65536

Case = tuple[str, str, float, Callable[[], object]]
"""name, unit, the number that divided by the nanoseconds (or times them) gives it, what to time"""


def weights_in_rotation(k: int, n: int) -> int:
    """How many weight matrices take turns: models read theirs from memory, not from the cache."""
    return max(1, (64 << 20) // (k * n * 4))


def keys(t: int) -> int:
    return 2048 if t == 1 else t


def maxlab_cases(threads: int) -> Iterator[Case]:
    import numpy as np

    from maxlab.toolchain import KernelSource, compile_units, runtime

    run = runtime()
    lib, ffi = run.lib, run.ffi
    head = "(void *const *b, const i64 *d, i64 lo, i64 hi, mx_ctx *ctx)"
    texts = {
        "bench_gemm": "return ctx->lib->gemm_f32(b[0], d[1], b[1], d[2], b[2], d[0], d[1], "
        "d[2], d[3], d[4], lo, hi, 0, b, d, ctx);",
        "bench_attention": "return ctx->lib->attention_f32(b[0], lo, hi, 0, b, d, ctx);",
        "bench_nothing": "return 0;",
    }
    for name in MAPS:
        texts[f"bench_{name}"] = (
            "f32 *RS y = b[0]; const f32 *RS x = b[1];\n#pragma omp simd\n"
            f"for (i64 i = lo; i < hi; i++) y[i] = mx_{name}_f32(x[i]); return 0;"
        )
    sources = [KernelSource(n, f"int {n}{head} {{ {body} }}") for n, body in texts.items()]
    loaded = {k.name: ffi.cast("mx_fn", k.address) for k in compile_units(sources)}
    team = lib.mx_team_new(threads)
    keep: list[Any] = []

    def step(
        name: str, pointers: list[Any], dims: list[int], extent: int, grain: int, scratch: int
    ) -> Callable[[], object]:
        table = ffi.new("mx_step[]", [(loaded[name], 0, 0, extent, grain, 0)])
        argp, d = ffi.new("void *[]", pointers), ffi.new("i64[]", dims or [0])
        err, null = ffi.new("i64[6]"), ffi.NULL
        keep.extend([table, argp, d, err, pointers])
        execute = lib.mx_execute
        return lambda: execute(team, table, 1, argp, d, null, 0, null, scratch, null, err)

    def floats(count: int) -> Any:
        p = ffi.cast("float *", lib.mx_alloc(4 * count))
        np.frombuffer(ffi.buffer(p, 4 * count), np.float32)[:] = 0.25
        return p

    yield "dispatch of one step", "us", 1e-3, step("bench_nothing", [ffi.NULL], [], 1, 1, 0)
    y, x = floats(MAP_SIZE), floats(MAP_SIZE)
    values = np.frombuffer(ffi.buffer(x, 4 * MAP_SIZE), np.float32)
    values[:] = np.linspace(0.01, 4, MAP_SIZE)
    for name in MAPS:
        yield name, "ns/element", 1 / MAP_SIZE, step(f"bench_{name}", [y, x], [], MAP_SIZE, 8192, 0)
    for m, k, n in GEMMS:
        mb, nb = ffi.new("i64 *"), ffi.new("i64 *")
        run.products.mx_gemm_plan(m, n, k, threads, mb, nb)
        a, c, turns = floats(m * k), floats(m * n), []
        for _ in range(weights_in_rotation(k, n)):
            packed = floats(run.products.mx_pack_b_size(k, n))
            extent = -(-m // mb[0]) * -(-n // nb[0])
            turns.append(step("bench_gemm", [c, a, packed], [m, n, k, mb[0], nb[0]], extent, 1, 0))
        yield f"gemm {m}x{k}x{n}", "GFLOP/s", 2.0 * m * k * n, in_turn(turns)
    for batch, heads, t, size in ATTENTIONS:
        tk = keys(t)
        block, width = ffi.new("i64 *"), heads * size
        extent = run.products.mx_attention_plan(batch, heads, t, tk, size, size, threads, block)
        # struct mx_attention: 4 pointers, 4 x 3 strides, 8 sizes and the scale
        at = np.zeros(25, np.int64)
        for i, length in enumerate((t, tk, tk, t)):
            at[i] = int(ffi.cast("size_t", floats(batch * length * width)))
            at[4 + 3 * i : 7 + 3 * i] = length * width, size, width
        at[16:24] = batch, heads, 1, t, tk, size, size, block[0]
        at[24:].view(np.float32)[0] = size**-0.5
        pointer = ffi.cast("void *", at.ctypes.data)
        scratch = run.products.mx_attention_scratch(t, tk, size, size, block[0])
        flops = 4.0 * batch * heads * t * tk * size
        keep.append(at)
        yield (
            attention_name(batch, heads, t, size),
            "GFLOP/s",
            flops,
            step(
                "bench_attention", [pointer], [], extent, max(1, extent // (8 * threads)), scratch
            ),
        )


def in_turn(calls: Sequence[Callable[[], object]]) -> Callable[[], object]:
    position = 0

    def one() -> object:
        nonlocal position
        position = (position + 1) % len(calls)
        return calls[position]()

    return one


def attention_name(batch: int, heads: int, t: int, size: int) -> str:
    return f"attention {batch}x{heads}x{t}x{keys(t)}x{size}"


def numpy_cases(threads: int) -> Iterator[Case]:
    import numpy as np

    x = np.linspace(0.01, 4, MAP_SIZE).astype(np.float32)
    for name in ("exp", "log", "tanh", "sin"):
        function = getattr(np, name)
        yield name, "ns/element", 1 / MAP_SIZE, partial(function, x)
    for m, k, n in GEMMS:
        a = np.full((m, k), 0.25, np.float32)
        many = range(weights_in_rotation(k, n))
        turns = [partial(np.matmul, a, np.full((k, n), 0.25, np.float32)) for _ in many]
        yield f"gemm {m}x{k}x{n}", "GFLOP/s", 2.0 * m * k * n, in_turn(turns)


def torch_cases(threads: int) -> Iterator[Case]:
    import torch

    torch.set_num_threads(threads)

    def fused(q: Any, k: Any, v: Any) -> object:
        """With the copy that makes the heads one axis again: our kernel writes it so."""
        out = functional.scaled_dot_product_attention(q, k, v)
        return out.transpose(1, 2).contiguous()

    functional, x = torch.nn.functional, torch.linspace(0.01, 4, MAP_SIZE)
    for name in MAPS:
        function = functional.gelu if name == "gelu" else getattr(torch, name)
        yield name, "ns/element", 1 / MAP_SIZE, partial(function, x)
    for m, k, n in GEMMS:
        a = torch.full((m, k), 0.25)
        many = range(weights_in_rotation(k, n))
        turns = [partial(functional.linear, a, torch.full((n, k), 0.25)) for _ in many]
        yield f"gemm {m}x{k}x{n}", "GFLOP/s", 2.0 * m * k * n, in_turn(turns)
    for batch, heads, t, size in ATTENTIONS:
        q, k, v = (torch.rand(batch, n, heads, size).transpose(1, 2) for n in (t, keys(t), keys(t)))
        flops = 4.0 * batch * heads * t * keys(t) * size
        yield attention_name(batch, heads, t, size), "GFLOP/s", flops, partial(fused, q, k, v)


CONTENDERS = {"maxlab": maxlab_cases, "numpy": numpy_cases, "torch": torch_cases}


def worker(name: str, threads: int, seconds: float) -> None:
    """Prints {case: [unit, value]} of one process: medians over `seconds` per case."""
    # one thread: its CPU time, which other programs disturb less; more: the wall clock
    clock = time.thread_time_ns if threads == 1 else time.perf_counter_ns
    out: dict[str, tuple[str, float]] = {}
    for case, unit, factor, call in CONTENDERS[name](threads):
        call()
        begin = time.perf_counter_ns()
        call()
        batch = max(1, 20_000 // (time.perf_counter_ns() - begin + 1))  # calls per reading
        times: list[float] = []
        end = time.perf_counter() + seconds
        while time.perf_counter() < end or len(times) < 5:
            start = clock()
            for _ in range(batch):
                call()
            times.append((clock() - start) / batch)
        ns = statistics.median(times)
        out[case] = (unit, factor / ns if unit == "GFLOP/s" else ns * factor)
    sys.stdout.write(json.dumps(out))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.2, help="per case and round")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--torch-python", default=sys.executable)
    parser.add_argument("--worker", choices=CONTENDERS)
    options = parser.parse_args()
    if options.worker:
        worker(options.worker, options.threads, options.seconds)
        return
    found: dict[str, dict[str, list[float]]] = {}
    units: dict[str, str] = {}
    count = str(options.threads)
    limits = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), count)
    root = Path(__file__).resolve().parents[1]
    environment = {**os.environ, **limits, "PYTHONPATH": str(root)}
    for _ in range(options.rounds):
        for name in CONTENDERS:
            python = options.torch_python if name == "torch" else sys.executable
            done = subprocess.run(
                [python, __file__, "--worker", name, "--threads", count,
                 "--seconds", str(options.seconds)],
                env=environment, capture_output=True, text=True, check=False,
            )  # fmt: skip
            if done.returncode:
                sys.stderr.write(f"{name}: left out: {done.stderr.strip().splitlines()[-1]}\n")
                continue
            for case, (unit, value) in json.loads(done.stdout).items():
                units[case] = unit
                found.setdefault(case, {}).setdefault(name, []).append(value)
    sys.stdout.write(
        f"{options.threads} thread(s): median of {options.rounds} rounds [slowest, fastest]\n"
    )
    for case, by_name in found.items():
        cells = [
            f"{n} {statistics.median(v):8.3g} [{min(v):.3g}, {max(v):.3g}]"
            for n, v in by_name.items()
        ]
        sys.stdout.write(
            f"{case:28} {units[case]:10} " + "   ".join(f"{c:34}" for c in cells) + "\n"
        )


if __name__ == "__main__":
    main()

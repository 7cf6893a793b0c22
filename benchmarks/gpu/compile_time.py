"""How long MiniLM takes from its graph to its first result: with an empty cache and with a full
one, by NVRTC and by nvcc. Some kernels are chosen and compiled only when sizes are known.

Each load happens in a process of its own, which this module is when it is run by itself.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.gpu.case import Bench, Row
from benchmarks.gpu.launching import down, load, up
from benchmarks.gpu.minilm import CONFIG, SIZES, TINY_CONFIG, TINY_SIZES, network
from benchmarks.tutorial import minilm_graph
from maxlab import driver
from maxlab.toolchain import cuda
from maxlab.toolchain.cuda_compiler import CudaCompiler, NvccCompiler, NvrtcCompiler
from maxlab.toolchain.nvlib import find_program
from maxlab.toolchain.nvrtc import find_nvrtc

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 120.0


def run(bench: Bench) -> None:
    """Cold and warm loads by each compiler that is there."""
    if bench.device.simulated:
        compilers = ["simulator"]
    else:
        compilers = [name for name in ("nvrtc", "nvcc") if compiler(name) is not None]
    for name in compilers:
        bench.guarded("compile", name, lambda name=name: loads(bench, name))  # type: ignore[misc]


def compiler(name: str) -> CudaCompiler | None:
    """NVRTC or nvcc, if this machine has it."""
    if name == "nvrtc":
        nvrtc = find_nvrtc()
        return None if nvrtc is None else NvrtcCompiler(nvrtc)
    path = find_program("nvcc")
    return None if path is None else NvccCompiler(path)


def loads(bench: Bench, name: str) -> None:
    """A cold load and, in two other processes, warm ones."""
    with tempfile.TemporaryDirectory(prefix="maxlab-bench-") as cache:
        for kind in ("cold", "warm", "warm"):
            found = child(name, Path(cache), tiny=bench.tiny)
            note = f"{found['kernels']} kernels, {found['compiled']} compiled, of it "
            note += f"{found['load_s'] * 1e3:.0f} ms in load(); the host's clock"
            bench.add(
                Row(
                    "compile", f"first result of MiniLM, {name}", kind,
                    median_us=found["first_s"] * 1e6, samples=1, runs=1, note=note,
                )
            )  # fmt: skip


def child(name: str, cache: Path, *, tiny: bool) -> dict[str, float]:
    """What a process that loads the model says.

    Raises:
        RuntimeError: it failed, with the last line of its errors.
    """
    command = [sys.executable, "-m", "benchmarks.gpu.compile_time", name]
    env = {**os.environ, "MAXLAB_CACHE_DIR": str(cache)}
    done = subprocess.run(
        [*command, "--tiny"] if tiny else command,
        env=env, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["it said nothing"]
        raise RuntimeError(f"status {done.returncode}: {lines[-1]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Load the model by the compiler that the command line names, and print how long it took."""
    name, tiny = sys.argv[1], "--tiny" in sys.argv
    if name == "simulator":
        driver.use_simulator()
    else:
        chosen = compiler(name)
        assert chosen is not None, f"{name} was found before"
        vars(cuda)["find_cuda_compiler"] = lambda: chosen
    device = driver.Accelerator()
    names = network(TINY_CONFIG if tiny else CONFIG)
    graph, weights = minilm_graph(names), names["minilm"].state_dict()
    begin = time.perf_counter()
    model = load(device, graph, weights)
    loading = time.perf_counter() - begin
    batch, length = TINY_SIZES[0] if tiny else SIZES[0]
    tokens = np.ones((batch, length), np.int64)
    down(model(up(device, tokens), up(device, tokens))[0])
    first = time.perf_counter() - begin
    loaded = list(model.gpu_kernels.values())
    compiled = len({k.function.name for k in loaded if not k.hit})
    print(
        json.dumps(
            {"load_s": loading, "first_s": first, "kernels": len(loaded), "compiled": compiled}
        )
    )


if __name__ == "__main__":
    main()

"""One peer of ``benchmarks.performance`` in a process of its own: ``worker.py PEER THREADS``.

It answers questions of a line of JSON each: ``{"prepare": ROW, "onnx": PATH, "save": PATH}`` makes
a row ready, saves its results, and says how many runs make a turn; ``{"case": ROW, "count": N}``
times runs; ``{"exact": ROW, "save": PATH}`` and ``{"export": ROW, "save": PATH}``, for torch, save
the results in float64 and the row as ONNX. Only the last row prepared can be timed.

``{"keep": ROW, "folder": PATH}`` writes its inputs and weights for what follows.

``worker.py PEER THREADS NAME FOLDER`` prepares the row of a first number, reading what it needs
from files, runs it once, prints a number of the result, and ends.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path[:] = [p for p in sys.path if Path(p or ".").resolve() != Path(__file__).resolve().parent]

from benchmarks.turns import answer_all, limit_threads, say, timed  # noqa: E402 - found above

PEER, THREADS = sys.argv[1], int(sys.argv[2])
limit_threads(THREADS)

import numpy as np  # noqa: E402 - after the thread counts

from benchmarks.performance.kept import keep, read_from  # noqa: E402
from benchmarks.performance.rows import BODIES, COLD, ROWS  # noqa: E402

TURN_NS, MOST = 30_000_000, 2000
"""What a turn takes about, and of how many runs it is at most."""


def llama(name: str) -> Callable[[], Any]:
    """A row of the blocks of a Llama."""
    from benchmarks.llm_shapes import MODELS
    from benchmarks.llm_worker import made

    return made(PEER, MODELS["4blocks"], THREADS).prepared(name)  # type: ignore[no-any-return]


def prepared(name: str, onnx: str | None, folder: Path | None = None) -> Callable[[], Any]:
    """A run of a row, its inputs and weights from ``folder`` where one is given.

    Raises:
        LookupError: The peer does not have it.
    """
    row = ROWS.get(name)
    if row is not None and row.kind == "llama":
        return llama(name)
    if PEER in ("torch", "torch_compile"):
        import torch

        from benchmarks.performance import with_torch

        torch.set_num_threads(THREADS)
        return with_torch.prepared(name, PEER == "torch_compile")
    if PEER in ("onnxruntime", "openvino"):
        from benchmarks.performance import exported

        assert onnx is not None
        path, given = Path(onnx), exported.inputs_of(name, folder)
        if row is not None and row.bits:
            path = exported.quantized(path, PEER)
        if PEER == "onnxruntime":
            return exported.onnxruntime(path, given, THREADS)
        few = name in BODIES and BODIES[name].dtype == "bfloat16"
        group = exported.GROUPS.get(name, 0)
        return exported.openvino(path, given, THREADS, "bf16" if few else "f32", group)
    from benchmarks.performance import graphs

    if row is not None and row.bits and name in BODIES:
        return graphs.in_int8(name, THREADS)
    if name in BODIES:
        return graphs.prepared(PEER, name, THREADS)
    if folder is not None and name == "conv_net":
        return graphs.conv_net(name, THREADS, folder)
    return (graphs.minilm if name.startswith("minilm") else graphs.imported)(name, THREADS)


def first(name: str, folder: Path) -> Callable[[], Any]:
    """A run of the row whose first number has this name."""
    cold = COLD[name]
    read_from(cold.row, folder)
    onnx = str(folder / f"{cold.row}.onnx")
    return prepared(cold.row, onnx, None if cold.imported else folder)


def arrays(found: Any) -> list[Any]:
    """What a run gave, as NumPy arrays."""
    if isinstance(found, np.ndarray):
        return [found]
    first = found[0] if isinstance(found, (list, tuple)) else found
    if type(first).__module__.partition(".")[0] == "torch":
        from benchmarks.performance import with_torch

        return with_torch.arrays(found)
    if PEER in ("maxlab", "max"):
        from benchmarks.performance import graphs

        return graphs.arrays(PEER, found)
    from benchmarks.performance import exported

    return exported.arrays(found)


def runs_of(call: Callable[[], Any]) -> int:
    """How many runs make a turn."""
    call()
    begin, count = time.perf_counter_ns(), 0
    while time.perf_counter_ns() - begin < TURN_NS and count < MOST:
        call()
        count += 1
    return max(3, count)


def main() -> None:
    """Answer, or run a row once."""
    if len(sys.argv) > 3:
        found = first(sys.argv[3], Path(sys.argv[4]))()
        say({"number": float(arrays(found)[0].ravel()[0])})
        sys.stdout.flush()
        os._exit(0)  # what ends here is the measurement: nobody waits for destructors
    runs: dict[str, Callable[[], Any]] = {}

    def answer(asked: dict[str, Any]) -> dict[str, Any]:
        if "case" in asked:
            return timed(runs[asked["case"]], asked["count"])
        try:
            runs.clear()
            if "keep" in asked:
                keep(asked["keep"], Path(asked["folder"]))
                return {}
            name = asked.get("prepare") or asked.get("exact") or asked["export"]
            if "export" in asked or "exact" in asked:
                from benchmarks.performance import with_torch

                if "export" in asked:
                    with_torch.export(name, Path(asked["save"]))
                else:
                    np.savez(asked["save"], *with_torch.exact(name))
                return {}
            begin = time.perf_counter()
            runs[name] = prepared(name, asked.get("onnx"))
            first = arrays(runs[name]())
            seconds = time.perf_counter() - begin
            np.savez(asked["save"], *first)
            return {"load_s": seconds, "count": runs_of(runs[name])}
        except Exception as error:  # told where the row is
            runs.clear()
            said = str(error).strip().splitlines() or [""]
            return {"error": f"{type(error).__name__}: {said[0]}"}

    say({"ready": True})
    answer_all(answer)


if __name__ == "__main__":
    main()

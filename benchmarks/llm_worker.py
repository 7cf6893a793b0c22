"""One peer of ``benchmarks.llm`` in a process of its own: ``llm_worker.py PEER MODEL THREADS``.

It says what memory it has when the model is loaded. Then it answers lines of JSON on standard
input: ``{"case": NAME, "count": N}`` with the nanoseconds of N runs, of which the first of a case
is preceded by one that is not told; ``{"logits": NAME}`` with the first logits of a case;
which tell the most probable token too, or tell that alone where a peer has no logits to show;
``{"facts": NAME}``, maxlab only, with the bytes that a profile counts. Between two lines it waits.
The peer ``attention_N`` says how much memory attention of N tokens takes, and ends.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any

os.environ["HF_HUB_OFFLINE"] = os.environ["TQDM_DISABLE"] = "1"
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from benchmarks.turns import answer_all, limit_threads, say, timed

if __name__ == "__main__":
    limit_threads(int(sys.argv[3]))

from benchmarks.llm_shapes import CASES, MODELS, Sizes


def made(peer: str, sizes: Sizes, threads: int) -> Any:
    """The loaded model of a peer."""
    if peer.startswith("maxlab"):
        from benchmarks.llm_ours import Ours

        return Ours(sizes, threads, quantized=peer == "maxlab_q4_k")
    if peer == "llama_cpp":
        from benchmarks.llm_llama_cpp import LlamaCpp

        return LlamaCpp(sizes, threads)
    if peer.endswith("_genai"):
        from benchmarks import llm_genai

        if peer == "openvino_genai":
            return llm_genai.OpenVINOGenAI(sizes, threads)
        return llm_genai.OnnxRuntimeGenAI(sizes, threads)
    from benchmarks import llm_torch

    if peer == "openvino":
        return llm_torch.OpenVINO(sizes, threads)
    return llm_torch.Torch(sizes, threads, compiled=peer == "torch_compile")


def resident(field: str = "VmRSS") -> int:
    """The bytes of memory of the process: ``VmHWM`` the most so far, ``RssAnon`` of no file."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(field))


def main() -> None:
    """Load the model, then answer."""
    peer, sizes, threads = sys.argv[1], MODELS[sys.argv[2]], int(sys.argv[3])
    if peer.startswith("attention_"):
        from benchmarks.llm_ours import attention_peak

        say({"peak": attention_peak(sizes, int(peer.removeprefix("attention_")))})
        return
    begin = time.perf_counter()
    model = made(peer, sizes, threads)
    seconds = time.perf_counter() - begin
    held = {"rss": resident(), "own": resident("RssAnon"), "peak": resident("VmHWM")}
    say({"load_s": seconds, **held})
    runs: dict[str, Callable[[], Any]] = {}
    now = ""

    def answer(asked: dict[str, Any]) -> dict[str, Any]:
        nonlocal now
        if "facts" in asked:
            facts: dict[str, Any] = model.facts(CASES[asked["facts"]])
            return facts
        name = asked.get("case") or asked["logits"]
        first = None
        if name == "read" and name not in runs:
            from benchmarks.llm_ours import reading

            runs[name] = reading(threads)
            runs[name]()
        elif name != "read" and name != now:  # one cache serves all cases, filled for one of them
            now, runs[name] = name, model.prepared(name)
            first = runs[name]()
        if "logits" in asked:
            first = runs[name]() if first is None else first
            if first.dtype.kind == "i":
                return {"token": int(first[0])}
            told = [float(x) for x in first.ravel()[:8]]
            return {"logits": told, "token": int(first.reshape(-1, sizes.vocab)[0].argmax())}
        return timed(runs[name], asked["count"])

    answer_all(answer)


if __name__ == "__main__":
    main()

"""One server of ``benchmarks.serve`` in a process of its own: ``serve_worker.py PEER MODEL THREADS
FOLDER``.

It says when the model is loaded, and then answers lines of JSON on standard input:
``{"case": NAME, "turn": N}`` with what was timed, see `benchmarks.serve_cases`. Between two lines
it waits.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

PEER, MODEL, THREADS, FOLDER = sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4])
os.environ["HF_HUB_OFFLINE"] = os.environ["TQDM_DISABLE"] = "1"
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from benchmarks.turns import limit_threads  # noqa: E402 - in this folder, whoever runs it

limit_threads(THREADS)

from benchmarks.llm_shapes import MODELS  # noqa: E402 - in this folder, whoever runs it
from benchmarks.serve_cases import CONCURRENT, first_token, throughput  # noqa: E402


def made() -> Any:
    """The server."""
    if PEER == "maxlab":
        from benchmarks.serve_ours import Ours

        return Ours(FOLDER)
    from benchmarks import serve_peers

    if PEER == "transformers":
        return serve_peers.Transformers(FOLDER, THREADS)
    if PEER == "onnxruntime_genai":
        return serve_peers.OnnxRuntime(FOLDER, THREADS)
    return serve_peers.OpenVINO(MODELS[MODEL], FOLDER, THREADS)


def main() -> None:
    """Load the model, then answer."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what libraries print is no answer
    begin = time.perf_counter()
    server = made()
    print(json.dumps({"load_s": time.perf_counter() - begin}), file=answers, flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        sizes, case = MODELS[MODEL], asked["case"]
        if case in CONCURRENT:
            found = throughput(server, sizes, case)
        else:
            found = first_token(server, sizes, case, asked["turn"])
        print(json.dumps(found), file=answers, flush=True)


if __name__ == "__main__":
    main()

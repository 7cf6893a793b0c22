"""MiniLM with random weights, as the tutorial defines it: beside torch, recorded and as called."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from benchmarks.gpu import data, peers
from benchmarks.gpu.case import Bench, Row
from benchmarks.gpu.launching import Array, Launches, load, up
from benchmarks.gpu.timing import Contender, repeated
from benchmarks.tutorial import NOTEBOOK, minilm_graph
from maxlab.dtype import DType
from maxlab.engine import Model

CONFIG: dict[str, Any] = {
    "hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12,
    "intermediate_size": 1536, "vocab_size": 30522, "max_position_embeddings": 512,
    "type_vocab_size": 2, "layer_norm_eps": 1e-12,
}  # fmt: skip
"""all-MiniLM-L6-v2."""
TINY_CONFIG = CONFIG | {
    "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
    "intermediate_size": 64, "vocab_size": 50, "max_position_embeddings": 32,
}  # fmt: skip
SIZES, TINY_SIZES = ((8, 64), (1, 16)), ((2, 8),)
Weights = Mapping[str, Array]


def network(config: Mapping[str, Any]) -> dict[str, Any]:
    """The names that the tutorial's cell of modules defines for ``config``, on a GPU, and under
    ``minilm`` the network. It takes no checkpoint: the weights are random.
    """
    from maxlab import nn
    from maxlab.graph import DeviceRef, Dim, Graph, TensorType, TensorValue, ops

    names: dict[str, Any] = {
        "__name__": "tutorial", "config": config, "np": np, "nn": nn, "DType": DType,
        "DeviceRef": DeviceRef, "Dim": Dim, "Graph": Graph, "TensorType": TensorType,
        "TensorValue": TensorValue, "ops": ops,
    }  # fmt: skip
    texts = ["".join(cell["source"]) for cell in json.loads(NOTEBOOK.read_text("utf-8"))["cells"]]
    (text,) = (text for text in texts if "class MiniLM(" in text)
    text = text.replace("DeviceRef.CPU()", "DeviceRef.GPU()")
    exec(compile(text, NOTEBOOK.name, "exec"), names)
    names["minilm"] = names["MiniLM"]()
    names["minilm"].load_state_dict(_random(names["minilm"]))
    return names


def _random(module: Any) -> dict[str, Array]:
    found = {}
    for number, (name, weight) in enumerate(module.raw_state_dict().items()):
        shape = tuple(int(size) for size in weight.shape)
        drawn = data.normal(number, shape, DType.float32, 0.05)
        found[name] = drawn + np.float32("norm.weight" in name)  # scales are about 1
    return found


def run(bench: Bench) -> None:
    """Both sizes, beside eager torch."""
    for case in _cases(bench):
        bench.guarded("model", case.title, partial(case.measure, compiled=False))


def run_beside_torch_compile(bench: Bench) -> None:
    """The same beside torch.compile, which takes long and may not work."""
    if peers.torch_on_a_gpu() is None:
        why = peers.why_no_torch()
        bench.add(Row("model", "minilm", "torch.compile", error=f"torch: {why}"))
        return
    for case in _cases(bench):
        work = partial(case.measure, compiled=True)
        bench.guarded("model", case.title, work, "torch.compile")


def _cases(bench: Bench) -> list[Case]:
    names = network(TINY_CONFIG if bench.tiny else CONFIG)
    weights = {name: np.asarray(x) for name, x in names["minilm"].state_dict().items()}
    model = load(bench.device, minilm_graph(names), names["minilm"].state_dict())
    sizes = TINY_SIZES if bench.tiny else SIZES
    return [Case(bench, model, names["config"], weights, *size) for size in sizes]


@dataclass
class Case:
    """The model at one size; the reference is computed when it is needed first."""

    bench: Bench
    model: Model
    config: Mapping[str, Any]
    weights: Weights
    batch: int
    length: int

    @property
    def title(self) -> str:
        """The case in a table."""
        return f"minilm {self.batch}x{self.length}"

    @cached_property
    def inputs(self) -> tuple[Array, Array]:
        """Tokens, and a mask that hides half of the last sentence."""
        shape = self.batch, self.length
        tokens = np.random.default_rng(0).integers(0, self.config["vocab_size"], shape)
        mask = np.ones(shape, np.int64)
        mask[-1, shape[1] // 2 :] = 0
        return tokens, mask

    @cached_property
    def want(self) -> Array:
        """The embeddings in float64."""
        return _reference(self.weights, self.config, *self.inputs)

    def measure(self, *, compiled: bool) -> None:
        """The device's time, and that of calls one behind the other; beside torch, eager or
        compiled.
        """
        bench, model = self.bench, self.model
        x, y = (up(bench.device, array) for array in self.inputs)
        launches = Launches(model, [x, y])
        (got,) = launches.results()
        errors = {"maxlab": data.check(got, self.want, DType.float32, self.title)}

        for _ in range(3):  # the second call of the same memory records
            model(x, y)
        calls = [
            Contender("maxlab", capture=repeated(lambda: model(x, y)), note="calls of the model")
        ]
        recorded = [Contender("maxlab", [launches], note=f"kernels: {len(launches)}")]
        name = "torch.compile" if compiled else "torch eager"

        def add_torch() -> None:
            work = self._peer(compiled)
            result = peers.down(bench.context.call(work))
            errors[name] = data.check(result, self.want, DType.float32, f"{name} {self.title}")

            calls.append(Contender(name, capture=repeated(work), note="calls"))
            recorded.append(peers.contender(bench.context, [work], name, "as a CUDA graph"))

        if peers.torch_on_a_gpu() is not None:
            bench.guarded("model", self.title, add_torch, name)
        for kind, contenders in (("calls", calls), ("recorded", recorded)):
            title = f"{self.title}, {kind}{', beside torch.compile' if compiled else ''}"
            bench.compare("model", title, contenders, work=1.0, unit="", errors=errors)

    def _peer(self, compiled: bool) -> Callable[[], Any]:
        """The same in torch."""
        torch = peers.torch_on_a_gpu()
        weights = {name: peers.up(array) for name, array in self.weights.items()}
        tokens, mask = (peers.up(array) for array in self.inputs)

        def forward(tokens: Any, mask: Any) -> Any:
            return _torch(torch, self.config, weights, tokens, mask)

        called = torch.compile(forward) if compiled else forward

        def work() -> Any:
            with torch.inference_mode():
                return called(tokens, mask)

        return work


# ---------------------------------------------------------------- the same in torch and NumPy
def _torch(torch: Any, config: Mapping[str, Any], w: Mapping[str, Any], ids: Any, mask: Any) -> Any:
    """The tutorial's model in torch, with attention by SDPA."""
    f = torch.nn.functional
    hidden, heads = config["hidden_size"], config["num_attention_heads"]

    def linear(x: Any, name: str) -> Any:
        return f.linear(x, w[f"{name}.weight"], w[f"{name}.bias"])

    def norm(x: Any, name: str) -> Any:
        weight, bias = w[f"{name}.weight"], w[f"{name}.bias"]
        return f.layer_norm(x, (hidden,), weight, bias, config["layer_norm_eps"])

    batch, length = ids.shape
    kept = mask.float()
    bias = ((1.0 - kept) * -1e30).reshape(batch, 1, 1, length)
    x = f.embedding(ids, w["embeddings.word.weight"]) + w["embeddings.position.weight"][:length]
    x = norm(x + w["embeddings.token_type.weight"][0], "embeddings.norm")
    for n in range(config["num_hidden_layers"]):
        layer = f"encoder.layers.{n}"
        q, k, v = (
            linear(x, f"{layer}.attention.{part}")
            .view(batch, length, heads, hidden // heads)
            .transpose(1, 2)
            for part in ("query", "key", "value")
        )
        mixed = f.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        mixed = mixed.transpose(1, 2).reshape(batch, length, hidden)
        x = norm(x + linear(mixed, f"{layer}.attention.output"), f"{layer}.attention_norm")
        up = f.gelu(linear(x, f"{layer}.up"))
        x = norm(x + linear(up, f"{layer}.down"), f"{layer}.output_norm")
    mean = (x * kept.unsqueeze(-1)).sum(1) / kept.sum(-1, keepdim=True).clamp(min=1e-9)
    return mean / (mean * mean).sum(-1, keepdim=True).sqrt()


def _reference(weights: Weights, config: Mapping[str, Any], ids: Array, mask: Array) -> Array:
    """The same in float64 by NumPy."""
    w = {name: array.astype(np.float64) for name, array in weights.items()}
    hidden, heads = config["hidden_size"], config["num_attention_heads"]
    size = hidden // heads
    batch, length = ids.shape

    def linear(x: Array, name: str) -> Array:
        return np.asarray(x @ w[f"{name}.weight"].T + w[f"{name}.bias"])

    def norm(x: Array, name: str) -> Array:
        spread = np.sqrt(x.var(-1, keepdims=True) + config["layer_norm_eps"])
        scaled = (x - x.mean(-1, keepdims=True)) / spread
        return np.asarray(scaled * w[f"{name}.weight"] + w[f"{name}.bias"])

    x = w["embeddings.word.weight"][ids] + w["embeddings.position.weight"][:length]
    x = norm(x + w["embeddings.token_type.weight"][0], "embeddings.norm")
    hide = ((1.0 - mask) * -1e30)[:, None, None, :]
    for n in range(config["num_hidden_layers"]):
        layer = f"encoder.layers.{n}"
        q, k, v = (
            linear(x, f"{layer}.attention.{part}")
            .reshape(batch, length, heads, size)
            .transpose(0, 2, 1, 3)
            for part in ("query", "key", "value")
        )
        scores = q @ k.swapaxes(-1, -2) * size**-0.5 + hide
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = powers / powers.sum(-1, keepdims=True) @ v
        mixed = mixed.transpose(0, 2, 1, 3).reshape(batch, length, hidden)
        x = norm(x + linear(mixed, f"{layer}.attention.output"), f"{layer}.attention_norm")
        inner = data.gelu(linear(x, f"{layer}.up"))
        x = norm(x + linear(inner, f"{layer}.down"), f"{layer}.output_norm")
    kept = mask.astype(np.float64)
    mean = (x * kept[..., None]).sum(1) / np.maximum(kept.sum(-1, keepdims=True), 1e-9)
    return np.asarray(mean / np.sqrt((mean * mean).sum(-1, keepdims=True)))

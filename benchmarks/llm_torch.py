"""The Llama of ``benchmarks.llm`` in torch, eager and compiled, and in OpenVINO, converted from it.

The keys and values of torch lie in tensors that are made once; a step writes the new ones into
them and attends to views, so that nothing is copied or padded. That is faster than what
transformers does with its caches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - as everyone calls it

from benchmarks.llm_shapes import CASES, Array, Sizes, tokens, weights


def turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat([-b, a], -1) * sin


def layer(
    s: Sizes, x: Tensor, cos: Tensor, sin: Tensor, attend: Any, norm1: Tensor, qkv: Tensor,
    out: Tensor, norm2: Tensor, gate_up: Tensor, down: Tensor,
) -> Tensor:  # fmt: skip
    """One layer of rows ``[tokens, hidden]``; ``attend`` gets ``[1, heads, tokens, dim]``."""
    y = F.linear(F.rms_norm(x, (s.hidden,), norm1, s.eps), qkv)
    y = y.view(-1, s.heads + 2 * s.kv_heads, s.dim)
    q, k, v = y.transpose(0, 1)[None].split([s.heads, s.kv_heads, s.kv_heads], 1)
    y = attend(turned(q, cos, sin), turned(k, cos, sin), v)
    x = x + F.linear(y[0].transpose(0, 1).reshape(-1, s.heads * s.dim), out)
    gate, up = F.linear(F.rms_norm(x, (s.hidden,), norm2, s.eps), gate_up).chunk(2, -1)
    return x + F.linear(F.silu(gate) * up, down)


class Llama(nn.Module):
    """The model; weights are joined as ours are."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.sizes = sizes
        for name, w in weights(sizes):
            value = nn.Parameter(torch.from_numpy(w), requires_grad=False)
            self.register_parameter(name.replace(".", "_"), value)
        half = np.arange(0, sizes.dim, 2) / sizes.dim
        angles = np.arange(4352)[:, None] * sizes.theta**-half
        angles = np.concatenate([angles, angles], axis=1).astype(np.float32)
        self.register_buffer("cos", torch.from_numpy(np.cos(angles)))
        self.register_buffer("sin", torch.from_numpy(np.sin(angles)))

    def weight(self, name: str) -> Tensor:
        return self.get_parameter(name.replace(".", "_"))

    def layer(self, n: int, x: Tensor, cos: Tensor, sin: Tensor, attend: Any) -> Tensor:
        """One layer of rows ``[tokens, hidden]``; ``attend`` gets ``[1, heads, tokens, dim]``."""
        parts = ("norm1", "qkv", "out", "norm2", "gate_up", "down")
        given = [self.weight(f"layers.{n}.{part}") for part in parts]
        return layer(self.sizes, x, cos, sin, attend, *given)

    def last(self, x: Tensor) -> Tensor:
        y = F.rms_norm(x[-1:], (self.sizes.hidden,), self.weight("norm"), self.sizes.eps)
        return F.linear(y, self.weight("embed"))

    def forward(self, ids: Tensor, cache: list[Tensor], begin: int, step: Any) -> Tensor:
        """The logits of the last of the tokens ``ids``, which follow ``begin`` cached ones."""
        end = begin + ids.shape[0]
        cos, sin = self.cos[begin:end], self.sin[begin:end]
        x = F.embedding(ids, self.weight("embed"))
        parts = ("norm1", "qkv", "out", "norm2", "gate_up", "down")
        for n in range(self.sizes.layers):
            given = [self.weight(f"layers.{n}.{part}") for part in parts]
            x = step(self.sizes, x, cos, sin, begin, *cache[2 * n : 2 * n + 2], *given)
        return self.last(x)


def cached_layer(
    sizes: Sizes, x: Tensor, cos: Tensor, sin: Tensor, begin: int, keys: Tensor, values: Tensor,
    *given: Tensor,
) -> Tensor:  # fmt: skip
    """One layer with its cache, ``[1, heads, positions, dim]``; compiled once for all layers."""
    end = begin + x.shape[0]

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        keys[:, :, begin:end], values[:, :, begin:end] = k, v
        return F.scaled_dot_product_attention(
            q,
            keys[:, :, :end],
            values[:, :, :end],
            is_causal=begin == 0 and end > 1,
            enable_gqa=True,
        )

    return layer(sizes, x, cos, sin, attend, *given)


class Torch:
    """The model in torch."""

    def __init__(self, sizes: Sizes, threads: int, compiled: bool = False) -> None:
        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)
        self.sizes = sizes
        self.plain = Llama(sizes).eval()
        self.step: Any = torch.compile(cached_layer, dynamic=False) if compiled else cached_layer
        shape = (1, sizes.kv_heads, 2304, sizes.dim)
        self.cache = [torch.zeros(shape) for _ in range(2 * sizes.layers)]

    def prepared(self, name: str) -> Callable[[], Array]:
        """The pass of a case, whose cached tokens are in the cache."""
        case = CASES[name]
        (cached,) = case.cached
        if cached:
            self.plain(torch.from_numpy(tokens(self.sizes, cached)), self.cache, 0, cached_layer)
        ids = torch.from_numpy(tokens(self.sizes, cached + case.new)[cached:])
        return lambda: self.plain(ids, self.cache, cached, self.step).numpy()


class Concatenating(nn.Module):
    """The same with keys and values that grow, as OpenVINO's conversion expects them."""

    def __init__(self, llama: Llama) -> None:
        super().__init__()
        self.llama = llama

    def repeated(self, x: Tensor) -> Tensor:
        """Keys or values for every query head, in the form that OpenVINO knows to leave out."""
        batch, heads, length, dim = x.shape
        group = self.llama.sizes.heads // heads
        x = x[:, :, None].expand(batch, heads, group, length, dim)
        return x.reshape(batch, heads * group, length, dim)

    def forward(self, input_ids: Tensor, *past: Tensor) -> tuple[Tensor, ...]:
        begin = past[0].shape[2]
        places = torch.arange(input_ids.shape[0]) + begin
        cos, sin = self.llama.cos[places], self.llama.sin[places]
        made: list[Tensor] = []
        mask = torch.arange(begin + input_ids.shape[0])[None] <= places[:, None]

        def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            n = len(made) // 2
            k, v = torch.cat([past[2 * n], k], 2), torch.cat([past[2 * n + 1], v], 2)
            made.extend([k, v])
            k, v = self.repeated(k), self.repeated(v)
            return F.scaled_dot_product_attention(q, k, v, attn_mask=mask[None, None])

        x = F.embedding(input_ids, self.llama.weight("embed"))
        for n in range(self.llama.sizes.layers):
            x = self.llama.layer(n, x, cos, sin, attend)
        return (self.llama.last(x), *made)


class Batched(nn.Module):
    """The model with keys and values that grow, for batches ``[batch, tokens]``."""

    def __init__(self, llama: Llama) -> None:
        super().__init__()
        self.llama = llama

    def heads(self, x: Tensor, count: int) -> Tensor:
        return x.view(x.shape[0], x.shape[1], count, -1).transpose(1, 2)

    def repeated(self, x: Tensor) -> Tensor:
        """Keys or values for every query head, in the form that OpenVINO knows to leave out."""
        batch, heads, length, dim = x.shape
        group = self.llama.sizes.heads // heads
        x = x[:, :, None].expand(batch, heads, group, length, dim)
        return x.reshape(batch, heads * group, length, dim)

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, position_ids: Tensor, *past: Tensor
    ) -> tuple[Tensor, ...]:
        s = self.llama.sizes
        cos, sin = (one[position_ids][:, None] for one in (self.llama.cos, self.llama.sin))
        places = torch.arange(input_ids.shape[1]) + past[0].shape[2]
        mask = torch.arange(attention_mask.shape[1])[None] <= places[:, None]
        mask = mask[None, None] & attention_mask.bool()[:, None, None]
        x, made = F.embedding(input_ids, self.llama.weight("embed")), []
        wide, narrow = s.heads * s.dim, s.kv_heads * s.dim
        for n in range(s.layers):
            names = ("norm1", "qkv", "out", "norm2", "gate_up", "down")
            norm1, qkv, out, norm2, gate_up, down = (
                self.llama.weight(f"layers.{n}.{name}") for name in names
            )
            y = F.linear(F.rms_norm(x, (s.hidden,), norm1, s.eps), qkv)
            q, k, v = y.split([wide, narrow, narrow], -1)
            q, k = (
                turned(self.heads(q, s.heads), cos, sin),
                turned(self.heads(k, s.kv_heads), cos, sin),
            )
            k = torch.cat([past[2 * n], k], 2)
            v = torch.cat([past[2 * n + 1], self.heads(v, s.kv_heads)], 2)
            made += [k, v]
            y = F.scaled_dot_product_attention(
                q, self.repeated(k), self.repeated(v), attn_mask=mask
            )
            x = x + F.linear(y.transpose(1, 2).reshape(x.shape[0], x.shape[1], wide), out)
            y = F.linear(F.rms_norm(x, (s.hidden,), norm2, s.eps), gate_up)
            gate, up = y.chunk(2, -1)
            x = x + F.linear(F.silu(gate) * up, down)
        x = F.rms_norm(x, (s.hidden,), self.llama.weight("norm"), s.eps)
        return (F.linear(x, self.llama.weight("embed")), *made)


class OpenVINO:
    """The model in OpenVINO, with its keys and values as the state of a request."""

    def __init__(self, sizes: Sizes, threads: int) -> None:
        import openvino as ov
        from openvino import opset13
        from openvino._offline_transformations import apply_make_stateful_transformation

        torch.set_grad_enabled(False)
        self.sizes = sizes
        model = Concatenating(Llama(sizes).eval())
        past = [torch.zeros(1, sizes.kv_heads, 3, sizes.dim) for _ in range(2 * sizes.layers)]
        given = (torch.zeros(2, dtype=torch.int64), *past)
        converted = ov.convert_model(model, example_input=given)
        names: dict[str, str] = {}
        shape = [1, sizes.kv_heads, -1, sizes.dim]
        converted.inputs[0].get_node().set_partial_shape(ov.PartialShape([-1]))
        for n, port in enumerate(converted.inputs[1:]):
            port.get_node().set_partial_shape(ov.PartialShape(shape))
            port.get_tensor().set_names({f"past.{n}"})
            converted.outputs[n + 1].get_tensor().set_names({f"present.{n}"})
            names[f"past.{n}"] = f"present.{n}"
        order = opset13.parameter([-1], np.int32, name="beam_idx")
        order.output(0).get_tensor().set_names({"beam_idx"})
        converted.add_parameters([order])
        zero = opset13.constant(np.int64(0))
        for port in converted.inputs[1:-1]:  # its fused attention wants a cache that beams reorder
            source = port.get_node().output(0)
            readers = source.get_target_inputs()
            made = opset13.gather(source, order, zero)
            for reader in readers:
                reader.replace_source_output(made.output(0))
        converted.validate_nodes_and_infer_types()
        apply_make_stateful_transformation(converted, names)
        for op in converted.get_ops():
            if op.get_type_name() == "ReadValue":  # which begins empty
                empty = opset13.constant(np.array([1, sizes.kv_heads, 0, sizes.dim]))
                op.set_arguments(
                    [opset13.broadcast(opset13.constant(np.float32(0)), empty).output(0)]
                )
        converted.validate_nodes_and_infer_types()
        settings = {
            "INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": threads,
            "KV_CACHE_PRECISION": "f32", "PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": 1,
            "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0, "ENABLE_CPU_PINNING": False,
        }  # fmt: skip
        self.request = ov.compile_model(converted, "CPU", settings).create_infer_request()
        self.order = np.zeros(1, np.int32)

    def prepared(self, name: str) -> Callable[[], Array]:
        """The pass of a case; where tokens are cached, they grow by one with every run of it."""
        case = CASES[name]
        (cached,) = case.cached
        self.request.reset_state()
        if not cached:
            ids = tokens(self.sizes, case.new)

            def run() -> Array:
                self.request.reset_state()
                self.request.infer([ids, self.order], share_inputs=True)
                return np.array(self.request.get_output_tensor(0).data)

            return run
        self.request.infer([tokens(self.sizes, cached), self.order], share_inputs=True)
        one = tokens(self.sizes, cached + 1)[cached:]

        def step() -> Array:
            self.request.infer([one, self.order], share_inputs=True)
            return np.array(self.request.get_output_tensor(0).data)

        return step

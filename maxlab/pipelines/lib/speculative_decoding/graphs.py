"""The graphs of speculative decoding beside those of the models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from maxlab.dtype import DType
from maxlab.graph import BufferType, DeviceRef, Graph, TensorType, TensorValue, ops
from maxlab.ir import Dim
from maxlab.nn.kernels import merge_ragged_tensors
from maxlab.nn.sampling import RejectionSamplerWithResiduals
from maxlab.nn.sampling.given import steps_of
from maxlab.pipelines.lib.sampling import SamplingConfig
from maxlab.pipelines.lib.sampling.adjusting import ADJUSTING, adjusted
from maxlab.pipelines.lib.sampling.inputs import sampler_input_types

RULES: Final = ("top_k", "temperature", "top_p", "min_p")
"""The rules of requests that choose the tokens to draw from, in the order of the graphs' inputs."""


def adjusting_types(
    config: SamplingConfig, device: DeviceRef
) -> dict[str, TensorType | BufferType]:
    """The inputs of `adjusting_graph` in their order, by name.

    Args:
        config: The features of the sampler.
        device: Where it runs.
    """
    types = sampler_input_types(config, device)
    return {
        "logits": TensorType(config.in_dtype, ["all_rows", "vocab_size"], device),
        "rows": TensorType(DType.int64, ["batch"], device),
        **{name: types[name] for name in ADJUSTING if name in types},
    }


def adjusting_graph(config: SamplingConfig, device: DeviceRef) -> Graph:
    """A graph of chosen rows of logits after penalties, and without tokens that come too early;
    [rows, tokens] of the dtype that the sampler computes in.

    Args:
        config: The features of the sampler.
        device: Where it runs.
    """
    types = adjusting_types(config, device)
    with Graph("adjust_logits", input_types=types.values()) as graph:
        given = dict(zip(types, graph.inputs, strict=True))
        logits = ops.gather(given["logits"].tensor, given["rows"].tensor, 0)
        graph.output(adjusted(logits, given, config, device))
    return graph


def draft_sampler(dtype: DType, device: DeviceRef) -> Graph:
    """A graph that draws draft tokens. Its inputs: logits, floats [batch, tokens]; the tokens
    before, int64 [batch, steps], and their logits, float32 of this shape; for each row ``top_k``,
    ``temperature``, ``top_p``, ``min_p`` and ``seed``; and for all rows ``max_k``, the most tokens
    that any of them is drawn from, all below 1, and ``min_top_p``, the least ``top_p``. Its
    outputs: the tokens, int64 [batch]; and with those before all tokens and all logits,
    [batch, steps + 1].

    Args:
        dtype: The dtype of the logits.
        device: Where it runs.
    """
    types = [
        TensorType(dtype, ["batch", "vocab_size"], device),
        TensorType(DType.int64, ["batch", "num_prev_steps"], device),
        TensorType(DType.float32, ["batch", "num_prev_steps"], device),
        *_rule_types("batch", device),
        TensorType(DType.uint64, ["batch"], device),
        TensorType(DType.int64, [], device),
        TensorType(DType.float64, [], device),
    ]
    with Graph("draft_sampler", input_types=types) as graph:
        logits, before, told, top_k, heat, top_p, min_p, seeds, most, least = (
            x.tensor for x in graph.inputs
        )
        rows = logits.shape[0]
        most = ops.broadcast_to(most, [rows])
        cuts = ops.logical_and(most > 0, ops.logical_or(top_k < 1, top_k > most))
        tokens = ops.sample_token(
            logits,
            ops.where(cuts, most, top_k),
            heat,
            ops.max(top_p, ops.broadcast_to(least, [rows])),
            min_p,
            ops.squeeze(ops.sample_uniform(seeds), 1),
        )
        column = ops.unsqueeze(tokens, 1)
        found = ops.gather_nd(logits, ops.unsqueeze(column, 1), batch_dims=1)
        graph.output(
            tokens,
            ops.concat([before, column], 1),
            ops.concat([told, ops.cast(found, DType.float32)], 1),
        )
    return graph


def merging_graph(device: DeviceRef) -> Graph:
    """A graph that puts draft tokens behind the tokens of each text. Its inputs: the tokens of all
    texts, int64 [tokens]; where those of each text begin, uint32 [texts + 1]; and the draft tokens,
    int64 [texts, steps]. Its outputs are as the first two.

    Args:
        device: Where it runs.
    """
    types = [
        TensorType(DType.int64, ["tokens"], device),
        TensorType(DType.uint32, ["texts_and_end"], device),
        TensorType(DType.int64, ["texts", "num_steps"], device),
    ]
    with Graph("merge_draft_tokens", input_types=types) as graph:
        tokens, offsets, draft = (x.tensor for x in graph.inputs)
        texts, steps = draft.shape
        ends = steps_of(texts + 1, device) * ops.shape_to_tensor([steps]).to(device)
        offsets = ops.rebind(offsets, [texts + 1])
        graph.output(
            *merge_ragged_tensors(
                tokens,
                offsets,
                ops.reshape(draft, [texts * steps]),
                ops.cast(ends, DType.uint32),
            )
        )
    return graph


def checking_graph(dtype: DType, device: DeviceRef) -> Graph:
    """A graph that keeps draft tokens by the probabilities of draft and target.

    Inputs: draft tokens, int64 [batch, steps]; their logits, float32 of this shape, which count in
    place of those among the draft's logits; all of the draft's logits, [steps, batch, tokens]; the
    target's, [batch * (steps + 1), tokens]; and for each row ``top_k``, ``temperature``, ``top_p``,
    ``min_p`` and ``seed``. The rules act on draft and target alike.

    Outputs: as `RejectionSamplerWithResiduals` has them.

    Args:
        dtype: The dtype of all logits but those of the draft tokens.
        device: Where it runs.
    """
    types = [
        TensorType(DType.int64, ["batch", "num_steps"], device),
        TensorType(DType.float32, ["batch", "num_steps"], device),
        TensorType(dtype, ["num_steps", "batch", "vocab_size"], device),
        TensorType(dtype, ["rows", "vocab_size"], device),
        *_rule_types("batch", device),
        TensorType(DType.uint64, ["batch"], device),
    ]
    with Graph("check_draft_tokens", input_types=types) as graph:
        tokens, told, draft, target, *rules, seeds = (x.tensor for x in graph.inputs)
        batch, steps = tokens.shape
        count = target.shape[1]
        rows, every = batch * (steps + 1), batch * steps
        # Rows of the draft are those of a step one after the other, those of the target of a text.
        flat = ops.reshape(ops.permute(tokens, [1, 0]), [every])
        here = ops.stack([steps_of(every, device), flat], axis=-1)
        draft = ops.scatter_nd(
            ops.reshape(draft, [every, count]),
            ops.cast(ops.reshape(ops.permute(told, [1, 0]), [every]), dtype),
            here,
        )
        q = ops.sample_scores(draft, *_repeated(rules, [steps, batch], 0))
        p = ops.sample_scores(
            ops.rebind(target, [rows, count]), *_repeated(rules, [batch, steps + 1], 1)
        )
        chosen = ops.permute(ops.reshape(ops.gather_nd(q, here), [steps, batch]), [1, 0])
        starts = steps_of(batch + 1, device) * (ops.shape_to_tensor([steps]).to(device) + 1)
        check = RejectionSamplerWithResiduals(device, top_k=-1, eps=0)
        graph.output(
            *check(
                tokens,
                chosen,
                p,
                starts,
                ops.reshape(q, [steps, batch, count]),
                seeds=seeds,
            )
        )
    return graph


def _rule_types(rows: str, device: DeviceRef) -> list[TensorType]:
    """The types of the rules of requests, see `RULES`."""
    return [
        TensorType(DType.int64 if name == "top_k" else DType.float64, [rows], device)
        for name in RULES
    ]


def _repeated(rules: Sequence[TensorValue], shape: Sequence[Dim], axis: int) -> list[TensorValue]:
    """Rules of requests for rows of ``shape``, flat; ``axis`` is the one behind the requests'."""
    wide = [ops.broadcast_to(ops.unsqueeze(rule, axis), shape) for rule in rules]
    return [ops.reshape(rule, [shape[0] * shape[1]]) for rule in wide]


__all__ = [
    "RULES",
    "adjusting_graph",
    "adjusting_types",
    "checking_graph",
    "draft_sampler",
    "merging_graph",
]

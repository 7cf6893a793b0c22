"""Graphs that draw tokens: the sampler of a pipeline, and those of speculative decoding."""

from __future__ import annotations

from maxlab.dtype import DType
from maxlab.graph import DeviceRef, Graph, TensorType, TensorValue, ops
from maxlab.nn.kernels import update_frequency_data
from maxlab.nn.sampling import RejectionSampler, RejectionSamplerWithResiduals
from maxlab.pipelines.lib.sampling.adjusting import COUNTS, adjusted
from maxlab.pipelines.lib.sampling.inputs import sampler_input_types
from maxlab.pipelines.lib.sampling.sampling_config import SamplingConfig


def token_sampler(
    sampling_config: SamplingConfig, device: DeviceRef, return_logits: bool = False
) -> Graph:
    """A graph that draws the next token of each request of a batch.

    Its inputs are those of `maxlab.pipelines.lib.sampling.inputs.sampler_input_types`, in order,
    and `sampler_arrays` makes them of requests. The rules act in this order:

    1. the repetition penalty, of the tokens of prompt and answer; negative logits are multiplied
    2. the frequency and the presence penalty, of the tokens of the answer
    3. tokens that would end a request too early, then the bitmask of a grammar
    4. temperature, top-k, top-p and min-p
    5. the draw, by the seed of the row

    The functions of ``logits_processors`` act before, on the logits that are passed, see
    `maxlab.pipelines.lib.sampling.processors`. The logits that are passed stay as they
    are. A request gets the same tokens in every batch, with any number of steps, and on every
    device: those of `maxlab.pipelines.lib.sampling_reference`. A run ends with ML183 where a logit
    is NaN or plus infinity, and with ML185 where no token is left.

    Outputs are the tokens, int64 [batch]; all tokens, int64 [batch, num_prev_steps + 1]; with
    ``return_logits`` the logits of all tokens after penalties, float32 of the same shape; and the
    seeds of the next step, uint64 [batch]. Counts of tokens are brought up to date in place.

    Args:
        sampling_config: The features of the sampler.
        device: Where it runs.
        return_logits: Whether the logits of what is drawn are returned.

    Raises:
        InputTypeError: ML980, an argument of another type (a TypeError).

    Example:
        >>> import numpy as np
        >>> from maxlab.engine import InferenceSession
        >>> from maxlab.interfaces import SamplingParams
        >>> from maxlab.pipelines.core import TextContext
        >>> from maxlab.pipelines.lib.sampling.inputs import sampler_arrays
        >>> config, none = SamplingConfig(), np.zeros((1, 0), np.int64)
        >>> sampler = InferenceSession().load(token_sampler(config, DeviceRef.CPU()))
        >>> context = TextContext(max_length=9, tokens=np.array([5, 6]),
        ...                       sampling_params=SamplingParams(top_k=2, seed=1))
        >>> logits = np.array([[0, 9, 1, 8]], np.float32)
        >>> arrays = sampler_arrays(config, [context])
        >>> tokens, every, seeds = sampler(logits, none, *arrays.values())
        >>> tokens.to_numpy().tolist(), every.to_numpy().tolist(), seeds.to_numpy().tolist()
        ([3], [[3]], [4])
    """
    types = sampler_input_types(sampling_config, device, return_logits)
    with Graph("token_sampler", input_types=types.values()) as graph:
        given = dict(zip(types, graph.inputs, strict=True))

        def taken(name: str) -> TensorValue:
            return given[name].tensor

        logits = taken("logits")
        if "logit_offsets" in given:
            last = ops.cast(taken("logit_offsets")[1:], DType.int64) - 1
            logits = ops.rebind(ops.gather(logits, last, 0), ["batch", "vocab_size"])
        logits = adjusted(logits, given, sampling_config, device)
        seeds = taken("seed")
        tokens = ops.sample_token(
            logits,
            taken("top_k"),
            taken("temperature"),
            taken("top_p"),
            taken("min_p"),
            ops.squeeze(ops.sample_uniform(seeds), 1),
            taken("bitmask") if "bitmask" in given else None,
        )
        for name in COUNTS if sampling_config.do_penalties else ():
            data, offsets = given[f"{name}_freq_data"].buffer, taken(f"{name}_freq_offsets")
            update_frequency_data(data, offsets, tokens)
        column = ops.unsqueeze(tokens, 1)
        outputs = [tokens, ops.concat([taken("prev_tokens"), column], 1)]
        if "existing_logits" in given:
            found = ops.gather_nd(logits, ops.unsqueeze(column, 1), batch_dims=1)
            outputs.append(
                ops.concat([taken("existing_logits"), ops.cast(found, DType.float32)], 1)
            )
        graph.output(*outputs, seeds + 1)
    return graph


def rejection_sampler(device: DeviceRef, *, seed: int = 0) -> Graph:
    """A graph that keeps draft tokens as far as they are the most probable ones of the target.

    Inputs: draft tokens, int64 [batch, steps]; the draft's logits of them, float32 [batch, steps];
    the target's logits, float32 [rows, tokens], with a row for each draft token and one for the
    token behind them; and where the rows of each sequence begin, int64 [batch + 1].

    Outputs, both int64 [batch, 1]: how many draft tokens are kept, and the token that follows. They
    are those of decoding the target alone, for any draft. See `maxlab.nn.sampling.RejectionSampler`
    for other distributions than the greedy one.

    Args:
        device: Where it runs.
        seed: The seed of draws, in [0, 2**64).

    Raises:
        ArgumentTypeError: ML317, ``device`` is no DeviceRef.
        ArgumentError: ML678, a seed out of its range (a ValueError).

    Example:
        >>> import numpy as np
        >>> from maxlab.engine import InferenceSession
        >>> sampler = InferenceSession().load(rejection_sampler(DeviceRef.CPU()))
        >>> target = np.array([[0, 9, 0], [0, 0, 9], [9, 0, 0]], np.float32)
        >>> kept, follows = sampler(np.array([[1, 0]]), np.array([[5, 5]], np.float32), target,
        ...                         np.array([0, 3]))
        >>> kept.to_numpy().tolist(), follows.to_numpy().tolist()
        ([[1]], [[2]])
    """
    sampler = RejectionSampler(device, seed=seed)
    with Graph("rejection_sampler", input_types=_draft_types(device)) as graph:
        tokens, given, target, offsets = (x.tensor for x in graph.inputs)
        graph.output(*sampler(tokens, given, target, offsets))
    return graph


def rejection_sampler_with_residuals(
    device: DeviceRef, *, seed: int = 0, debug: bool = False
) -> Graph:
    """A graph that keeps draft tokens with the ratio of the probabilities of target and draft.

    Inputs: those of `rejection_sampler`, and the draft's logits, float32 [steps, batch, tokens];
    with ``debug`` also the uniform numbers by which tokens are kept, float32 [batch, steps], and
    those by which the token that follows is drawn, float32 [batch, steps, tokens]. The softmax of
    logits is the distribution of target and draft: where tokens are drawn by temperature, top-k,
    top-p and min-p, the logits are those of ``ops.sample_scores``.

    Outputs: how many draft tokens are kept, int64 [batch]; for each step the token that follows if
    the draft token is the first that is not kept, int64 [batch, steps]; and the token that follows
    if all are kept, int64 [batch, 1]. The tokens have the distribution of the target for any draft.

    Args:
        device: Where it runs.
        seed: The seed of draws, in [0, 2**64). Every run draws by the same numbers; a graph of
            `maxlab.nn.sampling.RejectionSamplerWithResiduals` may have a seed for each sequence.
        debug: Whether the uniform numbers are inputs.

    Raises:
        ArgumentTypeError: ML317, ``device`` is no DeviceRef.
        ArgumentError: ML678, a seed out of its range (a ValueError).

    Example:
        >>> import numpy as np
        >>> from maxlab.engine import InferenceSession
        >>> graph = rejection_sampler_with_residuals(DeviceRef.CPU(), debug=True)
        >>> target = np.log(np.array([[0.2, 0.8], [0.5, 0.5]], np.float32))
        >>> draft = np.log(np.array([[[0.5, 0.5]]], np.float32))
        >>> for number in (0.3, 0.5):
        ...     kept, follows, _ = InferenceSession().load(graph)(
        ...         np.array([[0]]), draft[:, :, 0], target, np.array([0, 2]), draft,
        ...         np.array([[number]], np.float32), np.full((1, 1, 2), 0.5, np.float32))
        ...     print(kept.to_numpy(), follows.to_numpy())
        [1] [[1]]
        [0] [[1]]
    """
    sampler = RejectionSamplerWithResiduals(device, top_k=-1, seed=seed, debug=debug)
    types = [
        *_draft_types(device),
        TensorType(DType.float32, ["num_steps", "batch_size", "vocab_size"], device),
    ]
    if debug:
        numbers = ["batch_size", "num_steps"]
        types += [
            TensorType(DType.float32, dims, device) for dims in (numbers, [*numbers, "vocab_size"])
        ]
    with Graph("rejection_sampler_with_residuals", input_types=types) as graph:
        tokens, given, target, offsets, draft, *random = (x.tensor for x in graph.inputs)
        graph.output(*sampler(tokens, given, target, offsets, draft, *random))
    return graph


def _draft_types(device: DeviceRef) -> list[TensorType]:
    """The inputs of every sampler of speculative decoding."""
    return [
        TensorType(DType.int64, ["batch_size", "num_steps"], device),
        TensorType(DType.float32, ["batch_size", "num_steps"], device),
        TensorType(DType.float32, ["total_output_len", "vocab_size"], device),
        TensorType(DType.int64, ["logit_offsets_len"], device),
    ]


__all__ = ["rejection_sampler", "rejection_sampler_with_residuals", "token_sampler"]

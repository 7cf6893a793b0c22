"""The inputs of a sampler by name: their types in its graph, and the arrays of a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from maxlab.dtype import DType
from maxlab.errors import UnsupportedError
from maxlab.graph import BufferType, DeviceRef, TensorType
from maxlab.interfaces import SamplingParams, TextGenerationContext, fields
from maxlab.opset.penalties import FREE
from maxlab.pipelines.lib.sampling.sampling_config import SamplingConfig

_UINT64 = 1 << 64
PENALTIES = ("frequency_penalty", "presence_penalty", "repetition_penalty")


def sampler_input_types(
    sampling_config: SamplingConfig, device: DeviceRef, return_logits: bool = False
) -> dict[str, TensorType | BufferType]:
    """The inputs of `token_sampler` in their order, by name.

    - ``logits``: in_dtype [batch, vocab_size]; with variable logits [total_output_len, vocab_size].
    - ``prev_tokens``: int64 [batch, num_prev_steps], the tokens of earlier steps.
    - ``top_k``: int64 [batch]; all tokens where it is below 1.
    - ``temperature``, ``top_p``, ``min_p``: float64 [batch].
    - ``seed``: uint64 [batch], the seed of the request plus its number of tokens.
    - ``existing_logits``: float32 [batch, num_prev_steps], if logits are returned.
    - ``logit_offsets``: uint32 [batch + 1], with variable logits.
    - ``bitmask``: bool [batch, vocab_size_structured], with structured output; tokens beyond its
      width cannot be drawn.
    - ``penalty_freq_data``, ``repetition_freq_data``: buffers int32 [pairs, 2] of a token and how
      often it was generated, or is there in all; ``…_offsets``: uint32 [batch + 1]; the penalties:
      float64 [batch]. These, if there are penalties.
    - ``min_tokens_mask``: int32 [masked, 2], a row and a token that is not drawn in it.

    Args:
        sampling_config: The features of the sampler.
        device: Where the sampler runs.
        return_logits: Whether it returns the logits of what it draws.

    Raises:
        InputTypeError: ML980, an argument of another type (a TypeError).

    Example:
        >>> list(sampler_input_types(SamplingConfig(enable_min_tokens=True), DeviceRef.CPU()))[-2:]
        ['seed', 'min_tokens_mask']
    """
    fields.instance(SamplingConfig)("sampling_config", sampling_config)
    fields.instance(DeviceRef)("device", device)
    fields.instance(bool)("return_logits", return_logits)
    variable = sampling_config.enable_variable_logits

    def of(dtype: DType, *dims: Any) -> TensorType:
        return TensorType(dtype, dims, device)

    rows = "total_output_len" if variable else "batch"
    found: dict[str, TensorType | BufferType] = {
        "logits": of(sampling_config.in_dtype, rows, "vocab_size"),
        "prev_tokens": of(DType.int64, "batch", "num_prev_steps"),
        "top_k": of(DType.int64, "batch"),
        "temperature": of(DType.float64, "batch"),
        "top_p": of(DType.float64, "batch"),
        "min_p": of(DType.float64, "batch"),
        "seed": of(DType.uint64, "batch"),
    }
    if return_logits:
        found["existing_logits"] = of(DType.float32, "batch", "num_prev_steps")
    if variable:
        found["logit_offsets"] = of(DType.uint32, "logit_offsets_len")
    if sampling_config.enable_structured_output:
        found["bitmask"] = of(DType.bool, "batch", "vocab_size_structured")
    if sampling_config.do_penalties:
        for name, dim in (("penalty", "unique_tokens"), ("repetition", "unique_tokens_2")):
            found[f"{name}_freq_data"] = BufferType(DType.int32, [dim, 2], device)
            found[f"{name}_freq_offsets"] = of(DType.uint32, "batch_add_1")
        for name in PENALTIES:
            found[name] = of(DType.float64, "batch")
    if sampling_config.enable_min_tokens:
        found["min_tokens_mask"] = of(DType.int32, "num_token_masks", 2)
    return found


def sampler_arrays(
    sampling_config: SamplingConfig,
    contexts: Sequence[TextGenerationContext],
    num_steps: int = 1,
) -> dict[str, npt.NDArray[Any]]:
    """The inputs of `token_sampler` that say what the requests ask for, by name, at the first step.

    The same arrays serve all steps: the sampler returns the next seeds, and counts what it draws in
    the buffers of the counts, which have free places for ``num_steps`` tokens. What changes from
    step to step is not among them: ``logits``, ``prev_tokens``, ``bitmask``, and
    ``min_tokens_mask``, see `min_tokens_masks`.

    Args:
        sampling_config: The features of the sampler.
        contexts: The requests.
        num_steps: How many tokens are drawn for each.

    Raises:
        InputTypeError, InputError: ML980, ML981, an argument of another type or out of its range.
        UnsupportedError: ML679, a request has penalties or a least number of tokens, and the
            sampler was built without.

    Example:
        >>> from maxlab.pipelines.core import TextContext
        >>> context = TextContext(max_length=9, tokens=np.array([5, 6]),
        ...                       sampling_params=SamplingParams(temperature=0.5, seed=40))
        >>> arrays = sampler_arrays(SamplingConfig(), [context])
        >>> arrays["temperature"].tolist(), arrays["seed"].tolist()
        ([0.5], [42])
    """
    fields.instance(SamplingConfig)("sampling_config", sampling_config)
    fields.integer(1)("num_steps", num_steps)
    params = [context.sampling_params for context in contexts]
    for one in params:
        _require_features(sampling_config, one)
    seeds = [
        (one.seed + context.current_length) % _UINT64
        for one, context in zip(params, contexts, strict=True)
    ]
    found: dict[str, npt.NDArray[Any]] = {
        "top_k": np.array([one.top_k for one in params], np.int64),
        "temperature": np.array([one.temperature for one in params], np.float64),
        "top_p": np.array([one.top_p for one in params], np.float64),
        "min_p": np.array([one.min_p for one in params], np.float64),
        "seed": np.array(seeds, np.uint64),
    }
    if sampling_config.do_penalties:
        made = [context.generated_tokens for context in contexts]
        told = [context.all_tokens for context in contexts]
        for name, tokens in (("penalty", made), ("repetition", told)):
            data, offsets = token_counts(tokens, num_steps)
            found[f"{name}_freq_data"], found[f"{name}_freq_offsets"] = data, offsets
        for name in PENALTIES:
            found[name] = np.array([getattr(one, name) for one in params], np.float64)
    return found


def token_counts(
    sequences: Sequence[Sequence[int] | npt.NDArray[np.integer[Any]]], free: int = 0
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint32]]:
    """How often each token is in each sequence: pairs, int32 [pairs, 2], and where those of each
    sequence begin, uint32 [sequences + 1].

    Args:
        sequences: The tokens of each sequence.
        free: Free places behind the pairs of a sequence, for tokens that are drawn later.

    Example:
        >>> data, offsets = token_counts([[7, 3, 7], []], free=1)
        >>> data.tolist(), offsets.tolist()
        ([[3, 1], [7, 2], [-1, 0], [-1, 0]], [0, 3, 4])
    """
    parts, ends = [np.zeros((0, 2), np.int32)], [0]
    later = np.array([[FREE, 0]] * free, np.int32).reshape(-1, 2)
    for tokens in sequences:
        found, times = np.unique(np.asarray(tokens, np.int32), return_counts=True)
        parts += [np.stack([found, times.astype(np.int32)], axis=1), later]
        ends.append(ends[-1] + len(found) + free)
    return np.concatenate(parts), np.array(ends, np.uint32)


def min_tokens_masks(
    contexts: Sequence[TextGenerationContext], num_steps: int = 1
) -> list[npt.NDArray[np.int32]]:
    """For each of the next steps, the input ``min_tokens_mask``: rows (request, token), int32
    [masked, 2], of tokens that would end a request before its least number of tokens.

    Args:
        contexts: The requests.
        num_steps: The number of steps.

    Raises:
        InputTypeError, InputError: ML980, ML981, ``num_steps`` is no int, or negative.
    """
    fields.integer(0)("num_steps", num_steps)
    found = []
    each = [context.get_min_token_logit_mask(num_steps) for context in contexts]
    for step in range(num_steps):
        rows = [masks[step] + np.array([n, 0], np.int32) for n, masks in enumerate(each)]
        found.append(np.concatenate([np.zeros((0, 2), np.int32), *rows]).astype(np.int32))
    return found


def in_order(types: Mapping[str, TensorType | BufferType], given: Mapping[str, Any]) -> list[Any]:
    """The values of ``given`` in the order of ``types``.

    Raises:
        InputError: ML981, an input is missing, or one is given that there is not.

    Example:
        >>> types = sampler_input_types(SamplingConfig(), DeviceRef.CPU())
        >>> in_order(types, {name: n for n, name in enumerate(sorted(types))})
        [0, 2, 5, 4, 6, 1, 3]
    """
    if set(types) != set(given):
        raise fields.out_of_range(
            "the inputs of the sampler",
            sorted(given),
            f"the names {', '.join(types)}",
            fix="give each of them once",
        )
    return [given[name] for name in types]


def _require_features(sampling_config: SamplingConfig, params: SamplingParams) -> None:
    """Raises unless the sampler has what a request asks for."""
    asked = {
        "do_penalties": params.frequency_penalty != 0
        or params.presence_penalty != 0
        or params.repetition_penalty != 1,
        "enable_min_tokens": params.min_new_tokens > 0,
    }
    for feature, needed in asked.items():
        if needed and not getattr(sampling_config, feature):
            raise UnsupportedError(
                "ML679",
                f"a request needs {feature}, and the sampler was built without",
                fix=f"build the pipeline with {feature}=True",
            )


__all__ = [
    "PENALTIES",
    "in_order",
    "min_tokens_masks",
    "sampler_arrays",
    "sampler_input_types",
    "token_counts",
]

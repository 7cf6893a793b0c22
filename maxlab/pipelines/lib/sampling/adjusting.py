"""The first rules of a sampler: penalties, and tokens that would end a request too early."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from maxlab.graph import BufferType, BufferValue, DeviceRef, TensorValue, ops
from maxlab.nn.kernels import apply_penalties_to_logits
from maxlab.pipelines.lib.sampling.sampling_config import SamplingConfig

COUNTS = ("repetition", "penalty")
"""The counts of tokens that penalties are computed from."""
ADJUSTING = (
    *(f"{name}_freq_{part}" for name in COUNTS for part in ("data", "offsets")),
    "repetition_penalty",
    "frequency_penalty",
    "presence_penalty",
    "min_tokens_mask",
)
"""The inputs of a sampler that `adjusted` reads, where the sampler has them."""


def adjusted(
    logits: TensorValue,
    given: Mapping[str, Any],
    sampling_config: SamplingConfig,
    device: DeviceRef,
) -> TensorValue:
    """``logits`` after the penalties, with minus infinity for tokens that come too early; of the
    dtype that the sampler computes in. What is passed stays as it is.

    Args:
        logits: Floats [rows, tokens].
        given: The other inputs of the graph by name, see `sampler_input_types`.
        sampling_config: The features of the sampler.
        device: Where it runs.
    """
    if sampling_config.do_penalties:
        logits = _penalised(logits, given)
    if sampling_config.enable_min_tokens:
        mask = given["min_tokens_mask"].tensor
        never = ops.constant(float("-inf"), logits.dtype, device)
        logits = ops.scatter_nd(logits, ops.broadcast_to(never, [mask.shape[0]]), mask)
    return ops.cast(logits, sampling_config.out_dtype)


def _penalised(logits: TensorValue, given: Mapping[str, Any]) -> TensorValue:
    """``logits`` after the penalties, in memory of their own."""
    changed = ops.buffer_create(BufferType(logits.dtype, logits.shape, logits.device))
    ops.buffer_store(changed, logits)
    data: dict[str, BufferValue] = {name: given[f"{name}_freq_data"].buffer for name in COUNTS}
    apply_penalties_to_logits(
        changed,
        ops.buffer_load(data["repetition"]),
        given["repetition_freq_offsets"].tensor,
        repetition_penalty=given["repetition_penalty"].tensor,
    )
    apply_penalties_to_logits(
        changed,
        ops.buffer_load(data["penalty"]),
        given["penalty_freq_offsets"].tensor,
        frequency_penalty=given["frequency_penalty"].tensor,
        presence_penalty=given["presence_penalty"].tensor,
    )
    return ops.buffer_load(changed)


__all__ = ["ADJUSTING", "COUNTS", "adjusted"]

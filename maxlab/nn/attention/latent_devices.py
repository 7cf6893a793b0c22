"""Multi-head latent attention on several devices."""

from __future__ import annotations

from maxlab.nn.attention.latent_attention import LatentAttentionWithRope
from maxlab.nn.attention.on_devices import DataParallel, TensorParallel


class TensorParallelLatentAttentionWithRope(TensorParallel, LatentAttentionWithRope):  # type: ignore[misc]
    """Multi-head latent attention whose heads are divided among devices. Each device adds the
    latent vectors of all tokens to a cache of its own, so that the memory of the cache is needed
    once a device.

    Args:
        **kwargs: As of ``LatentAttentionWithRope``; ``devices`` has one device or more, of which
            each gets at least one head.

    Raises:
        ArgumentError: ML519, ML716, ML721, as for ``LatentAttentionWithRope``.
        ShapeError: ML798, there are fewer heads than devices.
    """


class DataParallelLatentAttentionWithRope(DataParallel, LatentAttentionWithRope):  # type: ignore[misc]
    """Multi-head latent attention that each device has whole, for sequences of its own.

    Args:
        **kwargs: As of ``LatentAttentionWithRope``; ``devices`` has one device or more.

    Raises:
        ArgumentError: ML519, ML716, ML721, as for ``LatentAttentionWithRope``.
    """


__all__ = ["DataParallelLatentAttentionWithRope", "TensorParallelLatentAttentionWithRope"]

"""Expert parallelism: tokens go to the devices that have their experts, and the results come
back."""

from __future__ import annotations

from maxlab.nn.comm.ep.ep_config import EPConfig
from maxlab.nn.comm.ep.ep_manager import EPBatchManager

__all__ = ["EPBatchManager", "EPConfig"]

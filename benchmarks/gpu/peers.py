"""torch on the same device, where it is installed: its operands, its recordings, its versions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.gpu.timing import Contender, Play
from maxlab.driver.backend import Context

Array = np.ndarray[Any, Any]
Call = Callable[[], Any]


@functools.cache
def torch_on_a_gpu() -> Any:
    """torch, if it sees a GPU; else None. Products are in full float32, as maxlab's are."""
    try:
        import torch
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return None
    torch.set_grad_enabled(False)
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    return torch


def why_no_torch() -> str:
    """Why it is left out."""
    try:
        import torch
    except ImportError:
        return "not installed"
    return f"torch {torch.__version__} sees no GPU"


def up(array: Array) -> Any:
    """``array`` as a tensor on the GPU; bfloat16 is ml_dtypes' type."""
    torch = torch_on_a_gpu()
    whole = np.ascontiguousarray(array)
    if whole.dtype.name == "bfloat16":
        return torch.from_numpy(whole.view(np.int16)).view(torch.bfloat16).cuda()
    return torch.from_numpy(whole).cuda()


def down(tensor: Any) -> Array:
    """The elements of ``tensor`` as float32, or what they are if they are no halves."""
    torch = torch_on_a_gpu()
    if tensor.dtype in (torch.bfloat16, torch.float16):
        tensor = tensor.float()
    found: Array = tensor.cpu().numpy()
    return found


def contender(context: Context, calls: Sequence[Call], name: str = "torch", note: str = "") -> Any:
    """``calls`` in turns, recorded by torch as a CUDA graph and played on the default stream, which
    maxlab's is as well, so that both are timed by the same events.

    Args:
        context: the device's, whose owner thread torch is called in.
        calls: the same work over different operands.
    """

    def capture(runs: int) -> Play:
        return context.call(lambda: _captured(calls, runs))

    return Contender(name, capture=capture, note=note)


def _captured(calls: Sequence[Call], runs: int) -> Play:
    torch = torch_on_a_gpu()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # as torch asks: libraries make their handles and workspaces
        for call in calls:
            call()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.inference_mode(), torch.cuda.graph(graph):
        for number in range(runs):
            calls[number % len(calls)]()
    play: Play = graph.replay
    return play

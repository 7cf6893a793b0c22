"""The functions of the CUDA driver that PyCUDA does not have, by cffi.

PyCUDA has no CUDA graphs and does not tell the handle of an event, without which neither the
default stream nor a stream of another library can wait for one. The library is the libcuda.so.1
that PyCUDA is linked with ("CUDA Driver API", NVIDIA).
"""

from __future__ import annotations

import functools

from maxlab.toolchain.cffi_abi import ffi
from maxlab.toolchain.nvlib import NvLibrary, open_library

_STREAMS = {
    "cuGetErrorName": "int (*)(int, const char **)",
    "cuGetErrorString": "int (*)(int, const char **)",
    "cuStreamQuery": "int (*)(void *)",
    "cuStreamSynchronize": "int (*)(void *)",
    "cuStreamWaitEvent": "int (*)(void *, void *, unsigned int)",
    "cuEventCreate": "int (*)(void **, unsigned int)",
    "cuEventRecord": "int (*)(void *, void *)",
    "cuEventSynchronize": "int (*)(void *)",
    "cuEventQuery": "int (*)(void *)",
    "cuEventElapsedTime": "int (*)(float *, void *, void *)",
    "cuEventDestroy_v2": "int (*)(void *)",
}
_GRAPHS = {
    "cuStreamBeginCapture_v2": "int (*)(void *, int)",
    "cuStreamEndCapture": "int (*)(void *, void **)",
    "cuGraphInstantiateWithFlags": "int (*)(void **, void *, unsigned long long)",
    "cuGraphLaunch": "int (*)(void *, void *)",
    "cuGraphDestroy": "int (*)(void *)",
    "cuGraphExecDestroy": "int (*)(void *)",
}
EVENT_DISABLE_TIMING = 2
# Other threads' work on other streams does not disturb, and memory may be allocated meanwhile.
CAPTURE_RELAXED = 2


@functools.cache
def libcuda() -> NvLibrary:
    """The driver library.

    Raises:
        OSError: it is not there; cannot be once ``pycuda.driver`` was imported.
    """
    found = open_library(["libcuda.so.1"], _STREAMS)
    if found is None:
        raise OSError("libcuda.so.1 cannot be opened")
    return found


@functools.cache
def graph_functions() -> NvLibrary | None:
    """The driver's functions for graphs, or None for a driver before CUDA 11.4."""
    return open_library(["libcuda.so.1"], _GRAPHS)


def describe(status: int) -> str:
    """A status with its name and the driver's words: ``CUDA_ERROR_... (700): ...``."""
    name, text = ffi.new("const char **"), ffi.new("const char **")
    library = libcuda()
    if library.cuGetErrorName(status, name) or library.cuGetErrorString(status, text):
        return f"CUDA error {status}"
    return f"{ffi.string(name[0]).decode()} ({status}): {ffi.string(text[0]).decode()}"

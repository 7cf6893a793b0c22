"""Errors of a device, as exceptions that say how to go on."""

from __future__ import annotations

from collections.abc import Iterable

from maxlab.errors import DeviceError

OUT_OF_MEMORY = 2
NOT_READY = 600
PEER_ALREADY_ENABLED = 704
# After these a context does nothing more but return the same number (CUDA Driver API, CUresult:
# "the process must be terminated and relaunched", or a fault of the hardware).
STICKY = frozenset(
    {
        4,  # the driver is shutting down
        46,  # device unavailable
        214,  # an uncorrectable memory error
        220,  # the same of NVLink
        226,  # the same, contained
        700,  # illegal address
        702,  # the kernel ran too long for a device with a display
        709,  # the context is destroyed
        710,  # assert
        714,  # a fault of the hardware's stack
        715,  # illegal instruction
        716,  # misaligned address
        717,  # invalid address space
        718,  # invalid program counter
        719,  # launch failure, such as __trap()
        721,  # the same of a multicast group
    }
)


def lost(id: int, reason: str, kernels: Iterable[str]) -> DeviceError:
    """ML445: the device can do nothing more for this process."""
    names = list(kernels)
    shown = ", ".join(names[-8:])
    if len(names) > 8:
        shown = f"{len(names)} kernels, the last of them {shown}"
    return DeviceError(
        "ML445",
        f"gpu:{id} is lost to this process: {reason}",
        why=[f"launched since the last time all was well: {shown or 'no kernel of maxlab'}"],
        fix="start a new process. To find the line that went wrong, run the same with "
        "driver.use_simulator(check=True), or under compute-sanitizer",
    )


def refused(id: int, what: str, reason: str) -> DeviceError:
    """ML443: the driver did not do what it was asked, and the device is well."""
    return DeviceError(
        "ML443",
        f"the CUDA driver refused {what} on gpu:{id}: {reason}",
        fix="if a kernel of yours was launched, compare its grid, block and shared memory with "
        "the device's limits; else please report it with this message",
    )


def exhausted(id: int, nbytes: int, free: int | None, total: int | None) -> DeviceError:
    """ML403: no memory."""
    why = [] if free is None else [f"the device has {free} of {total} bytes free"]
    return DeviceError(
        "ML403",
        f"cannot allocate {nbytes} bytes on gpu:{id}",
        why=why,
        fix="free tensors that are no longer needed, or use a smaller batch",
    )


def pinned_exhausted(nbytes: int, reason: str) -> DeviceError:
    """ML403: no page-locked memory."""
    return DeviceError(
        "ML403",
        f"cannot allocate {nbytes} bytes of pinned host memory: {reason}",
        fix="use less pinned memory, or pinned=False",
    )


def forked(id: int) -> DeviceError:
    """ML444: this process was forked from one that had opened the device."""
    return DeviceError(
        "ML444",
        f"gpu:{id} cannot be used here: this process was forked from one that had started CUDA",
        why=["the driver's state and the thread that owns the device stayed in the parent"],
        fix='start processes with multiprocessing.get_context("spawn"), or fork before the first '
        "use of an accelerator",
    )


def closed(id: int) -> DeviceError:
    """ML444: the interpreter is ending, and the device was given back."""
    return DeviceError(
        "ML444",
        f"gpu:{id} cannot be used any more: the interpreter is ending",
        fix="finish work on accelerators before the main program ends",
    )

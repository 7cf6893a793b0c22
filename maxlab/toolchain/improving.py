"""Better code in the background: kernels that run as quick code are optimised, one unit after the
other, by compilers that give way to everything else.

Who runs a kernel asks with `listen` to be told, and then takes the new address in place of the old
one; both stay valid, and give the same results. A process that ends meanwhile ends its compilers:
what they had finished is in the cache, and the next process goes on with the rest.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from maxlab import trace
from maxlab.errors import MaxlabError
from maxlab.toolchain.processes import StoppedError, is_over, parallel
from maxlab.toolchain.sources import IMPROVED, Better, KernelSource, LoadedKernel

Memo = dict[KernelSource, LoadedKernel]
Made = list[tuple[LoadedKernel, KernelSource]]
_NICE = 10  # of threads and compilers that nobody waits for
_AGAIN_S = 0.5  # after an interrupt, which ends all compilers
_AFTER_S = 1.0
"""How long whoever waited for the kernels has the processors for a first run."""
_lock = threading.Lock()
_listeners: dict[tuple[int, KernelSource], list[Better]] = {}
_threads: list[threading.Thread] = []
_held: list[threading.Thread] = []  # that wait to be started
_holders = 0


def listen(memo: Memo, unit: KernelSource, better: Better) -> None:
    """Tell ``better`` once the kernel ``unit`` of ``memo`` is optimised; at once if it is."""
    with _lock:
        kernel = memo[unit]
        if kernel.tier != IMPROVED:
            _listeners.setdefault((id(memo), unit), []).append(better)
            return
    better(unit, kernel)


def begin(
    memo: Memo, parts: Sequence[Any], compiled: Callable[[Any], Made], jobs: int
) -> threading.Thread:
    """Compile ``parts`` with ``compiled`` in a thread, which is returned, and put what they become
    into ``memo``.

    Args:
        memo: The kernels that the process has, by their sources.
        parts: What ``compiled`` is called with.
        compiled: Gives the kernels of a part.
        jobs: Parts at once.
    """
    left = dict(enumerate(parts))

    def one(number: int) -> None:
        for kernel, unit in compiled(left[number]):
            _improve(memo, unit, kernel._replace(tier=IMPROVED))
        del left[number]

    def work() -> None:
        with contextlib.suppress(OSError):  # a thread of its own for the system
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)
        time.sleep(_AFTER_S)
        while left:
            try:
                parallel([partial(one, number) for number in list(left)], jobs)
            except StoppedError:  # an interrupt of what the user runs, or the end
                if is_over():
                    return
                time.sleep(_AGAIN_S)
            except MaxlabError as error:  # the quick code goes on
                trace.emit("warning", "improving", message=error.what, fix=error.fix)
                return

    thread = threading.Thread(target=work, name="maxlab-improve", daemon=True)
    with _lock:
        _threads[:] = [one for one in _threads if one.is_alive()]
        if _holders:
            _held.append(thread)
            return thread
        _threads.append(thread)
        thread.start()
    return thread


def hold() -> None:
    """Begin nothing before `release`: somebody waits for other compilers."""
    global _holders
    with _lock:
        _holders += 1


def release() -> None:
    """Begin what came since `hold`, if nobody else holds it."""
    global _holders
    with _lock:
        _holders -= 1
        if not _holders:
            for thread in _held:
                _threads.append(thread)
                thread.start()
            _held.clear()


def wait() -> None:
    """Return when no kernel is being optimised."""
    for thread in tuple(_threads):  # others may begin meanwhile
        thread.join()


def _improve(memo: Memo, unit: KernelSource, kernel: LoadedKernel) -> None:
    with _lock:
        memo[unit] = kernel._replace(hit=True, why_miss=None, ms=0.0)
        told = _listeners.pop((id(memo), unit), [])
    for better in told:
        better(unit, kernel)

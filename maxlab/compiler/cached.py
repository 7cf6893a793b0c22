"""Plans found by the structure of graphs: in this process, or in the cache beside the kernels.

A graph whose `fingerprint` is known takes no passes, no schedule and no planner. Its plan is in the
memory of the process, or in a sealed file of the kernel cache, owned, limited and verified as
kernels are: a file that was cut or changed is found before it is read, and written again.

What is not cached, with the reason in the compile report: graphs that call functions of Python,
graphs with kernels whose text somebody replaced, with ``MAXLAB_PLAN_CACHE=0`` everything, and plans
with more than ``MOST_BYTES`` of constants.

A plan that was made is written a moment later, by a thread that ends with it, or when the process
ends: whoever loads a model does not wait for it.
"""

from __future__ import annotations

import atexit
import os
import struct
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from maxlab import files, trace
from maxlab.compiler.compiled import Compiled, Debug, compilable, loaded_kernels
from maxlab.compiler.fingerprint import fingerprint, version
from maxlab.compiler.options import DEFAULT, Options
from maxlab.compiler.plan import Plan, Step
from maxlab.config import config
from maxlab.errors import CacheError, GraphError, MaxlabError, ParseError
from maxlab.ir import Function, at_revision, listen
from maxlab.toolchain.artefacts import PlanKey, cache

if TYPE_CHECKING:  # a first process that compiles neither reads nor writes one at once
    from maxlab.compiler.plan_file import Places

LIMIT = 64
"""Plans that a process remembers, the newest."""
MOST_BYTES = 16 << 20
"""The most bytes of constants of a plan that is written."""
DELAY_S = 0.5
"""How long after a load its plan is written: a graph that is changed in quick succession, or a
process that is about to end, is left alone."""
_COUNT = struct.Struct("<Q")


class _Known(NamedTuple):
    plan: Plan
    places: Places


_plans: OrderedDict[PlanKey, _Known] = OrderedDict()
_lock = threading.Lock()
_writing = threading.RLock()
"""Held while plans are written; taken before ``_lock``. Whoever settles or changes plans waits for
one that another thread is writing."""
_pending: OrderedDict[PlanKey, _Known] = OrderedDict()
_writer: threading.Thread | None = None


def load(function: Function, options: Options = DEFAULT) -> Compiled:
    """The compiled ``function``, its plan from the cache where that has it; ``cached`` of the
    result says whether, and why not.

    Args:
        function: The function.
        options: What to compile it with.

    Raises:
        MaxlabError: As ``compile_function``.
    """
    function = compilable(function, options)
    start = time.perf_counter_ns()
    why = _bypassed(options)
    key, found = None, None
    if not why:
        try:
            found = fingerprint(function, options)
            key = PlanKey(found.graph, found.version, found.options)
        except GraphError as error:
            why = f"not cached: {error.what}"
    if key is None or found is None:
        return _compiled(function, options, why)
    plan, why = _find(key, found.places)
    if plan is None:
        made = _compiled(function, options, why)
        made.cached = _unfit(made.plan) or why
        if made.cached is why:
            _remember(key, _Known(made.plan, found.places))
        return made
    timings = {"cached": time.perf_counter_ns() - start}
    return _from(plan, function, options, timings, why)


def load_ahead(whole: Compiled) -> Compiled | None:
    """The results of ``whole`` that are computed when it is loaded, if the cache has the plan of
    them.
    """
    ahead, options = whole.plan.facts.ahead, whole.options
    if ahead is None or _bypassed(options):
        return None
    start = time.perf_counter_ns()
    graph, _, told = ahead.program.partition(".")
    plan, why = _find(PlanKey(graph, version(), told), None)
    if plan is None:
        return None

    def again() -> Debug:
        from maxlab.compiler.compiling import debugged

        found = whole.ahead
        assert found is not None, "the plan says that there is something"
        return debugged(found.function, found.options)

    timings = {"cached": time.perf_counter_ns() - start}
    return _with_kernels(plan, again, options, timings, why)


def _bypassed(options: Options) -> str:
    """Why nothing of ``options`` is cached; empty where it is."""
    if not config().plan_cache:
        return "not cached: MAXLAB_PLAN_CACHE is 0"
    if options.replaced:
        return "not cached: the text of a kernel is replaced"
    return ""


def _unfit(plan: Plan) -> str:
    """Why ``plan`` is not kept; empty where it is."""
    for step in plan.steps:
        if step.call is not None:
            return f"not cached: a step calls {step.call.name}, a function of this process"
    data = sum(slot.data.nbytes for slot in plan.slots if slot.data is not None)
    if data > MOST_BYTES:
        return f"not cached: it has {data >> 20} MiB of constants, more than {MOST_BYTES >> 20}"
    return ""


def _compiled(function: Function, options: Options, why: str) -> Compiled:
    from maxlab.compiler.compiling import compile_function

    made = compile_function(function, options)
    made.cached = why
    return made


def _from(
    plan: Plan, function: Function, options: Options, timings: dict[str, int], why: str
) -> Compiled:
    """The compiled ``function``, whose plan is known."""
    log = listen(function)
    revision = log.revision

    def again() -> Debug:
        from maxlab.compiler.compiling import debugged

        then = at_revision(function, revision)  # it may have been changed since
        with trace.span("debug", plan.facts.name):
            return debugged(then if then is not None else function, options)

    return _with_kernels(plan, again, options, timings, why, function)


def _with_kernels(
    plan: Plan,
    debug: Callable[[], Debug],
    options: Options,
    timings: dict[str, int],
    why: str,
    source: Function | None = None,
) -> Compiled:
    start = time.perf_counter_ns()
    kernels = loaded_kernels(plan, options)
    timings["kernels"] = time.perf_counter_ns() - start
    misses = sum(not k.hit for k in kernels.values())
    trace.emit("compile", plan.facts.name, steps=len(plan.steps), misses=misses, **timings)
    return Compiled(plan, debug, kernels, timings, options, why, source)


# ---------------------------------------------------------------- finding
_IN_MEMORY = "the plan is one that this process has made or read before"
_WHY = {
    "new text": "a graph that the cache does not have",
    "version changed": "the cache has it of another version of the compiler",
    "options changed": "the cache has it with other options",
    "version and options changed": "the cache has it of another version, with other options",
    "corrupt entry rebuilt": "what the cache had was damaged",
}


def _find(key: PlanKey, places: Places | None) -> tuple[Plan | None, str]:
    """The plan of ``key`` with the user's lines ``places``, and where it was found; or None, and
    why there is none. Without ``places`` the lines are those of the text."""
    with _lock:
        known = _plans.get(key)
        if known is not None:
            _plans.move_to_end(key)
    if known is not None:
        if places is None or known.places == places:
            return known.plan, _IN_MEMORY
        # The same graph from other lines: only errors can tell.
        from maxlab.compiler.plan_file import written
        from maxlab.compiler.plan_reader import read

        text, arrays = written(known.plan, known.places)
        return Plan(**read(text, arrays, places)), _IN_MEMORY
    artefact, why = cache().find(key)
    if artefact is None:
        return None, _WHY.get(why or "", why or "")
    from maxlab.compiler.plan_reader import read

    try:
        plan = Plan(**read(*_unpacked(artefact.content.data), places))
    except (ParseError, ValueError, struct.error):
        return None, _WHY["corrupt entry rebuilt"]
    _keep(key, _Known(plan, places or {}))
    return plan, "the plan is from the cache on disk"


def _keep(key: PlanKey, known: _Known) -> None:
    with _lock:
        _plans[key] = known
        _plans.move_to_end(key)
        while len(_plans) > LIMIT:
            _plans.popitem(last=False)


def _unpacked(data: bytes) -> tuple[str, dict[str, np.ndarray[Any, Any]]]:
    """The text of an entry, and the arrays behind it."""
    view = memoryview(data)
    at = _COUNT.size
    (size,) = _COUNT.unpack_from(view)
    text = bytes(view[at : at + size]).decode()
    at += size
    arrays = {}
    while at < len(view):
        digest = bytes(view[at : at + 32]).decode()
        (size,) = _COUNT.unpack_from(view, at + 32)
        at += 32 + _COUNT.size
        start = at + -at % 64
        arrays[digest] = np.frombuffer(view[start : start + size], np.uint8)
        at = start + size
    return text, arrays


# ---------------------------------------------------------------- writing
def _remember(key: PlanKey, known: _Known) -> None:
    """Keep a plan that was made, and write it soon."""
    global _writer
    _keep(key, known)
    with _lock:
        _pending[key] = known
        if _writer is None or not _writer.is_alive():
            _writer = threading.Thread(target=_write_soon, name="maxlab-plans", daemon=True)
            _writer.start()


def _write_soon() -> None:
    time.sleep(DELAY_S)
    settle()


def settle() -> None:
    """Write the plans that were made and are not in the cache on disk yet, and wait for those that
    another thread is writing."""
    with _writing:
        while True:
            with _lock:
                if not _pending:
                    return
                key, known = _pending.popitem(last=False)
            try:
                _write(key, known)
            except (CacheError, OSError, MaxlabError) as error:
                trace.emit("warning", "cache", message=f"a plan was not written: {error}")


def _write(key: PlanKey, known: _Known) -> None:
    from maxlab.compiler.plan_file import written

    text, arrays = written(known.plan, known.places)
    data = text.encode()
    parts: list[bytes] = [_COUNT.pack(len(data)), data]
    at = _COUNT.size + len(data)
    for digest, array in arrays.items():
        at += 32 + _COUNT.size
        gap = -at % 64
        parts += [digest.encode(), _COUNT.pack(array.nbytes), bytes(gap), array.tobytes()]
        at += gap + array.nbytes

    def make(folder: Path) -> Path:
        path = folder / "plan"
        return files.write_bytes(path, b"".join(parts), "a plan")

    cache().build([key], make)


def drop(step: Step) -> None:
    """Forget the plan that has ``step``, which is about to be changed: no other model, and no file,
    may get what becomes of it."""
    with _writing, _lock:
        for plans in (_plans, _pending):
            found = [k for k, v in plans.items() if any(one is step for one in v.plan.steps)]
            for key in found:
                del plans[key]


def forget() -> None:
    """Forget the plans of this process, so that the cache on disk is asked again."""
    settle()
    with _lock:
        _plans.clear()


def _after_fork() -> None:
    """A child writes nothing that its parent will write."""
    global _lock, _writing, _writer
    _lock, _writing, _writer = threading.Lock(), threading.RLock(), None
    _pending.clear()


os.register_at_fork(after_in_child=_after_fork)
atexit.register(settle)

__all__ = ["forget", "load", "load_ahead", "settle"]

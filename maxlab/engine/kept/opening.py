"""From a kept model to what runs: `compiled_of`, which believes its plan and its machine code.

Only what somebody trusts comes here. What fits is loaded: with the same version of maxlab its plan
is taken as it is, and on a CPU that can do all that the first could its machine code too.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maxlab.compiler.compiled import Compiled, loaded_kernels
from maxlab.compiler.options import DEFAULT, Options
from maxlab.compiler.plan import Plan
from maxlab.compiler.plan_file import HEAD
from maxlab.compiler.plan_reader import read
from maxlab.compiler.step_kernels import StepKernels
from maxlab.config import VERSION
from maxlab.driver import Tensor
from maxlab.engine.kept.archive import Archive
from maxlab.engine.kept.manifest import COMPUTED, CONSTANTS, PACKED, PLAN, damaged
from maxlab.engine.kept.weights import Numbers, array_in
from maxlab.engine.weights import PackedWeight
from maxlab.errors import MaxlabError
from maxlab.toolchain import LoadedKernel
from maxlab.toolchain.artefacts import Artefact
from maxlab.toolchain.cffi_abi import ffi
from maxlab.toolchain.compiler import cpu_features
from maxlab.toolchain.library import PRODUCTS, RUNTIME, adopt, sources_digest
from maxlab.toolchain.loader import open_library, symbol_address
from maxlab.toolchain.seals import Content

if TYPE_CHECKING:
    from maxlab.compiler.compiled import Debug


def misfit(archive: Archive) -> str:
    """Why the plan of ``archive`` is not for this maxlab; empty where it is."""
    machine = archive.manifest.machine
    if machine is None or PLAN not in archive:
        return "it has no plan"
    if machine.maxlab != VERSION or machine.plan != HEAD:
        return f"maxlab {machine.maxlab} compiled it, this is {VERSION}"
    if machine.runtime != sources_digest():
        return "its kernels were made for another runtime library"
    return ""


def foreign(archive: Archive) -> str:
    """Why the machine code of ``archive`` is not for this CPU; empty where it is."""
    machine = archive.manifest.machine
    if machine is None or not archive.manifest.libraries:
        return "it has no machine code"
    if machine.machine != platform.machine():
        return f"it was compiled for {machine.machine}, this is {platform.machine()}"
    lacking = sorted(set(machine.features) - cpu_features())
    if lacking or not machine.features:
        return f"this CPU lacks {', '.join(lacking[:4]) or 'what is known of the other'}"
    return ""


def options_of(archive: Archive, *, is_trusted: bool) -> Options:
    """The options that the model was compiled with; without texts of kernels, unless it is trusted.

    Raises:
        ParseError: ML512, they are no options.
    """
    told = dict(archive.manifest.options)
    if not is_trusted:
        told.pop("replaced", None)
    try:
        return DEFAULT.with_options(**told)
    except (MaxlabError, TypeError, ValueError) as error:
        raise damaged(archive.path, "its options are none") from error


def adopt_runtime(archive: Archive) -> None:
    """Let the runtime library of ``archive`` be that of this process, unless there is one."""
    found = {
        row.what: _artefact(archive, row.member, row.key) for row in archive.manifest.libraries
        if row.what in (RUNTIME, PRODUCTS)
    }  # fmt: skip
    if RUNTIME in found:
        adopt(found[RUNTIME], found.get(PRODUCTS))


def compiled_of(archive: Archive, options: Options, debug: Callable[[], Debug]) -> Compiled:
    """The compiled graph of ``archive``, whose plan `misfit` has found to fit.

    Args:
        archive: The model, which is trusted.
        options: What it was compiled with.
        debug: Compiles its graph, when a debugger asks for passes or loops.

    Raises:
        ParseError: ML512 or ML514, a part of it is missing or changed; ML349, it has no plan.
        ToolchainError: ML503, its machine code cannot be loaded; as ``compile_units``, on another
            CPU.
    """
    start = time.perf_counter_ns()
    plan = _plan_of(archive)
    now = time.perf_counter_ns()
    timings = {"cached": now - start}
    why = foreign(archive)
    if why:
        kernels = loaded_kernels(plan, options)
        told = f"the plan is that of {archive.path}; kernels were compiled here: {why}"
    else:
        kernels = _kernels_of(archive, plan)
        told = f"plan and machine code are those of {archive.path}"
    timings["kernels"] = time.perf_counter_ns() - now
    return Compiled(plan, debug, kernels, timings, options, told)


def _plan_of(archive: Archive) -> Plan:
    numbers = Numbers(archive, is_trusted=True)
    arrays = {}
    for row in archive.manifest.arrays:
        if row.member == CONSTANTS:
            begin, nbytes = archive.place(CONSTANTS)
            array = array_in(numbers.own, begin, nbytes, row, archive.path)
            arrays[row.name] = array.reshape(-1).view("u1")
    try:
        text = archive.read(PLAN).decode("utf-8")
    except UnicodeDecodeError as error:
        raise damaged(archive.path, f"its {PLAN} is not text") from error
    return Plan(**read(text, arrays))


def _artefact(archive: Archive, member: str, key: str) -> Artefact:
    data = archive.read(member)
    entry = archive.manifest.members[member]
    content = Content(bytes.fromhex(entry.sha256), frozenset((key,)), len(data), data)
    return Artefact(Path(archive.path), content)


def _kernels_of(archive: Archive, plan: Plan) -> StepKernels:
    """The kernels of ``plan`` by the numbers of their steps, from the libraries of ``archive``."""
    manifest = archive.manifest
    keys = {row.member: row.key for row in manifest.libraries}
    where = {row.symbol: row.library for row in manifest.kernels if row.library}
    handles: dict[str, tuple[Any, Path]] = {}
    known: dict[str, LoadedKernel] = {}
    found = StepKernels()
    for step in plan.steps:
        if step.printed is None or step.gpu is not None:
            continue
        symbol = step.printed.symbol
        kernel = known.get(symbol)
        if kernel is None:
            member = where.get(symbol, "")
            if member not in handles:
                if member not in keys:
                    raise damaged(archive.path, f"it has no machine code of {symbol}")
                artefact = _artefact(archive, member, keys[member])
                handles[member] = open_library(artefact, symbol), artefact.path
            handle, path = handles[member]
            address = symbol_address(handle, symbol, path)
            kernel = known[symbol] = LoadedKernel(symbol, address, True, None, path, 0.0, handle)
        found[step.number] = kernel
    return found


# ---------------------------------------------------------------- numbers
def packed_of(archive: Archive, numbers: Numbers, plan: Plan) -> dict[int, PackedWeight]:
    """The right operands of products that ``archive`` has as kernels read them, by their buffers.

    Raises:
        ParseError: ML512, one cannot be there; ML514, it has other bytes.
    """
    rows = archive.manifest.packed
    if not rows or PACKED not in archive:
        return {}
    begin, nbytes = archive.place(PACKED)
    memory = numbers.own
    base = int(ffi.cast("uintptr_t", ffi.from_buffer(memory))) + begin
    found = {}
    for row in rows:
        slot = plan.slots[row.slot] if 0 <= row.slot < len(plan.slots) else None
        packing = slot.packing if slot is not None else None
        fits = packing is not None and packing.nbytes == row.nbytes and row.offset >= 0
        if not fits or row.offset + row.nbytes > nbytes:
            raise damaged(archive.path, "its packed weights are not where they should be")
        found[row.slot] = PackedWeight(memory, base + row.offset, row.nbytes, None)
    return found


def computed_of(archive: Archive, numbers: Numbers) -> dict[str, Tensor]:
    """The tensors in ``archive`` that were computed of weights, by their names in the plan.

    Raises:
        ParseError: ML512, one cannot be there; ML514, it has other bytes.
    """
    found = {}
    for row in archive.manifest.arrays:
        if row.member == COMPUTED:
            begin, nbytes = archive.place(COMPUTED)
            array = array_in(numbers.own, begin, nbytes, row, archive.path)
            found[row.name] = Tensor.from_numpy(array)
    return found


__all__ = [
    "adopt_runtime",
    "compiled_of",
    "computed_of",
    "foreign",
    "misfit",
    "options_of",
    "packed_of",
]

"""Kernels from source text: compiled if they are new, found if they are not.

`compile_units` takes C functions and gives their addresses. What is in memory costs
microseconds, what is in the cache one ``dlopen``; what is new is compiled, several kernels
a translation unit and the units in parallel, because a compiler run has a fixed cost of
20 ms and a machine has several cores.

Of thousands of kernels the optimiser's time is most of what the first result waits for. Those that
may begin *quick* are assembled from parts (`assembled`), or compiled with fewer passes first, in a
quarter of the time, and optimised in the background; whoever runs them is told when better code is
there (`improving`).
"""

from __future__ import annotations

import heapq
import os
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from maxlab import progress, trace
from maxlab.config import config
from maxlab.digests import blake2b
from maxlab.errors import ToolchainError
from maxlab.toolchain import diagnose, improving, loader
from maxlab.toolchain.artefacts import Artefact, Cache, Key, cache, content_of
from maxlab.toolchain.assembled import Find, Recipe, assembled, can_assemble
from maxlab.toolchain.compiler import Compiler, find_compiler, require_library, run
from maxlab.toolchain.flags import Flags
from maxlab.toolchain.prelude import prelude, prelude_for
from maxlab.toolchain.processes import parallel
from maxlab.toolchain.sources import (
    ASSEMBLED,
    FIRST,
    QUICK,
    Better,
    KernelSource,
    LoadedKernel,
)

KERNELS_PER_UNIT = 8
MOST_PER_UNIT = 64  # beyond it a kernel gets hardly cheaper
TEXT_PER_UNIT = 64 << 10  # characters; for units of more than 8 kernels
ROUNDS = 4  # units for each process at once: one that ends early finds another to do
ALONE = "// @alone"
"""The first line of a kernel that declares what others may declare too."""
_DEFAULT = Flags()


class _Missing(NamedTuple):
    source: KernelSource
    key: Key
    why: str
    flags: Flags = _DEFAULT


_memo: dict[tuple[Path, str | None, Flags], dict[KernelSource, LoadedKernel]] = {}
_memo_lock = threading.Lock()


def compile_units(
    units: Sequence[KernelSource],
    *,
    flags: Flags | None = None,
    jobs: int | None = None,
    called: Mapping[str, str] | None = None,
    better: Better | None = None,
    recipe: Find | None = None,
) -> list[LoadedKernel]:
    """The loaded kernels of ``units``, in their order.

    Args:
        units: the kernels; the same one may come several times.
        flags: compiler options; `Flags()` when not given.
        jobs: compiler processes at once; by default the session's number of threads.
        called: what people call kernels, by symbol, where they are told how far this is.
        better: is told when a kernel that is quick code now has been optimised; without it none
            begins as quick code.
        recipe: gives the parts that a kernel which may begin quick can be assembled from, by its
            name; without it none is.

    Raises:
        ToolchainError: ML501 no compiler; ML502 it refused a kernel, with the line;
            ML503 the result cannot be loaded; ML505 it was killed or hung; ML507 it wrote none;
            ML508 it cannot build what it needs itself.
        CacheError: ML510, there is nowhere to write.

    Example:
        >>> text = "int k_one(void *const *b, const i64 *d, i64 lo, i64 hi, mx_ctx *ctx) {"
        >>> text += " *(i64 *)b[0] = 1; return 0; }"
        >>> [kernel] = compile_units([KernelSource("k_one", text)])
        >>> kernel.name
        'k_one'
    """
    flags = flags or _DEFAULT
    memo = _memo_for(flags)
    if better is None:
        units = [unit._replace(quick=False) if unit.quick else unit for unit in units]
    try:
        found = [memo[unit] for unit in units]
    except KeyError:
        fresh = _load_missing(
            [u for u in dict.fromkeys(units) if u not in memo],
            flags, jobs, called or {}, memo, recipe,
        )  # fmt: skip
        for kernel, unit in fresh:
            memo.setdefault(unit, kernel._replace(hit=True, why_miss=None, ms=0.0))
        first = {unit: kernel for kernel, unit in fresh}
        found = [first.get(unit) or memo[unit] for unit in units]
    if better is not None:
        for unit, kernel in dict(zip(units, found, strict=True)).items():
            if kernel.tier in FIRST:
                improving.listen(memo, unit, better)
    return found


class Library(NamedTuple):
    """Machine code of kernels.

    Attributes:
        key: The name that the cache has for the first of them.
        content: The bytes of the library.
        symbols: The kernels that it was asked for.
    """

    key: Key
    content: bytes
    symbols: list[str]


def libraries_of(units: Sequence[KernelSource], flags: Flags | None = None) -> list[Library]:
    """The libraries that have ``units``, each once; compiled if they are new.

    Args:
        units: The kernels.
        flags: Compiler options; ``Flags()`` when not given.

    Raises:
        ToolchainError: As `compile_units`.
    """
    flags = flags or _DEFAULT
    compile_units(units, flags=flags)
    compiler, store, head = find_compiler(), cache(), prelude().digest
    found: dict[bytes, Library] = {}
    for unit in dict.fromkeys(units):
        text = blake2b(unit.text.encode(), digest_size=16).hexdigest()
        kind = replace(flags, brief=flags.brief or unit.brief)
        key = Key(text, head, kind.digest(compiler), compiler.digest, compiler.cpu)
        artefact, _ = store.find(key)
        if artefact is None:  # it was removed from the cache after it was loaded
            missing = _Missing(unit, key, "new text", kind)
            (artefact,) = _build(store, compiler, missing.flags, [missing], [unit])
        known = found.get(artefact.content.digest)
        if known is None:
            made = Library(key, content_of(artefact), [unit.name])
            found[artefact.content.digest] = made
        else:
            known.symbols.append(unit.name)
    return list(found.values())


def forget() -> None:
    """Forget which kernels are loaded, so that the cache on disk is asked again."""
    with _memo_lock:
        _memo.clear()


def _memo_for(flags: Flags) -> dict[KernelSource, LoadedKernel]:
    settings = config()
    key = (settings.cache_dir, settings.cc, flags)
    found = _memo.get(key)
    if found is None:
        with _memo_lock:
            found = _memo.setdefault(key, {})
    return found


def _load_missing(
    units: list[KernelSource],
    flags: Flags,
    jobs: int | None,
    called: Mapping[str, str],
    memo: dict[KernelSource, LoadedKernel],
    recipe: Find | None,
) -> list[tuple[LoadedKernel, KernelSource]]:
    compiler = find_compiler()
    store = cache()
    kinds = {brief: replace(flags, brief=flags.brief or brief) for brief in (False, True)}
    quick = replace(flags, quick=True)
    told = {kind: kind.digest(compiler) for kind in (*kinds.values(), quick)}
    head = prelude().digest
    done: list[tuple[LoadedKernel, KernelSource]] = []
    missing: list[_Missing] = []
    later: list[_Missing] = []  # what quick code runs instead of
    cuts: list[tuple[_Missing, Recipe]] = []  # what parts run instead of
    if recipe is not None and not can_assemble(compiler):
        recipe = None
    for unit in units:
        start = time.perf_counter()
        text = blake2b(unit.text.encode(), digest_size=16).hexdigest()
        kind, tier = kinds[unit.brief], ""
        key = Key(text, head, told[kind], compiler.digest, compiler.cpu)
        found, why = store.find(key)
        if found is None and unit.quick and compiler.quick_arguments:
            own = _Missing(unit, key, why or "new text", kind)
            later.append(own)
            cut = recipe(unit.name) if recipe is not None else None
            if cut is not None:
                cuts.append((own, cut))
                continue
            kind, tier = quick, QUICK
            key = replace(key, flags=told[quick])
            found = store.find(key)[0]  # of a process that ended before it had better code
        if found is None:
            missing.append(_Missing(unit, key, why or "new text", kind))
            continue
        handle = loader.open_library(found, unit.name)
        address = loader.symbol_address(handle, unit.name, found.path)
        ms = (time.perf_counter() - start) * 1e3
        trace.emit("cache", unit.name, hit=True, ms=ms)
        kernel = LoadedKernel(unit.name, address, True, None, found.path, ms, handle, tier)
        done.append((kernel, unit))
    if cuts:
        made, left = _assembled(cuts, flags, jobs)
        done += made
        missing += [
            one._replace(key=replace(one.key, flags=told[quick]), flags=quick) for one in left
        ]
    jobs = max(jobs or config().num_threads, 1)
    if missing:
        done += _compile_missing(store, compiler, missing, jobs, called)
    if later:

        def improve(part: list[_Missing]) -> list[tuple[LoadedKernel, KernelSource]]:
            return _compile_group(store, compiler, part)

        improving.begin(memo, group(later, jobs), improve, jobs)
    return done


def _compile_missing(
    store: Cache,
    compiler: Compiler,
    missing: list[_Missing],
    jobs: int,
    called: Mapping[str, str],
) -> list[tuple[LoadedKernel, KernelSource]]:
    compiler.make_ready()
    groups = [
        part
        for kind in dict.fromkeys(item.flags for item in missing)
        for part in group([item for item in missing if item.flags == kind], jobs)
    ]
    progress.step("compiling", 0, len(missing))
    work = progress.now()

    def compiled(part: list[_Missing]) -> list[tuple[LoadedKernel, KernelSource]]:
        if work is not None:
            first = part[0].source.name
            work.advance(0, called.get(first, first))
        made = _compile_group(store, compiler, part)
        if work is not None:
            work.advance(len(part))
        return made

    parts = parallel([partial(compiled, part) for part in groups], jobs)
    return [one for made in parts for one in made]


def _assembled(
    cuts: list[tuple[_Missing, Recipe]], flags: Flags, jobs: int | None
) -> tuple[list[tuple[LoadedKernel, KernelSource]], list[_Missing]]:
    """The kernels that are assembled, and those for which there is no function left."""
    start = time.perf_counter()
    addresses, library = assembled(
        [recipe for _, recipe in cuts],
        partial(compile_units, flags=replace(flags, quick=True), jobs=jobs),
    )
    ms = (time.perf_counter() - start) * 1e3 / len(cuts)
    done = []
    for (item, _), address in zip(cuts, addresses, strict=False):
        source = item.source
        trace.emit("cache", source.name, hit=False, why=item.why, ms=ms)
        path, handle = library.path, library.handle
        kernel = LoadedKernel(source.name, address, False, item.why, path, ms, handle, ASSEMBLED)
        done.append((kernel, source))
    return done, [item for item, _ in cuts[len(addresses) :]]


def group(missing: list[_Missing], jobs: int) -> list[list[_Missing]]:
    """The kernels of each translation unit, of about equal length of text.

    Each compiler run costs as much as two small kernels before it comes to the first one. So units
    grow with the number of kernels from 8 to 64 kernels; while there are few units for ``jobs``, or
    while their texts are long, they stay at 8.
    """
    alone = [[item] for item in missing if item.source.text.startswith(ALONE)]
    missing = [item for item in missing if not item.source.text.startswith(ALONE)]
    if not missing:
        return alone
    number, length = len(missing), sum(len(item.source.text) for item in missing)
    rounds = ROUNDS * jobs if jobs > 1 else 1  # nobody waits for another one that ends late
    wanted = max(rounds, -(-number // MOST_PER_UNIT), -(-length // TEXT_PER_UNIT))
    count = max(min(wanted, -(-number // KERNELS_PER_UNIT)), min(jobs, number))
    parts: list[list[_Missing]] = [[] for _ in range(count)]
    lightest = [(0, index) for index in range(count)]
    for item in sorted(missing, key=lambda m: (-len(m.source.text), m.source.name)):
        load, index = heapq.heappop(lightest)
        parts[index].append(item)
        if len(parts[index]) < MOST_PER_UNIT:
            heapq.heappush(lightest, (load + len(item.source.text), index))
    return alone + parts


def unit_text(sources: Sequence[KernelSource]) -> str:
    """The C text of a translation unit; each kernel's lines are counted from 1 under its name."""
    parts = ['#line 1 "prelude.h"', prelude_for(*(s.text for s in sources))]
    for source in sources:
        parts += [f'#line 1 "{source.name}"', source.text]
    return "\n".join(parts) + "\n"


def _compile_group(
    store: Cache, compiler: Compiler, part: list[_Missing]
) -> list[tuple[LoadedKernel, KernelSource]]:
    sources = [item.source for item in part]
    names = [source.name for source in sources]
    why = {item.source.name: item.why for item in part}
    flags = part[0].flags
    tier = QUICK if flags.quick else ""
    with trace.span("compile", names[0], kernels=names, why=why) as event:
        start = time.perf_counter()
        made = _build(store, compiler, flags, part, sources)
        ms = (time.perf_counter() - start) * 1e3
        event.update(ms=ms, bytes=made[0].content.size)
    total = sum(len(source.text) for source in sources) or 1
    loaded: list[tuple[LoadedKernel, KernelSource]] = []
    for item, artefact in zip(part, made, strict=True):
        source, path = item.source, artefact.path
        handle = loader.open_library(artefact, names[0])
        address = loader.symbol_address(handle, source.name, path)
        share = ms * len(source.text) / total
        trace.emit("cache", source.name, hit=False, why=item.why, ms=share)
        kernel = LoadedKernel(source.name, address, False, item.why, path, share, handle, tier)
        loaded.append((kernel, source))
    return loaded


def _build(
    store: Cache,
    compiler: Compiler,
    flags: Flags,
    part: list[_Missing],
    sources: list[KernelSource],
) -> list[Artefact]:
    def make(folder: Path) -> Path:
        (folder / "unit.c").write_text(unit_text(sources), encoding="utf-8")
        arguments = flags.arguments(compiler)
        command = [*compiler.command, *arguments, "-pipe", "unit.c", "-o", "unit.so"]
        done = run([*command, *compiler.link_arguments], cwd=folder)
        check(done, {s.name: s.text for s in sources})
        return require_library(folder / "unit.so", compiler.command)

    def accept(made: Artefact) -> None:
        loader.open_library(made, sources[0].name)

    source = "unit.c" if config().keep_source else None
    return store.build([item.key for item in part], make, accept, source)


def check(done: Any, sources: dict[str, str]) -> None:
    """Return if a compiler run was successful.

    Raises:
        OSError: the disk is full; the caller may know another one.
        ToolchainError: ML502 or ML505.
    """
    if done.code == 0:
        return
    if diagnose.NO_SPACE in done.output:
        raise OSError(28, os.strerror(28))
    raise diagnose.compile_error(done.code, done.output, sources)


__all__ = [
    "KERNELS_PER_UNIT",
    "KernelSource",
    "LoadedKernel",
    "ToolchainError",
    "compile_units",
    "forget",
]

"""Kernels of CUDA text for the simulator, cached one by one, as `units` does it for C.

New kernels are compiled several in a library and the libraries in parallel, for g++ needs 150 ms
for the language of CUDA alone. Each kernel has its own name in the cache, so that an edited graph
compiles only what is new.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from maxlab import trace
from maxlab.config import config
from maxlab.toolchain import gxx, loader
from maxlab.toolchain.artefacts import Artefact, Key, cache
from maxlab.toolchain.compiler import require_library, run
from maxlab.toolchain.flags import Accuracy
from maxlab.toolchain.prelude import kernels_dir
from maxlab.toolchain.processes import parallel
from maxlab.toolchain.units import check as check_run

KERNELS_PER_LIBRARY = 16


@dataclass(frozen=True, slots=True)
class SimSource:
    """A kernel: its entry name, its text, the headers in ``kernels/cuda`` read before it, and
    how exact its functions are.
    """

    name: str
    text: str
    headers: tuple[str, ...]
    accuracy: Accuracy = "default"


@dataclass(frozen=True, slots=True)
class SimKernel:
    """A kernel that the simulator can run.

    Attributes:
        source: what it was made from.
        entry: the address of its entry point.
        anchor: the address of what finds its shared memory.
        path: its library.
        runtime: the library that runs it.
        hit: True if nothing was compiled for it.
        why_miss: None for a hit; see `maxlab.toolchain.LoadedKernel`.
        ms: milliseconds of compiling, its share by length of text, or of loading.
    """

    source: SimSource
    entry: int
    anchor: int
    path: Path
    runtime: gxx.SimRuntime
    hit: bool
    why_miss: str | None
    ms: float


@dataclass(frozen=True, slots=True)
class _Missing:
    source: SimSource
    key: Key
    why: str


_memo: dict[tuple[Path, bool, SimSource], SimKernel] = {}
_lock = threading.Lock()


def compile_sim_kernels(sources: Sequence[SimSource], *, check: bool = False) -> list[SimKernel]:
    """The loaded kernels of ``sources``, in their order.

    Args:
        sources: the kernels; the same one may come several times.
        check: see every access to memory when they run.

    Raises:
        ToolchainError: ML501 no g++; ML502 it refused a kernel, with the line; ML503 the result
            cannot be loaded; ML505 it was killed or hung; ML507 it wrote none.
        CacheError: ML510, there is nowhere to write.
    """
    root = config().cache_dir
    with _lock:
        new = [s for s in dict.fromkeys(sources) if (root, check, s) not in _memo]
        made = {k.source: k for k in _load(new, check)} if new else {}
        for source, kernel in made.items():
            path, runtime = kernel.path, kernel.runtime
            known = SimKernel(source, kernel.entry, kernel.anchor, path, runtime, True, None, 0.0)
            _memo[root, check, source] = known
        return [made.get(s) or _memo[root, check, s] for s in sources]


def _load(sources: list[SimSource], check: bool) -> list[SimKernel]:
    runtime = gxx.sim_runtime()
    compiler = gxx.find_cxx()
    arguments = {
        accuracy: gxx.module_arguments(compiler, check, accuracy=accuracy)
        for accuracy in {source.accuracy for source in sources}
    }
    store = cache()
    done: list[SimKernel] = []
    missing: list[_Missing] = []
    for source in sources:
        start = time.perf_counter()
        text = "\0".join((source.name, source.text, *_headers(source)))
        key = gxx.module_key(compiler, arguments[source.accuracy], text)
        found, why = store.find(key)
        if found is None:
            missing.append(_Missing(source, key, why or "new text"))
            continue
        ms = (time.perf_counter() - start) * 1e3
        trace.emit("cache", source.name, hit=True, ms=ms)
        done.append(_opened(source, found, runtime, True, None, ms))
    groups = _grouped(missing)
    if not groups:
        return done

    def build(part: list[_Missing]) -> list[SimKernel]:
        start = time.perf_counter()
        names = [m.source.name for m in part]
        with trace.span("compile", names[0], kernels=names, target="sim") as event:
            artefacts = _build(part, compiler, arguments[part[0].source.accuracy], runtime)
            ms = (time.perf_counter() - start) * 1e3
            event.update(ms=ms)
        total = sum(len(m.source.text) for m in part) or 1
        made = []
        for item, artefact in zip(part, artefacts, strict=True):
            share = ms * len(item.source.text) / total
            trace.emit("cache", item.source.name, hit=False, why=item.why, ms=share)
            made.append(_opened(item.source, artefact, runtime, False, item.why, share))
        return made

    for made in parallel([partial(build, part) for part in groups], config().num_threads):
        done += made
    return done


def _grouped(missing: list[_Missing]) -> list[list[_Missing]]:
    """The kernels of each library: those with the same headers and options, of about equal length
    of text.
    """
    by_headers: dict[tuple[Accuracy, tuple[str, ...]], list[_Missing]] = {}
    for item in missing:
        by_headers.setdefault((item.source.accuracy, item.source.headers), []).append(item)
    groups: list[list[_Missing]] = []
    for items in by_headers.values():
        full = -(-len(items) // KERNELS_PER_LIBRARY)
        count = max(full, min(config().num_threads, -(-len(items) // 4)))
        parts: list[list[_Missing]] = [[] for _ in range(count)]
        ordered = sorted(items, key=lambda m: (-len(m.source.text), m.source.name))
        for number, item in enumerate(ordered):
            lap, place = divmod(number, count)  # there and back again, longest first
            parts[place if lap % 2 == 0 else count - 1 - place].append(item)
        groups += [part for part in parts if part]
    return groups


def _headers(source: SimSource) -> list[str]:
    folder = kernels_dir() / "cuda"
    return [(folder / name).read_text(encoding="utf-8") for name in source.headers]


def _build(
    part: list[_Missing], compiler: Any, arguments: list[str], runtime: gxx.SimRuntime
) -> list[Artefact]:
    sources = {m.source.name: m.source.text for m in part}

    def make(folder: Path) -> Path:
        # One file a kernel, because line tables mix up names that only #line gives.
        for name, text in sources.items():
            entry = f'\n#line 1 "entry points"\nCS_KERNEL({name})\n'
            (folder / f"{name}.cu").write_text(text + entry, encoding="utf-8")
        includes = "".join(f'#include "{name}.cu"\n' for name in sources)
        (folder / "module.cu").write_text(f"{includes}CS_MODULE\n", encoding="utf-8")
        command = gxx.module_command(compiler, arguments, part[0].source.headers)
        command += ["-x", "c++", "module.cu", "-x", "none", *gxx.link_arguments(runtime, folder)]
        done = run([*command, "-o", "module.so"], cwd=folder)
        check_run(done, {f"{name}.cu": text for name, text in sources.items()})
        return require_library(folder / "module.so", compiler.command)

    def accept(made: Artefact) -> None:
        gxx.opened(made, part[0].source.name)

    return cache().build([m.key for m in part], make, accept)


def _opened(
    source: SimSource,
    artefact: Artefact,
    runtime: gxx.SimRuntime,
    hit: bool,
    why: str | None,
    ms: float,
) -> SimKernel:
    handle, path = gxx.opened(artefact, source.name), artefact.path
    entry = loader.symbol_address(handle, f"cs_run_{source.name}", path)
    anchor = loader.symbol_address(handle, "cs_shared_anchor", path)
    return SimKernel(source, entry, anchor, path, runtime, hit, why, ms)

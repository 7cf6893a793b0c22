"""Needs of the toolchain on this machine, and the cure for each that is missing."""

from __future__ import annotations

import os
import shutil
import stat
from typing import NamedTuple

from maxlab.config import config
from maxlab.errors import MaxlabError
from maxlab.toolchain.artefacts import cache
from maxlab.toolchain.compiler import INSTALL_HINT, cpu_description, find_compiler, run
from maxlab.toolchain.prelude import kernels_dir, prelude


class DoctorRow(NamedTuple):
    """One requirement: what was found, or how to get it.

    Attributes:
        name: the requirement.
        found: True if it is met.
        detail: what was found, or what was wrong.
        fix: what to do; empty when it is met.
    """

    name: str
    found: bool
    detail: str
    fix: str


def doctor_rows() -> list[DoctorRow]:
    """A row for the compiler, a trial compilation, the headers of C, the CPU, the kernel sources,
    the cache, the CUDA compiler, which is not missed where there is none, and the threads.

    Never raises for something that is missing: the row says so.
    """
    rows = [_compiler_row(), _cpu_row(), _sources_row(), _cache_row(), _cuda_row()]
    if rows[0].found:
        rows[1:1] = [_trial_row(), _headers_row()]
    rows.append(_threads_row())
    return rows


def _compiler_row() -> DoctorRow:
    try:
        compiler = find_compiler()
    except MaxlabError as error:
        return DoctorRow("C compiler", False, error.what, error.fix or INSTALL_HINT)
    return DoctorRow("C compiler", True, compiler.description, "")


def _trial_row() -> DoctorRow:
    from maxlab.toolchain.units import KernelSource, compile_units

    name = "k_doctor"
    text = (
        f"int {name}(void *const *b, const i64 *d, i64 lo, i64 hi, mx_ctx *ctx)"
        " { (void)b; (void)d; (void)lo; (void)hi; (void)ctx; return 0; }"
    )
    try:
        [kernel] = compile_units([KernelSource(name, text)])
    except MaxlabError as error:
        return DoctorRow("compiling", False, error.what, error.fix or "")
    how = "cached" if kernel.hit else "compiled"
    return DoctorRow("compiling", True, f"a kernel was {how} in {kernel.ms:.1f} ms", "")


def _headers_row() -> DoctorRow:
    """Whether the compiler finds the headers of C, which kernels include."""
    name, wanted = "C headers", ("math.h", "stdint.h", "string.h")
    text = "".join(f"#include <{header}>\n" for header in wanted)
    fix = "install the headers of the C library: apt-get install libc6-dev (or build-essential)"
    try:
        folder = cache().build_dir()
        try:
            (folder / "headers.c").write_text(text, encoding="utf-8")
            done = run([*find_compiler().command, "-E", "headers.c"], cwd=folder, timeout_s=60)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    except (OSError, MaxlabError) as error:
        return DoctorRow(name, False, f"the compiler does not run: {error}", fix)
    if done.code:
        lines = [line for line in done.output.splitlines() if "error" in line]
        return DoctorRow(name, False, next(iter(lines), "the compiler refuses them"), fix)
    return DoctorRow(name, True, ", ".join(wanted), "")


def _threads_row() -> DoctorRow:
    try:
        threads = config().num_threads
    except MaxlabError as error:
        return DoctorRow(
            "threads", False, f"settings cannot be read: {error.what}", error.fix or ""
        )
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    detail = f"{threads} for a session, of {usable} logical CPUs that this process may use"
    return DoctorRow("threads", True, f"{detail}; MAXLAB_NUM_THREADS sets it", "")


def _cpu_row() -> DoctorRow:
    lines = dict(line.partition("=")[::2] for line in cpu_description().splitlines()[1:])
    features = set((lines.get("flags") or lines.get("Features") or "").split())
    vectors = next((f for f in ("avx512f", "avx2", "asimd", "sse2") if f in features), "none known")
    model = lines.get("model name") or cpu_description().splitlines()[0]
    return DoctorRow("CPU", True, f"{model}, vectors: {vectors}", "")


def _cuda_row() -> DoctorRow:
    from maxlab.toolchain.cuda_compiler import find_cuda_compiler

    try:
        detail = find_cuda_compiler().description.splitlines()[0]
    except MaxlabError:
        detail = "none; only GPUs need one"
    return DoctorRow("CUDA compiler", True, detail, "")


def _sources_row() -> DoctorRow:
    try:
        folder = kernels_dir()
        detail = f"{folder}, {len(prelude().sections)} prelude sections"
    except MaxlabError as error:
        return DoctorRow("kernel sources", False, error.what, error.fix or "")
    return DoctorRow("kernel sources", True, detail, "")


def _cache_row() -> DoctorRow:
    fix = "set MAXLAB_CACHE_DIR to a private directory that can be written"
    try:
        store = cache()
        shutil.rmtree(store.build_dir(), ignore_errors=True)
        count, size = store.usage()
    except MaxlabError as error:
        return DoctorRow("kernel cache", False, error.what, error.fix or fix)
    if store.spare is not None:
        why = f"{store.root} cannot be used ({store.why_spare})"
        return DoctorRow("kernel cache", False, f"{why}; kernels are kept in {store.spare}", fix)
    try:
        found = os.statvfs(store.root)
        free = f"{found.f_bavail * found.f_frsize / 2**30:.1f} GiB free"
        free += f", rights {stat.filemode(os.stat(store.root).st_mode)}"
        if found.f_flag & os.ST_NOEXEC:
            free += ", on a disk mounted noexec"
    except OSError as error:  # removed by another process just now
        free = f"its disk cannot be asked: {error.strerror}"
    most = "" if store.limit is None else f" of at most {store.limit >> 20}"
    detail = f"{store.root}: {count} libraries, {size / 2**20:.1f} MiB{most}; {free}"
    return DoctorRow("kernel cache", True, detail, "")

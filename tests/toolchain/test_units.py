"""compile_units: what is compiled, what is found, and what every failure says."""

from __future__ import annotations

import dataclasses
import errno
import multiprocessing
import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from maxlab import trace
from maxlab.config import Config, config, set_config
from maxlab.errors import CacheError, ToolchainError
from maxlab.toolchain import (
    Flags,
    KernelSource,
    LoadedKernel,
    artefacts,
    cache,
    compile_units,
    find_compiler,
    forget,
    units,
)
from maxlab.toolchain import compiler as compiler_module
from maxlab.toolchain.cffi_abi import ffi
from maxlab.toolchain.folders import fresh_folder

STORE = (
    "int {name}(void *const *b, const i64 *d, i64 lo, i64 hi, mx_ctx *ctx)"
    " {{ for (i64 i = lo; i < hi; i++) ((i64 *)b[0])[i] = {value}; return 0; }}"
)


def kernel(value: int, name: str | None = None) -> KernelSource:
    """A kernel that stores ``value``."""
    name = name or f"k_store_{value}"
    return KernelSource(name, STORE.format(name=name, value=value))


def call(loaded: LoadedKernel) -> int:
    """What a kernel of `kernel` stores."""
    out = ffi.new("i64[1]")
    pointers = ffi.new("void *[1]", [out])
    run = ffi.cast("mx_fn", loaded.address)
    assert run(pointers, ffi.NULL, 0, 1, ffi.NULL) == 0
    return int(out[0])


def with_config(**changes: Any) -> Config:
    """The settings before ``changes`` were put in force."""
    now = config()
    values = {name: getattr(now, name) for name in Config.__dataclass_fields__}
    return set_config(Config(**{**values, **changes}))


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path) -> Iterator[Path]:
    """An empty cache directory; the settings come back afterwards."""
    root = tmp_path / "cache"
    old = with_config(cache_dir=root)
    forget()
    yield root
    set_config(old)
    forget()


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The command lines of every compilation from here on."""
    seen: list[list[str]] = []

    def counting(command: Any, **kwargs: Any) -> Any:
        seen.append(list(command))
        return compiler_module.run(command, **kwargs)

    monkeypatch.setattr(units, "run", counting)
    return seen


# ------------------------------------------------------------------ hits and misses


def test_first_miss_then_memory_then_disk(compilations: list[list[str]]) -> None:
    [first] = compile_units([kernel(41)])
    assert (first.hit, first.why_miss) == (False, "new text")
    assert call(first) == 41
    [again] = compile_units([kernel(41)])
    assert (again.hit, again.why_miss, again.address) == (True, None, first.address)
    forget()
    [disk] = compile_units([kernel(41)])
    assert (disk.hit, disk.address) == (True, first.address)
    assert len(compilations) == 1


@pytest.mark.parametrize(
    ("count", "jobs", "expected"), [(1, 2, 1), (2, 2, 2), (9, 1, 1), (70, 1, 2), (20, 2, 3)]
)
def test_kernels_share_units(
    count: int, jobs: int, expected: int, compilations: list[list[str]]
) -> None:
    loaded = compile_units([kernel(i) for i in range(count)], jobs=jobs)
    assert [call(k) for k in loaded] == list(range(count))
    assert len(compilations) == expected


@pytest.mark.parametrize(
    ("count", "length", "jobs", "expected"),
    [
        (64, 300, 2, 8),
        (200, 300, 2, 8),
        (4000, 300, 2, 63),
        (4000, 300, 64, 256),
        (80, 30_000, 1, 10),
    ],
)
def test_units_grow_with_the_number_of_kernels(
    count: int, length: int, jobs: int, expected: int
) -> None:
    key: Any = None
    missing = [
        units._Missing(KernelSource(f"k{n}", "x" * (length + n % 7)), key, "new text")
        for n in range(count)
    ]
    parts = units.group(missing, jobs)
    assert len(parts) == expected
    assert sorted(item.source.name for part in parts for item in part) == sorted(
        item.source.name for item in missing
    )
    assert max(map(len, parts)) <= units.MOST_PER_UNIT
    loads = [sum(len(item.source.text) for item in part) for part in parts]
    assert max(loads) - min(loads) <= 2 * length, "one of them would be waited for"


def test_only_new_kernels_are_compiled(compilations: list[list[str]]) -> None:
    compile_units([kernel(i) for i in range(4)], jobs=1)
    forget()
    loaded = compile_units([kernel(i) for i in range(6)], jobs=1)
    assert [k.hit for k in loaded] == [True] * 4 + [False] * 2
    assert len(compilations) == 2


def test_one_kernel_of_a_unit_is_found_without_the_others() -> None:
    made = compile_units([kernel(i) for i in range(3)], jobs=1)
    inodes = {k.path.stat().st_ino for k in made}
    assert len(inodes) == 1, "kernels of one unit are links to one library"
    for other in made[:2]:
        other.path.unlink()
    forget()
    [kept] = compile_units([kernel(2)])
    assert kept.hit
    assert call(kept) == 2


def test_the_same_kernel_twice_in_one_call(compilations: list[list[str]]) -> None:
    a, b, c = compile_units([kernel(1), kernel(2), kernel(1)], jobs=1)
    assert a is c
    assert call(b) == 2
    assert len(compilations) == 1


def test_flags_are_part_of_the_key_and_of_the_reason() -> None:
    compile_units([kernel(5)])
    [fast] = compile_units([kernel(5)], flags=Flags(accuracy="fast"))
    assert fast.why_miss == "flags changed"
    [defined] = compile_units([KernelSource("k_d", STORE.format(name="k_d", value="VALUE"))],
                              flags=Flags(defines=(("VALUE", "77"),)))  # fmt: skip
    assert call(defined) == 77


def test_a_brief_kernel_is_another_one_of_the_same_values() -> None:
    plain, brief = compile_units([kernel(5), kernel(5)._replace(brief=True)])
    assert call(plain) == call(brief) == 5
    known = bool(find_compiler().brief_arguments)
    assert (plain.path != brief.path) is known
    assert compile_units([kernel(5)._replace(brief=True)])[0].hit


@pytest.mark.parametrize(
    ("version", "known"),
    [
        ("gcc (Debian 12.2.0-14+deb12u1) 12.2.0", True),
        ("gcc (GCC) 15.1.0", True),
        ("gcc (GCC) 16.0.1", False),
        ("gcc of another kind", False),
    ],
)
def test_only_compilers_that_are_known_are_told_to_be_brief(version: str, known: bool) -> None:
    compiler = dataclasses.replace(find_compiler(), family="gcc", version=version)
    assert bool(compiler.brief_arguments) is known
    assert not dataclasses.replace(compiler, family="clang").brief_arguments


def test_another_compiler_is_another_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    compile_units([kernel(5)])
    wrapper = tmp_path / "mycc"
    wrapper.write_text(f'#!/bin/sh\nexec "{find_compiler().path}" "$@"\n')
    wrapper.chmod(0o755)
    with_config(cc=str(wrapper))
    [other] = compile_units([kernel(5)])
    assert other.why_miss == "compiler changed"
    assert call(other) == 5


def test_another_cpu_is_another_key(monkeypatch: pytest.MonkeyPatch) -> None:
    compile_units([kernel(5)])
    forget()
    compiler_module._find.cache_clear()
    monkeypatch.setattr(compiler_module, "cpu_digest", lambda: "00000000")
    try:
        [other] = compile_units([kernel(5)])
    finally:
        compiler_module._find.cache_clear()
    assert other.why_miss == "cpu changed"


def test_events_say_what_happened() -> None:
    trace.recorder().clear()
    compile_units([kernel(8), kernel(9)], jobs=1)
    [compiled] = trace.recorder().events("compile")
    assert compiled.data["kernels"] == ["k_store_8", "k_store_9"]
    assert compiled.data["ms"] > 0
    forget()
    compile_units([kernel(8)])
    *misses, hit = trace.recorder().events("cache")
    assert [e.data["why"] for e in misses] == ["new text"] * 2
    assert (hit.name, hit.data["hit"]) == ("k_store_8", True)


def test_sources_are_kept_on_request() -> None:
    with_config(keep_source=True)
    [made] = compile_units([kernel(3)])
    text = made.path.with_suffix(".c").read_text()
    assert '#line 1 "k_store_3"' in text


# ------------------------------------------------------------------ damaged caches


def truncate(path: Path) -> None:
    data = path.read_bytes()
    path.unlink()  # the library may be mapped: replace the file, do not cut it
    path.write_bytes(data[: len(data) // 2])


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    path.unlink()
    data[len(data) // 3] ^= 0xFF
    path.write_bytes(bytes(data))


def empty(path: Path) -> None:
    path.unlink()
    path.touch()


def folder(path: Path) -> None:
    path.unlink()
    path.write_text("not a library")


@pytest.mark.parametrize("damage", [truncate, flip, empty, folder])
def test_a_corrupt_entry_is_rebuilt(damage: Any, fresh: Path, tmp_path: Path) -> None:
    # Damaged before this process opens it, as a crash of another one would leave it.
    made = run_elsewhere(fresh, 6)
    damage(made)
    [again] = compile_units([kernel(6)])
    assert again.why_miss == "corrupt entry rebuilt"
    assert call(again) == 6
    forget()
    assert compile_units([kernel(6)])[0].hit


def _compile_in_child(root: str, value: int) -> str:
    with_config(cache_dir=Path(root))
    return str(compile_units([kernel(value)])[0].path)


def run_elsewhere(root: Path, value: int) -> Path:
    """The artefact that another process made of ``kernel(value)``."""
    import subprocess

    script = (
        "import sys; from pathlib import Path\n"
        "from maxlab.toolchain import KernelSource, compile_units\n"
        "print(compile_units([KernelSource(sys.argv[1], sys.argv[2])])[0].path)"
    )
    source = kernel(value)
    done = subprocess.run(
        [sys.executable, "-c", script, source.name, source.text],
        env={**os.environ, "MAXLAB_CACHE_DIR": str(root), "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    return Path(done.stdout.strip())


def test_many_processes_may_write_the_same_entry(fresh: Path) -> None:
    context = multiprocessing.get_context("spawn")
    with context.Pool(3) as pool:
        paths = pool.starmap(_compile_in_child, [(str(fresh), 7)] * 3)
    assert len(set(paths)) == 1
    assert artefacts.is_whole(Path(paths[0]))
    assert compile_units([kernel(7)])[0].hit
    assert not list((fresh / "tmp").iterdir()), "build directories are removed"


def test_the_directory_is_private(fresh: Path) -> None:
    compile_units([kernel(1)])
    assert stat.S_IMODE(fresh.stat().st_mode) == 0o700


def test_a_directory_that_others_can_write_is_not_used(fresh: Path) -> None:
    fresh.mkdir()
    fresh.chmod(0o777)
    trace.recorder().clear()
    [made] = compile_units([kernel(1)])
    assert not made.path.is_relative_to(fresh)
    [warning] = trace.recorder().events("warning")
    assert "every user can write it" in warning.data["message"]


def file_instead(root: Path) -> None:
    root.parent.mkdir(exist_ok=True)
    root.write_text("a file")


def home_missing(root: Path) -> None:
    with_config(cache_dir=Path("~/.cache/maxlab"))


def read_only(root: Path) -> None:
    with_config(cache_dir=Path("/sys/maxlab"))


@pytest.mark.parametrize("obstacle", [file_instead, home_missing, read_only])
def test_an_unusable_directory_falls_back_to_a_private_one(obstacle: Any, fresh: Path) -> None:
    obstacle(fresh)
    forget()
    trace.recorder().clear()
    [made] = compile_units([kernel(11)])
    assert call(made) == 11
    assert len(trace.recorder().events("warning")) == 1
    spare = cache().spare
    assert spare is not None
    assert made.path.is_relative_to(spare)
    assert stat.S_IMODE(spare.stat().st_mode) == 0o700
    forget()
    assert compile_units([kernel(11)])[0].hit, "the spare directory is looked in as well"


def test_a_read_only_cache_still_serves_what_it_has(
    fresh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compile_units([kernel(1)])
    forget()
    refuse_writes_below(fresh, errno.EROFS, monkeypatch)
    old, new = compile_units([kernel(1), kernel(2)])
    assert old.hit
    assert old.path.is_relative_to(fresh)
    assert not new.path.is_relative_to(fresh)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EACCES])
def test_a_full_disk_falls_back(fresh: Path, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_writes_below(fresh, code, monkeypatch)
    [made] = compile_units([kernel(12)])
    assert call(made) == 12
    assert not made.path.is_relative_to(fresh)


def test_a_disk_that_fills_while_compiling_falls_back(
    fresh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(command: Any, **kwargs: Any) -> Any:
        if Path(kwargs["cwd"]).is_relative_to(fresh):
            return compiler_module.Finished(
                1, "fatal error: error writing: No space left on device"
            )
        return compiler_module.run(command, **kwargs)

    monkeypatch.setattr(units, "run", full)
    [made] = compile_units([kernel(13)])
    assert call(made) == 13
    assert not made.path.is_relative_to(fresh)


def test_nowhere_to_write_is_a_cache_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> str:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(artefacts, "fresh_folder", refuse)
    monkeypatch.setattr(tempfile, "mkdtemp", refuse)
    with pytest.raises(CacheError, match=r"no space left on device.*ML510[\s\S]*MAXLAB_CACHE_DIR"):
        compile_units([kernel(14)])
    assert issubclass(CacheError, OSError)


def test_a_machine_without_a_temporary_directory_is_a_cache_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*args: Any, **kwargs: Any) -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    monkeypatch.setattr(artefacts, "fresh_folder", refuse)
    monkeypatch.setattr(tempfile, "mkdtemp", refuse)
    monkeypatch.setattr(tempfile, "gettempdir", refuse)
    with pytest.raises(CacheError, match="there is no temporary directory that can be used"):
        compile_units([kernel(15)])


def refuse_writes_below(root: Path, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail with ``code`` what would make a directory below ``root``."""
    make = fresh_folder

    def fresh(parent: Path, prefix: str) -> Path:
        if parent.is_relative_to(root):
            raise OSError(code, os.strerror(code))
        return make(parent, prefix)

    monkeypatch.setattr(artefacts, "fresh_folder", fresh)


# ------------------------------------------------------------------ compiler failures


def test_no_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolchainError, match=r"no C compiler.*ML501[\s\S]*fix: install"):
        compile_units([kernel(1)])


def test_a_compiler_that_is_not_there() -> None:
    with_config(cc="no-such-compiler -O9")
    with pytest.raises(ToolchainError, match=r"no-such-compiler.*MAXLAB_CC.*ML501"):
        compile_units([kernel(1)])


def test_a_compiler_that_does_not_run(tmp_path: Path) -> None:
    broken = tmp_path / "cc"
    broken.write_text("#!/bin/sh\necho broken; exit 3\n")
    broken.chmod(0o755)
    with_config(cc=str(broken))
    with pytest.raises(ToolchainError, match=r"status 3.*ML501"):
        compile_units([kernel(1)])


def test_a_compiler_with_arguments() -> None:
    with_config(cc=f"{find_compiler().path} -DVALUE=3")
    name = "k_with_arguments"
    [made] = compile_units([KernelSource(name, STORE.format(name=name, value="VALUE"))])
    assert call(made) == 3


REFUSED = [
    ("syntax", "  return 0", "expected ‘;’|expected ';'", 2),
    ("undeclared", "  return missing;", "undeclared", 2),
    ("unknown function", "  mx_no_such(1); return 0;", "implicit declaration", 2),
]


@pytest.mark.parametrize(("title", "line", "message", "number"), REFUSED)
def test_a_refused_kernel_shows_its_line(title: str, line: str, message: str, number: int) -> None:
    bad = "int k_bad(void *const *b, const i64 *d, i64 lo, i64 hi, mx_ctx *ctx) {\n" + line + "\n}"
    with pytest.raises(ToolchainError) as caught:
        compile_units([kernel(1), KernelSource("k_bad", bad)], jobs=1)
    error = caught.value
    assert error.code == "ML502"
    assert f"kernel k_bad, line {number}" in error.what
    assert any(f"{number} | {line}" in reason for reason in error.why)
    assert any(reason.endswith("^") for reason in error.why)
    import re

    assert re.search(message, error.what)


def test_a_killed_compiler_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(units, "run", lambda *a, **k: compiler_module.Finished(-9, ""))
    with pytest.raises(ToolchainError, match=r"SIGKILL.*k_store_1.*ML505"):
        compile_units([kernel(1)])


def test_a_compiler_that_hangs_is_stopped(tmp_path: Path) -> None:
    with pytest.raises(ToolchainError, match=r"did not end within 0 s.*ML505"):
        compiler_module.run(["sleep", "10"], cwd=tmp_path, timeout_s=0.2)


def test_a_kernel_without_its_symbol() -> None:
    with pytest.raises(ToolchainError, match=r"no symbol k_other.*ML503"):
        compile_units([KernelSource("k_other", kernel(1).text)])


def test_an_undefined_symbol_is_named() -> None:
    text = "int nobody(void);\n" + kernel(1, "k_undefined").text.replace(
        "return 0", "return nobody()"
    )
    with pytest.raises(ToolchainError, match=r"undefined symbol: nobody.*ML503"):
        compile_units([KernelSource("k_undefined", text)])


def test_usage_and_clear() -> None:
    compile_units([kernel(1), kernel(2)], jobs=1)
    count, size = cache().usage()
    assert count == 1, "two kernels, one library"
    assert size > 0
    assert cache().clear() == size
    assert cache().usage() == (0, 0)
    forget()
    assert compile_units([kernel(1)])[0].why_miss == "new text"

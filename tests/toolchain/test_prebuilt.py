"""The runtime as machine code that an installation brings."""

from __future__ import annotations

import itertools
import platform
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from maxlab import trace
from maxlab.config import config, set_config
from maxlab.toolchain import library, prebuilt
from maxlab.toolchain.compiler import cpu_features
from maxlab.toolchain.library import PRODUCTS, RUNTIME, own_library, runtime, runtime_ahead
from maxlab.toolchain.prebuilt import LEVELS, level_of
from maxlab.toolchain.seals import seal


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path) -> Iterator[Path]:
    """An empty cache, and no compiler that somebody chose."""
    old = set_config(replace(config(), cache_dir=tmp_path / "cache", cc=None, keep_source=False))
    yield tmp_path
    set_config(old)


@pytest.fixture
def brought(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of an installation, with the runtime of this machine in it."""
    folder = tmp_path / "brought"
    folder.mkdir()
    monkeypatch.setattr(prebuilt, "folder", lambda: tmp_path / "nothing")
    level = level_of(RUNTIME, cpu_features(), platform.machine())
    if level is None:
        pytest.skip("no code is made for CPUs like this one")
    _, code = own_library(RUNTIME)
    monkeypatch.setattr(prebuilt, "folder", lambda: folder)
    path = prebuilt.file_of(RUNTIME, platform.machine())
    bring(path, {"another": b"code", library.prebuilt_name(level, RUNTIME): code})
    set_config(replace(config(), cache_dir=tmp_path / "other"))
    return path


def bring(path: Path, codes: dict[str, bytes], name: str | None = None) -> None:
    """Write a file with ``codes``, sealed for its own name, or for ``name``."""
    path.write_bytes(prebuilt.packed(codes))
    seal(path, [name or path.name])


def compiled() -> list[str]:
    """What compilers were run for."""
    return [event.name for event in trace.recorder().events("compile")]


def test_nothing_is_compiled_where_the_installation_has_it(brought: Path) -> None:
    before = compiled()
    assert runtime_ahead() is None, "there is nothing to wait for"
    made = runtime()
    assert made.hit
    assert made.lib.mx_team_size(made.team(1)) == 1
    assert compiled() == before
    codes = prebuilt.codes_in(brought)
    assert codes is not None
    assert codes.code(codes.names[1]) == own_library(RUNTIME)[1]


def test_what_does_not_fit_is_compiled(brought: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = library._sources_and_key(RUNTIME)[1]
    arguments = library.FLAGS.portable_arguments
    assert prebuilt.code_of(RUNTIME, key, arguments) is not None
    assert prebuilt.code_of(PRODUCTS, key, arguments) is None
    assert prebuilt.code_of(RUNTIME, replace(key, text="0" * 32), arguments) is None
    assert prebuilt.code_of(RUNTIME, key, (*arguments, "-DX")) is None
    with monkeypatch.context() as other:
        other.setattr(prebuilt, "cpu_features", lambda: frozenset({"sse2"}))
        assert prebuilt.code_of(RUNTIME, key, arguments) is None
    for chosen in (replace(config(), cc="gcc"), replace(config(), keep_source=True)):
        old = set_config(chosen)
        assert prebuilt.code_of(RUNTIME, key, arguments) is None
        set_config(old)


@pytest.mark.parametrize("harm", ["cut", "changed", "renamed"])
def test_a_damaged_file_is_not_loaded(brought: Path, harm: str) -> None:
    data = brought.read_bytes()
    if harm == "renamed":
        codes = prebuilt.codes_in(brought)
        assert codes is not None
        brought.unlink()
        bring(brought, {name: codes.code(name) or b"" for name in codes.names}, "another")
    elif harm == "cut":
        brought.write_bytes(data[:-1000])
    else:
        brought.write_bytes(data[:5000] + bytes([data[5000] ^ 1]) + data[5001:])
    key = library._sources_and_key(RUNTIME)[1]
    assert prebuilt.code_of(RUNTIME, key, library.FLAGS.portable_arguments) is None


def test_a_library_that_cannot_be_opened_is_compiled(brought: Path) -> None:
    codes = prebuilt.codes_in(brought)
    assert codes is not None
    bring(brought, dict.fromkeys(codes.names, b"\x7fELF no library"))
    before = compiled()
    assert not runtime().hit
    assert compiled()[len(before) :] == [RUNTIME]


def test_a_file_has_several_codes(tmp_path: Path) -> None:
    given = {"first": b"a" * 5000, "second": b"", "third": bytes(range(256)) * 40}
    bring(tmp_path / "codes.xz", given)
    codes = prebuilt.codes_in(tmp_path / "codes.xz")
    assert codes is not None
    assert {name: codes.code(name) for name in codes.names} == given
    assert codes.code("fourth") is None
    assert (tmp_path / "codes.xz").stat().st_size < 1500
    assert prebuilt.codes_in(tmp_path / "none.xz") is None


def test_a_python_without_lzma_compiles(brought: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lzma", None)
    before = compiled()
    assert not runtime().hit
    assert compiled()[len(before) :] == [RUNTIME]


def test_levels_are_in_order_of_what_they_can() -> None:
    for more, less in itertools.pairwise(LEVELS):
        assert more.features > less.features
        assert level_of(PRODUCTS, more.features, more.machine) is more
        assert level_of(RUNTIME, more.features, more.machine) is LEVELS[-1]
        assert level_of(PRODUCTS, more.features, "riscv64") is None
    assert level_of(PRODUCTS, LEVELS[-1].features - {"fma"}, "x86_64") is None


@pytest.mark.skipif(platform.machine() != "x86_64", reason="levels of another architecture")
def test_the_features_are_those_that_gcc_uses() -> None:
    """Each level's arguments turn on no vector instructions that its features do not name."""
    spelled = {"AVX512VNNI": "avx512_vnni", "AVX512BF16": "avx512_bf16", "LZCNT": "abm"}
    known = {"SSE4_1", "SSE4_2", "SSSE3", "AVX", "AVX2", "FMA", "F16C", "BMI", "BMI2", "MOVBE"}
    for level in LEVELS:
        command = ["gcc", *level.arguments, "-dM", "-E", "-x", "c", "/dev/null"]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        macros = {line.split()[1].strip("_") for line in told.splitlines()}
        on = {m for m in macros if m in known or m in spelled or m.startswith("AVX512")}
        needed = {spelled.get(m, m.lower().replace("bmi", "bmi1") if m == "BMI" else m.lower())
                  for m in on}  # fmt: skip
        assert needed <= level.features

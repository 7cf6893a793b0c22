"""A cache that is full: what was used longest ago goes, and whoever needed it compiles it again."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from maxlab.config import config, read_config
from maxlab.errors import ArgumentError
from maxlab.toolchain import cache, compile_units, eviction, forget
from maxlab.toolchain.artefacts import Cache
from tests.toolchain.small import IMPORTS, ROOT, call, kernel, settings

DAY = 24 * 3600.0


def library(kernels: Path, name: str, size: int, age: float, *links: str) -> Path:
    """A file of ``size`` bytes that was used ``age`` seconds ago, and links to it."""
    path = kernels / name[:2] / f"{name}.so"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    for link in links:
        other = kernels / link[:2] / f"{link}.so"
        other.parent.mkdir(parents=True, exist_ok=True)
        os.link(path, other)
    os.utime(path, (time.time() - age, time.time() - age))
    return path


def names(kernels: Path) -> set[str]:
    return {path.name for path in kernels.rglob("*") if path.is_file()}


def test_the_oldest_go_with_their_links_and_sources(tmp_path: Path) -> None:
    kernels = tmp_path / "kernels"
    library(kernels, "aa.1", 400, 3 * DAY, "ab.1", "ac.1")
    (kernels / "ab" / "ab.1.c").write_text("source")
    library(kernels, "ba.2", 400, 2 * DAY)
    library(kernels, "bb.3", 400, DAY)
    assert eviction.shrink(kernels, 1200) == 0
    assert eviction.shrink(kernels, 1100) == 400
    assert names(kernels) == {"ba.2.so", "bb.3.so"}
    assert eviction.shrink(kernels, 500) == 800
    assert names(kernels) == set()


def test_what_is_no_kernel_stays(tmp_path: Path) -> None:
    kernels = tmp_path / "kernels"
    outside = library(tmp_path / "outside", "aa.1", 400, DAY)
    library(kernels, "ba.2", 400, DAY)
    (kernels / "aa").symlink_to(outside.parent)
    (kernels / "ba" / "notes").write_text("mine")
    (kernels / "ba" / "ba.9.so").symlink_to(outside)
    eviction.shrink(kernels, 1)
    assert outside.exists()
    assert (kernels / "ba" / "notes").exists()
    assert not (kernels / "ba" / "ba.2.so").exists()
    linked = tmp_path / "linked"
    linked.symlink_to(tmp_path / "outside")
    assert eviction.shrink(linked, 1) == 0
    assert eviction.shrink(tmp_path / "missing", 1) == 0


def test_a_use_is_noted_once_a_day(tmp_path: Path) -> None:
    with settings(cache_dir=tmp_path):
        compile_units([kernel(7)])
        (path,) = (tmp_path / "kernels").rglob("*.so")
        before = path.stat().st_mtime_ns
        forget()
        compile_units([kernel(7)])
        assert path.stat().st_mtime_ns == before
        os.utime(path, (time.time() - 2 * DAY, time.time() - 2 * DAY))
        forget()
        (loaded,) = compile_units([kernel(7)])
        assert time.time() - path.stat().st_mtime < DAY
        assert call(loaded) == 7


def test_a_kernel_that_went_runs_on_and_is_compiled_again(tmp_path: Path) -> None:
    with settings(cache_dir=tmp_path):
        (loaded,) = compile_units([kernel(11)])
        eviction.shrink(tmp_path / "kernels", 1)
        assert names(tmp_path / "kernels") == set()
        assert call(loaded) == 11
        forget()
        (again,) = compile_units([kernel(11)])
        assert call(again) == 11
        # Plans of models that other tests loaded a moment ago may come to lie beside it.
        assert len([n for n in names(tmp_path / "kernels") if n.endswith(".so")]) == 1


def test_a_cache_that_grows_past_its_limit_shrinks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with settings(cache_dir=tmp_path):
        compile_units([kernel(1)])
        size = cache().info().bytes
        monkeypatch.setattr(Cache, "limit", property(lambda _: 4 * size))
        for number in range(2, 12):
            compile_units([kernel(number)])
        assert 0 < cache().info().bytes <= 4 * size
        found = compile_units([kernel(number) for number in range(1, 12)])
        assert [call(one) for one in found] == list(range(1, 12))


def test_one_process_looks_and_the_others_do_not(tmp_path: Path) -> None:
    assert eviction.is_due(tmp_path)
    assert not eviction.is_due(tmp_path)
    os.utime(tmp_path / "swept", (0, 0))
    assert eviction.is_due(tmp_path)
    assert eviction.is_due(tmp_path / "missing")


def test_processes_that_compile_while_another_evicts(tmp_path: Path) -> None:
    script = IMPORTS + (
        "from maxlab.toolchain import eviction\n"
        "for n in range(12):\n"
        "    (one,) = compile_units([kernel(n)])\n"
        "    forget()\n"
        "    eviction.shrink(cache().root / 'kernels', 1)\n"
        "    assert call(one) == n\n"
        "print(len(warnings()))\n"
    )
    env = {**os.environ, "MAXLAB_CACHE_DIR": str(tmp_path / "cache")}
    running = [
        subprocess.Popen(
            [sys.executable, "-c", script], cwd=ROOT, env=env, text=True, stdout=subprocess.PIPE
        )
        for _ in range(2)
    ]
    said = [one.communicate(timeout=300)[0].strip() for one in running]
    assert [one.returncode for one in running] == [0, 0]
    assert said == ["0", "0"]


def test_the_limit_is_a_setting() -> None:
    assert read_config({}).cache_limit == 2048
    assert read_config({"MAXLAB_CACHE_LIMIT": "10"}).cache_limit == 10
    with pytest.raises(ArgumentError, match="ML390"):
        read_config({"MAXLAB_CACHE_LIMIT": "10 GB"})
    with settings(cache_limit=0):
        assert cache().limit is None
        assert cache().info().limit is None
    assert cache().info().limit == config().cache_limit << 20
    assert repr(cache()) == f"Cache({str(cache().root)!r})"

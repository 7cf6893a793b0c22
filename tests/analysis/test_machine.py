"""The ceilings of a machine: what is measured, how it is kept, and what can go wrong with it."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import maxlab
from maxlab import driver
from maxlab.analysis import machine as machines
from maxlab.analysis.machine import Level, Machine, gpu, loops, streams
from maxlab.analysis.machine.caches import Cache, caches, cpu_model
from maxlab.analysis.machine.ceilings import at_least
from maxlab.compiler.options import Options
from maxlab.config import config, set_config
from maxlab.errors import ArgumentError, DeviceError, DocumentError
from maxlab.toolchain import runtime
from tests.analysis import ceilings as made

Array = np.ndarray[Any, Any]


def test_several_threads_reach_what_one_does() -> None:
    """Others have the cores while they are measured: the ceilings are those of one thread."""
    alone, several = made.ceilings(1), made.ceilings(2)
    starved = replace(
        several,
        rates=tuple(replace(rate, gflops=rate.gflops / 100) for rate in several.rates),
        levels=tuple(replace(level, copy=level.copy / 100) for level in several.levels),
    )
    found = at_least(starved, alone)
    assert [rate.gflops for rate in found.rates] == [rate.gflops for rate in alone.rates]
    assert [level.copy for level in found.levels] == [level.copy for level in alone.levels]
    assert [level.read for level in found.levels] == [level.read for level in several.levels]
    assert at_least(several, alone) == several
    busy = Machine("a busy one", 0.0, 1.0, {1: alone, 2: found})
    assert busy.was_busy


# ---------------------------------------------------------------- caches
def sysfs(root: Path, *rows: tuple[str, str, str, str]) -> Path:
    """A list of processors whose caches are ``rows`` of level, type, size and sharing cores."""
    import os

    folder = root / f"cpu{min(os.sched_getaffinity(0))}" / "cache"
    for number, row in enumerate(rows):
        place = folder / f"index{number}"
        place.mkdir(parents=True)
        for name, text in zip(("level", "type", "size", "shared_cpu_list"), row, strict=True):
            (place / name).write_text(text + "\n")
    return root


def test_caches_are_read_as_the_system_lists_them(tmp_path: Path) -> None:
    root = sysfs(
        tmp_path,
        ("1", "Data", "48K", "0"),
        ("1", "Instruction", "32K", "0"),
        ("2", "Unified", "2M", "0-1"),
        ("3", "Unified", "1G", "0-7,16-23"),
    )
    found = caches(root)
    assert found == (Cache(1, 48 << 10, 1), Cache(2, 2 << 20, 2), Cache(3, 1 << 30, 16))
    assert [cache.share(4) for cache in found] == [48 << 10, 1 << 20, 1 << 28]


def test_a_cache_with_a_file_missing_is_left_out(tmp_path: Path) -> None:
    root = sysfs(tmp_path, ("1", "Data", "32K", "0"), ("2", "Unified", "huge", "0"))
    assert caches(root) == (Cache(1, 32 << 10, 1),)


def test_without_a_list_usual_sizes_are_assumed(tmp_path: Path) -> None:
    found = caches(tmp_path)
    assert [cache.level for cache in found] == [1, 2, 3]
    assert all(cache.assumed for cache in found)


def test_the_processor_has_a_name() -> None:
    assert cpu_model()


# ---------------------------------------------------------------- what the loops do
@pytest.fixture(scope="module")
def memory() -> tuple[streams.Loops, streams.Memory, list[Array]]:
    """Loops of two threads, and the three arrays that they run over."""
    library = runtime()
    found = streams.Memory(library, 1 << 16)
    arrays = []
    for address in found.addresses:
        pointer = library.ffi.cast("char *", address)
        arrays.append(np.frombuffer(library.ffi.buffer(pointer, 1 << 16), np.float32))
    rng = np.random.default_rng(0)
    for array in arrays[:2]:
        array[:] = rng.integers(-8, 8, array.size)
    return streams.Loops(library, 2), found, arrays


def test_the_copy_copies_what_both_threads_have(memory: Any) -> None:
    table, found, (a, _, c) = memory
    c[:] = 0
    table.run("ceiling_copy", found.addresses, [1024, 2], items=2)
    assert np.array_equal(c[:2048], a[:2048])
    assert not c[2048:].any()


def test_the_triad_is_that_of_stream(memory: Any) -> None:
    table, found, (a, b, c) = memory
    table.run("ceiling_triad", found.addresses, [1024, 1], items=2)
    assert np.array_equal(c[:2048], a[:2048] + 3 * b[:2048])


def test_the_sum_reads_every_element(memory: Any) -> None:
    table, found, (a, _, c) = memory
    c[:] = 0
    table.run("ceiling_read", found.addresses, [1024, 3], items=2)
    assert c[:1024].sum() == 3 * a[:1024].sum()
    assert c[1024:].sum() == 3 * a[1024:2048].sum()


def test_a_chain_of_multiply_adds_is_as_long_as_it_says(memory: Any) -> None:
    table, found, (a, _, c) = memory
    a[:2] = 1.0, 2.0  # s * 1 + 2, from 2 (n + 1), for each of the chains n
    table.run("ceiling_fma_f32", found.addresses, [0, 5], items=1)
    assert c[0] == sum(2 * (n + 1) + 5 * 2 for n in range(12))


def test_a_loop_that_the_processor_cannot_do_has_no_rate() -> None:
    task = streams.Task(10.0, lambda trips: -1)
    streams.time_all([task], 1)
    assert task.rate == 0.0
    assert not task.is_late


def test_the_rate_is_that_of_the_fastest_run() -> None:
    clock = iter([10**9, *(3 * 10**9, 2 * 10**9, 5 * 10**9) * 9])
    task = streams.Task(6.0, lambda trips: next(clock))
    streams.time_all([task], 1)
    assert task.rate == pytest.approx(6.0 / 10**9)


def test_threads_that_come_late_are_given_more_rounds() -> None:
    calls: list[int] = []

    def run(trips: int) -> int:
        calls.append(trips)
        return 8_000_000 if len(calls) < 15 else 4_000_000

    late = streams.Task(8.0, run, alone=1e-6)
    streams.time_all([late], 2)
    assert len(calls) > streams.ROUNDS + 1
    assert late.rate == pytest.approx(2e-6)


def test_functions_are_timed_with_the_flags_that_are_asked_for() -> None:
    found = loops.functions(Options(accuracy="fast"))
    assert {name.split()[0] for name in found} == {"exp", "tanh", "max", "sum", "div"}
    count = loops.ROWS * loops.COLUMNS
    assert found["exp float32"].flops == 8 * count
    assert found["exp float64"].nbytes == 16 * count


# ---------------------------------------------------------------- ceilings
def test_a_copy_takes_what_was_measured_for_a_copy() -> None:
    level = Level("DRAM", 0, 20.0, 16.0, 15.0)
    assert level.ns(1000, 0) == pytest.approx(1000 / 20)
    assert level.ns(1000, 1000) == pytest.approx(2000 / 16)
    assert level.best == 20.0


def test_stores_never_make_a_kernel_faster() -> None:
    level = Level("L1", 1, 100.0, 300.0, 300.0)  # two loads and a store at once
    assert level.ns(100, 100) == level.ns(100, 0)


def test_data_is_where_it_fits() -> None:
    roof = made.ceilings(2)
    names = [roof.level(n).name for n in (1, 64 << 10, 65 << 10, 32 << 20, 1 << 40)]
    assert names == ["L1", "L1", "L2", "L3", "DRAM"]


def test_json_gives_the_same_machine_back() -> None:
    found = made.machine()
    assert Machine.from_json(json.loads(json.dumps(found.to_json()))) == found


def test_anything_else_is_refused() -> None:
    whole = made.machine().to_json()
    others: list[Any] = [None, 7, [], {}]
    for broken in (*others, {**whole, "version": 1}, {**whole, "at": {"x": {}}}):
        with pytest.raises(DocumentError, match="ML811"):
            Machine.from_json(broken)
    for name in whole["at"]["1"]:
        part = copy.deepcopy(whole)
        del part["at"]["1"][name]
        with pytest.raises(DocumentError, match="ML811"):
            Machine.from_json(part)
    part = copy.deepcopy(whole)
    part["at"]["1"]["levels"][0]["read"] = "fast"
    with pytest.raises(DocumentError, match="ML811"):
        Machine.from_json(part)


def test_a_busy_machine_says_so() -> None:
    found = made.machine()
    assert not found.was_busy
    slow = replace(found.at[2], rates=found.at[1].rates)
    busy = replace(found, at={1: found.at[1], 2: slow})
    assert busy.was_busy
    assert "refresh=True" in busy.table()
    assert not made.machine(1).was_busy


def test_the_table_has_a_column_for_each_number_of_threads() -> None:
    lines = made.machine().table().splitlines()
    assert lines[2].split() == ["1", "thread", "2", "threads"]
    assert next(line for line in lines if "f32 FMA" in line).split() == [
        "f32", "FMA", "100.0", "200.0",
    ]  # fmt: skip


# ---------------------------------------------------------------- measured once
@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[int]]:
    """The numbers of threads that were measured, in a cache of the test's own."""
    calls: list[int] = []

    def measured(place: Any) -> Machine:
        calls.append(place.threads)
        return replace(made.machine(place.threads), took_s=float(len(calls)))

    monkeypatch.setattr(machines, "_measured", measured)
    monkeypatch.setattr(machines, "_known", {})
    old = set_config(replace(config(), cache_dir=tmp_path))
    yield calls
    set_config(old)


def test_it_is_measured_once_for_each_number_of_threads(counted: list[int]) -> None:
    assert machines.known(2) is None
    first = maxlab.machine(2)
    assert maxlab.machine(2) is first
    assert machines.known(2) is first
    assert machines.known(3) is None
    maxlab.machine(3)
    assert counted == [2, 3]


def test_another_process_finds_it_on_disk(counted: list[int]) -> None:
    first = maxlab.machine(2)
    machines._known.clear()
    assert machines.known(2) == first
    assert counted == [2]


def test_it_can_be_measured_again(counted: list[int]) -> None:
    maxlab.machine(2)
    assert maxlab.machine(2, refresh=True).took_s == 2.0
    machines._known.clear()
    assert maxlab.machine(2).took_s == 2.0


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 2}', '"\\ud800"'])
def test_a_damaged_file_is_measured_again(counted: list[int], tmp_path: Path, text: str) -> None:
    maxlab.machine(2)
    machines._known.clear()
    (path,) = (tmp_path / "machine").glob("*.json")
    path.write_text(text)
    assert maxlab.machine(2).took_s == 2.0


def test_a_cache_that_cannot_be_written_costs_nothing_but_time(
    counted: list[int], tmp_path: Path
) -> None:
    (tmp_path / "machine").write_text("a file where the folder should be")
    assert maxlab.machine(2).threads == 2
    assert counted == [2]


@pytest.mark.parametrize("threads", [0, -1, 1.5, "2"])
def test_threads_are_a_number(threads: Any) -> None:
    with pytest.raises(ArgumentError, match="ML616"):
        maxlab.machine(threads)


def test_this_machine() -> None:
    found = maxlab.machine(2)
    assert sorted(found.at) == [1, 2]
    for count, roof in found.at.items():
        assert roof.threads == count
        assert roof.levels[-1].name == "DRAM"
        assert all(min(x.read, x.copy, x.triad) > 0 for x in roof.levels)
        names = {rate.name for rate in roof.rates}
        assert {"f32 FMA", "f64 FMA", "f32 product", "f64 product", "f32 exp"} <= names
        assert all(rate.gflops > 0 for rate in roof.rates)
        assert roof.dispatch_ns > 0
        assert all(0 < ratio <= 1 for ratio in roof.fast.values())
    assert "DRAM" in repr(found)


# ---------------------------------------------------------------- GPUs
def test_a_simulated_gpu_has_none() -> None:
    with driver.simulated():
        device = driver.Accelerator()
        with pytest.raises(DeviceError, match="ML670"):
            maxlab.machine(device=device)
        assert machines.known(1, device) is None


def test_a_gpu_is_measured_by_its_own_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("BYTES", 1 << 12), ("SIDE", 32), ("SMALL", 1 << 8), ("RUNS", 1)):
        monkeypatch.setattr(gpu, name, value)
    with driver.simulated():
        device = driver.Accelerator()
        properties = replace(device.context.properties, simulated=False)
        monkeypatch.setattr(device.context, "properties", properties)
        found = gpu.measure_gpu(device)
    roof = found.ceilings(1)
    assert [level.name for level in roof.levels] == ["DRAM"]
    names = [rate.name for rate in roof.rates]
    assert names == ["f32 product", "bf16 product", "f16 product", "f32 exp"]
    assert Machine.from_json(found.to_json()) == found

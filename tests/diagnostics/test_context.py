"""GPUDiagContext over nvidia-ml-py and a library with NVML's C interface."""

from __future__ import annotations

from pathlib import Path

import pytest

from maxlab.diagnostics.gpu import GPUDiagContext, GPUStats, MemoryStats, UtilizationStats
from maxlab.errors import DeviceError
from tests.diagnostics.conftest import Machine, MakeMachine, build

WHOLE = "total=1000 free=600 used=300 reserved=100 util=40 memutil=7"


def test_a_machine_without_libraries_has_no_gpus(bare_machine: Machine) -> None:
    assert bare_machine.read() == ({}, {})


def test_a_machine_without_packages_has_no_gpus(bare_machine: Machine) -> None:
    found = bare_machine.run(
        """
        sys.modules["pynvml"] = None
        from maxlab.diagnostics.gpu import _amdsmi, _nvml
        _amdsmi.importlib.util.find_spec = lambda name: None
        _amdsmi._CONTROL = _nvml._CONTROL = "/dev/there-is-no-such-device"
        with GPUDiagContext() as context:
            tell([context.get_stats(), context.problems])
        """
    )
    assert found == [{}, {}]


def test_a_driver_without_its_package_is_told_of(bare_machine: Machine) -> None:
    found = bare_machine.run(
        """
        sys.modules["pynvml"] = None
        from maxlab.diagnostics.gpu import _amdsmi, _nvml
        _amdsmi.importlib.util.find_spec = lambda name: None
        _amdsmi._CONTROL = _nvml._CONTROL = "/dev/null"
        with GPUDiagContext() as context:
            tell([context.get_stats(), context.problems])
        """
    )
    assert found[0] == {}
    assert "pip install nvidia-ml-py" in found[1]["nv"]
    assert "package amdsmi is not installed" in found[1]["amd"]


def test_a_driver_without_gpus(machine: Machine) -> None:
    assert machine.read() == ({}, {})
    assert machine.log == ["init", "shutdown"]


def test_several_gpus_in_the_order_of_the_driver(machine: Machine) -> None:
    machine.gpus(
        f"""
        gpu 0 {WHOLE}
        gpu 1 total=85899345920 free=80000000000 used=5000000000 reserved=899345920 util=0 memutil=0
        gpu 2 {WHOLE.replace("util=40", "util=100")}
        """
    )
    stats, problems = machine.read()
    assert stats == {
        "nv0": [1000, 600, 300, 100, 40, 7],
        "nv1": [85899345920, 80000000000, 5000000000, 899345920, 0, 0],
        "nv2": [1000, 600, 300, 100, 100, 7],
    }
    assert list(stats) == ["nv0", "nv1", "nv2"]
    assert problems == {}


@pytest.mark.parametrize("code", [9, 12])
def test_no_driver_means_no_gpus(code: int, machine: Machine) -> None:
    machine.gpus(f"init {code}\ngpu 0 {WHOLE}")
    assert machine.read() == ({}, {})
    assert machine.log == []


@pytest.mark.parametrize(
    ("code", "reason"),
    [(18, "RM has detected an NVML/RM version mismatch"), (999, "Unknown"), (77, "fake error 77")],
)
def test_a_library_that_does_not_start_is_told_of(code: int, reason: str, machine: Machine) -> None:
    machine.gpus(f"init {code}\ngpu 0 {WHOLE}")
    stats, problems = machine.read()
    assert stats == {}
    assert "NVML does not start" in problems["nv"]
    assert reason in problems["nv"]


def test_a_library_that_cannot_count_is_shut_down(machine: Machine) -> None:
    machine.gpus("count 999")
    stats, problems = machine.read()
    assert stats == {}
    assert "cannot count" in problems["nv"]
    assert machine.log == ["init", "shutdown"]


@pytest.mark.parametrize("code", [2, 3, 13, 25])
def test_reserved_memory_is_none_where_only_the_older_call_works(
    code: int, machine: Machine
) -> None:
    machine.gpus(f"gpu 0 {WHOLE} memory_v2=!{code}")
    assert machine.read() == ({"nv0": [1000, 600, 400, None, 40, 7]}, {})


def test_a_driver_without_the_newer_memory_call(
    nvml: Path, machine_with: MakeMachine, tmp_path: Path
) -> None:
    old = tmp_path / "old-driver"
    build("fake_nvml.c", old / nvml.joinpath("libnvidia-ml.so.1").name, "-DWITHOUT_MEMORY_V2")
    machine = machine_with(old)
    machine.gpus(f"gpu 0 {WHOLE}")
    assert machine.read() == ({"nv0": [1000, 600, 400, None, 40, 7]}, {})


def test_a_package_that_knows_only_the_older_memory_call(machine: Machine) -> None:
    machine.gpus(f"gpu 0 {WHOLE}")
    found = machine.run(
        """
        import pynvml
        del pynvml.nvmlMemory_v2
        with GPUDiagContext() as context:
            tell(flat(context.get_stats()))
        """
    )
    assert found == {"nv0": [1000, 600, 400, None, 40, 7]}


def test_missing_counters_are_none_or_named(machine: Machine) -> None:
    machine.gpus(
        f"""
        gpu 0 {WHOLE.replace("util=40", "util=!3")}
        gpu 1 util=12 memutil=3
        gpu 2 mig=!13
        gpu 3 {WHOLE}
        """
    )
    stats, problems = machine.read()
    assert stats == {
        "nv0": [1000, 600, 300, 100, 0, None],
        "nv1": [0, 0, 0, None, 12, 3],
        "nv3": [1000, 600, 300, 100, 40, 7],
    }
    assert problems == {
        "nv0": "does not report utilization",
        "nv1": "does not report memory",
        "nv2": "does not report memory, utilization",
    }


def test_mig_mode_has_no_utilization(machine: Machine) -> None:
    machine.gpus("gpu 0 total=1000 free=600 used=300 reserved=100 util=!3 mig=1 slots=7")
    stats, problems = machine.read()
    assert stats == {"nv0": [1000, 600, 300, 100, 0, None]}
    assert problems == {"nv0": "does not report utilization (it is in MIG mode)"}


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        ("reserved=20", [700, 500, 150, 50, 0, None]),
        ("reserved=20 memory_v2=!3", [700, 500, 170, None, 0, None]),
        ("reserved=20 memory=!4 memory_v2=!4", [500, 400, 70, 30, 0, None]),
    ],
)
def test_mig_instances_stand_for_a_gpu_that_may_not_be_read(
    second: str, expected: list[int | None], machine: Machine
) -> None:
    machine.gpus(
        f"""
        gpu 0 memory=!4 memory_v2=!4 util=!4 mig=1 slots=7
        gpu 0.1 total=500 free=400 used=70 reserved=30
        gpu 0.4 total=200 free=100 used=80 {second}
        """
    )
    stats, _ = machine.read()
    assert stats == {"nv0": expected}


def test_mig_mode_without_instances_reports_nothing(machine: Machine) -> None:
    machine.gpus("gpu 0 memory=!4 memory_v2=!4 util=!4 mig=1 slots=7")
    stats, problems = machine.read()
    assert stats == {}
    assert "MIG" in problems["nv0"]


@pytest.mark.parametrize("call", ["handle", "memory_v2", "util"])
def test_a_lost_gpu_is_left_out_until_it_comes_back(call: str, machine: Machine) -> None:
    machine.gpus(f"gpu 0 {WHOLE}\ngpu 1 {WHOLE}\ngpu 2 {WHOLE}")
    lost = WHOLE.replace("util=40", "util=!15") if call == "util" else f"{WHOLE} {call}=!15"
    found = machine.run(
        f"""
        from maxlab import trace
        with GPUDiagContext() as context:
            seen = []
            for middle in ("{WHOLE}", "{lost}", "{lost}", "{WHOLE}"):
                gpus("gpu 0 {WHOLE}\\ngpu 1 " + middle + "\\ngpu 2 {WHOLE}")
                seen.append([sorted(context.get_stats()), context.problems])
        warnings = [event.data for event in trace.recorder().events("warning")]
        tell([seen, warnings])
        """
    )
    all_well = [["nv0", "nv1", "nv2"], {}]
    one_lost = [["nv0", "nv2"], {"nv1": "cannot be read: GPU is lost"}]
    assert found[0] == [all_well, one_lost, one_lost, all_well]
    assert found[1] == [{"gpu": "nv1", "message": "cannot be read: GPU is lost"}]


def test_contexts_nest_repeat_and_balance(machine: Machine) -> None:
    machine.gpus(f"gpu 0 {WHOLE}")
    found = machine.run(
        """
        import pynvml
        outer = GPUDiagContext()
        seen = []
        for _ in range(2):
            with outer:
                with GPUDiagContext() as inner:
                    seen.append(inner.get_stats() == outer.get_stats())
                seen.append(sorted(outer.get_stats()))
        try:
            pynvml.nvmlDeviceGetCount()
        except pynvml.NVMLError_Uninitialized:
            tell(seen)
        """
    )
    assert found == [True, ["nv0"]] * 2
    assert machine.log == ["init", "init", "shutdown", "shutdown"] * 2


def test_order_of_use() -> None:
    context = GPUDiagContext()
    with pytest.raises(RuntimeError, match="ML430"):
        context.get_stats()
    with context as entered:
        assert entered is context
        with pytest.raises(RuntimeError, match="open already"):
            context.__enter__()
        assert isinstance(context.get_stats(), dict)
    with pytest.raises(DeviceError, match="not open"):
        context.get_stats()


def test_the_exception_of_the_block_goes_on() -> None:
    with pytest.raises(KeyError, match="mine"), GPUDiagContext():
        raise KeyError("mine")


def test_records_are_values() -> None:
    gpu = GPUStats(
        memory=MemoryStats(total_bytes=4, free_bytes=1, used_bytes=2, reserved_bytes=1),
        utilization=UtilizationStats(gpu_usage_percent=5, memory_activity_percent=None),
    )
    assert gpu == GPUStats(MemoryStats(4, 1, 2, 1), UtilizationStats(5, None))
    assert len({gpu, GPUStats(gpu.memory, gpu.utilization)}) == 1
    with pytest.raises(AttributeError):
        gpu.memory.used_bytes = 3  # type: ignore[misc]

"""GPUDiagContext over the package amdsmi and a library with AMD SMI's C interface."""

from __future__ import annotations

import pytest

from tests.diagnostics.conftest import Machine


def test_several_gpus_and_their_missing_counters(amd_machine: Machine) -> None:
    amd_machine.gpus(
        """
        amd 0 total=1000 used=300 gfx=40 umc=7
        amd 1 total=1000 used=0 gfx=99 umc=65535
        amd 2 total=1000 used=1001 gfx=65535 umc=3
        amd 3 total=!2 used=!2 gfx=1 umc=65535
        amd 4 total=1000 used=10 activity=!2
        amd 5 total=1000 used=!3 gfx=65535 umc=65535
        amd 6 total=1000 used=10 activity=!16
        """
    )
    stats, problems = amd_machine.read()
    assert stats == {
        "amd0": [1000, 700, 300, None, 40, 7],
        "amd1": [1000, 1000, 0, None, 99, None],
        "amd2": [1000, 0, 1001, None, 0, 3],
        "amd3": [0, 0, 0, None, 1, None],
        "amd4": [1000, 990, 10, None, 0, None],
    }
    assert problems.pop("amd6").startswith("cannot be read: Error code: 16")
    assert problems == {
        "amd2": "does not report utilization",
        "amd3": "does not report memory",
        "amd4": "does not report utilization",
        "amd5": "does not report memory, utilization",
    }
    assert amd_machine.log == ["amd init", "amd shutdown"]


@pytest.mark.parametrize("code", [34, 51])
def test_no_driver_means_no_gpus(code: int, amd_machine: Machine) -> None:
    amd_machine.gpus(f"amdinit {code}\namd 0 total=1000 used=300 gfx=40 umc=7")
    stats, problems = amd_machine.read()
    assert not any(gpu_id.startswith("amd") for gpu_id in (*stats, *problems))


def test_a_library_that_does_not_start_is_told_of(amd_machine: Machine) -> None:
    amd_machine.gpus("amdinit 10")
    _, problems = amd_machine.read()
    assert "AMD SMI does not start" in problems["amd"]
    assert "Permission Denied" in problems["amd"]


def test_contexts_share_one_start(amd_machine: Machine) -> None:
    amd_machine.gpus("amd 0 total=1000 used=300 gfx=40 umc=7")
    found = amd_machine.run(
        """
        with GPUDiagContext() as outer:
            with GPUDiagContext() as inner:
                same = inner.get_stats() == outer.get_stats()
            tell([same, sorted(outer.get_stats())])
        """
    )
    assert found[0] is True
    assert "amd0" in found[1]
    assert amd_machine.log == ["amd init", "amd shutdown"]


def test_the_recorder_reads_them_too(amd_machine: Machine) -> None:
    amd_machine.gpus("amd 0 total=1000 used=300+5 gfx=40 umc=7")
    found = amd_machine.run(
        """
        with BackgroundRecorder(period_s=0.02) as recorder:
            time.sleep(0.3)
        tell([sample["amd0"].memory.used_bytes for sample in recorder.stats])
        """
    )
    assert found == [300 + 5 * i for i in range(len(found))]
    assert len(found) > 1


def test_both_vendors_on_one_machine(amd_machine: Machine, nvml: object) -> None:
    amd_machine.gpus(
        """
        amd 0 total=1000 used=300 gfx=40 umc=7
        gpu 0 total=1000 free=600 used=300 reserved=100 util=40 memutil=7
        """
    )
    library = amd_machine.libraries / "libnvidia-ml.so.1"
    library.symlink_to(f"{nvml}/{library.name}")
    try:
        stats, problems = amd_machine.read()
    finally:
        library.unlink()
    assert list(stats) == ["nv0", "amd0"]
    assert problems == {}

"""Random programs on a GPU, and on several devices at once, against their interpretation;
``scripts/fuzz --device`` runs thousands.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from maxlab import driver
from maxlab.driver import Accelerator
from maxlab.ir import DeviceRef
from tests.cuda.conftest import ON_A_GPU
from tests.cuda.scattering import HOST, Placed, load_together

ON_ONE = range(60)
SCATTERED = range(1000, 1040)
CHECKED = range(200, 212)
"""Seeds of programs that the checking simulator runs."""


@pytest.fixture(scope="module")
def gpus(_device: None) -> list[Accelerator]:
    """The accelerators, two at most."""
    return [Accelerator(n) for n in range(min(driver.accelerator_count(), 2))]


@pytest.fixture(scope="module")
def programs(gpus: list[Accelerator]) -> Mapping[int, Placed]:
    """The programs by seed, their kernels compiled together."""
    gpu = DeviceRef.GPU(0)
    places = [HOST, *(DeviceRef.GPU(g.id) for g in gpus)]
    found = {seed: Placed(seed, [gpu]) for seed in ON_ONE}
    found |= {seed: Placed(seed, places) for seed in SCATTERED}
    load_together(gpus[0], (p.function for p in found.values()))
    return found


@pytest.mark.parametrize("seed", ON_ONE)
def test_on_a_gpu(seed: int, programs: Mapping[int, Placed], gpus: list[Accelerator]) -> None:
    assert programs[seed].compare(gpus, on_cpu=seed % 5 == 0) > 0


@pytest.mark.parametrize("seed", SCATTERED)
def test_scattered(seed: int, programs: Mapping[int, Placed], gpus: list[Accelerator]) -> None:
    assert programs[seed].compare(gpus, on_cpu=False) > 0


@pytest.mark.skipif(ON_A_GPU, reason="compute-sanitizer does this on a GPU")
def test_no_races_and_no_strays() -> None:
    """The checking simulator sees every access of these programs."""
    with driver.simulated(check=True):
        gpu = Accelerator()
        found = [Placed(seed, [DeviceRef.GPU(0)]) for seed in CHECKED]
        load_together(gpu, (p.function for p in found))
        for placed in found:
            placed.compare([gpu], on_cpu=False)

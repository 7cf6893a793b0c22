"""CUDA kernels on this machine's CPU, with the mistakes they make.

`SimModule` compiles the text that nvcc compiles for a GPU, and runs its kernels with a fiber for
each CUDA thread. With ``check=True`` every access to memory is seen, and a launch gives back
what is wrong with it as `Report` objects that name the lines of the text.
"""

from __future__ import annotations

from maxlab.driver.sim.module import SimModule
from maxlab.driver.sim.record import End, Recording, Region
from maxlab.driver.sim.reports import Report, Watch
from maxlab.driver.sim.signature import Kernel, Parameter

__all__ = [
    "End",
    "Kernel",
    "Parameter",
    "Recording",
    "Region",
    "Report",
    "SimModule",
    "Watch",
]

"""``%%cuda_sim``: CUDA kernels in a notebook without a GPU, with their mistakes on their lines.

``run``       a kernel on the simulator, as a `SimRun`: reports, threads, values, accesses
``magic``     the cell magic, which reads its arguments from the notebook's variables
``view``      a `SimRun` as HTML that needs no script and no kernel
``lockstep``  the threads of a block put side by side, as the warps of a device run
``memory``    what their accesses cost: sectors of global memory, conflicts of banks
"""

from __future__ import annotations

from maxlab.lab.cuda_sim.lockstep import LineCount, Request
from maxlab.lab.cuda_sim.magic import run_cell
from maxlab.lab.cuda_sim.memory import MemoryAccess
from maxlab.lab.cuda_sim.result import SimRun, ThreadState
from maxlab.lab.cuda_sim.run import run

__all__ = ["LineCount", "MemoryAccess", "Request", "SimRun", "ThreadState", "run", "run_cell"]

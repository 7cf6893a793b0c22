"""BackgroundRecorder in a real Jupyter kernel: cells, interrupt, restart."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from typing import Any

import psutil
import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

from tests.diagnostics.conftest import Machine

PATIENCE_S = 60.0


class Notebook:
    """A kernel on ``machine``."""

    def __init__(self, machine: Machine) -> None:
        self.manager = KernelManager(kernel_name="python3")
        self.manager.start_kernel(env=machine.environment, cwd=str(machine.folder))
        self.client: BlockingKernelClient = self.manager.blocking_client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=PATIENCE_S)

    def close(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)

    @property
    def pid(self) -> int:
        """The process of the kernel."""
        pid = self.manager.provisioner.pid  # type: ignore[union-attr]
        assert isinstance(pid, int)
        return pid

    def cell(self, code: str) -> str:
        """What the cell printed, and the name of the exception that it raised, if any."""
        said: list[str] = []

        def heard(message: dict[str, Any]) -> None:
            content = message["content"]
            said.append(content.get("text") or content.get("ename") or "")

        self.client.execute_interactive(code, timeout=PATIENCE_S, output_hook=heard)
        return "".join(said).strip()

    def recorder(self) -> psutil.Process:
        """The one recorder of this kernel."""
        (found,) = (
            child
            for child in psutil.Process(self.pid).children()
            if "maxlab-gpu-recorder" in child.cmdline()
        )
        return found


@pytest.fixture
def notebook(machine: Machine) -> Iterator[Notebook]:
    """A kernel on a machine with one GPU."""
    machine.gpus("gpu 0 total=1000 free=600 used=300+5 reserved=100 util=40 memutil=7")
    made = Notebook(machine)
    yield made
    made.close()


def is_gone(process: psutil.Process) -> bool:
    """Whether ``process`` ends."""
    deadline = time.monotonic() + PATIENCE_S
    while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def test_cells_interrupt_and_death_of_the_kernel(notebook: Notebook) -> None:
    said = notebook.cell(
        "import time\n"
        "from maxlab.diagnostics.gpu import BackgroundRecorder\n"
        "with BackgroundRecorder(period_s=0.02) as recorder:\n"
        "    print('inside the block')\n"
        "    time.sleep(0.2)\n"
        "print([s['nv0'].memory.used_bytes for s in recorder.stats][:2])"
    )
    assert said == "inside the block\n[300, 305]"

    # A block that spans cells, as with an ExitStack; the kernel is interrupted in between.
    notebook.cell("recorder.__enter__()")
    process = notebook.recorder()
    # Without stop_on_error=False the kernel would drop the cells that follow the interrupted one.
    interrupted = notebook.client.execute("while True: time.sleep(0.01)", stop_on_error=False)
    time.sleep(0.5)
    notebook.manager.interrupt_kernel()
    reply = notebook.client.get_shell_msg(timeout=PATIENCE_S)
    while reply["parent_header"].get("msg_id") != interrupted:
        reply = notebook.client.get_shell_msg(timeout=PATIENCE_S)
    assert reply["content"]["ename"] == "KeyboardInterrupt"
    assert process.is_running()
    said = notebook.cell("recorder.__exit__(None, None, None)\nprint(len(recorder.stats) > 1)")
    assert said.endswith("True")
    assert is_gone(process)

    notebook.cell("recorder.__enter__()")
    process = notebook.recorder()
    os.kill(notebook.pid, signal.SIGKILL)
    assert is_gone(process)

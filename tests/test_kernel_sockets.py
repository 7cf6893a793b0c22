"""Kernels that tests start talk through files, whichever package starts them."""

from __future__ import annotations

import stat
from pathlib import Path

import nbclient
import nbformat
from jupyter_client.manager import start_new_kernel


def test_a_kernel_is_reached_by_files() -> None:
    manager, client = start_new_kernel(kernel_name="python3")
    try:
        ports = client.get_connection_info(session=False)
        places = [Path(f"{ports['ip']}-{n}") for kind, n in ports.items() if kind.endswith("_port")]
        assert len(places) >= 5
        assert all(stat.S_ISSOCK(place.stat().st_mode) for place in places)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def test_a_kernel_of_a_notebook_too() -> None:
    cell = nbformat.v4.new_code_cell("6 * 7")  # type: ignore[no-untyped-call]
    book = nbformat.v4.new_notebook(cells=[cell])  # type: ignore[no-untyped-call]
    runner = nbclient.NotebookClient(book, timeout=60, kernel_name="python3")
    with runner.setup_kernel():
        assert runner.km is not None
        assert runner.km.transport == "ipc"
        done = runner.execute_cell(book.cells[0], 0)
    assert done.outputs[0].data["text/plain"] == "42"

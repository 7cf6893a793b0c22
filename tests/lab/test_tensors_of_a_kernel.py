"""Tensors in a kernel: read in a subshell, awaited, interrupted while they are compiled."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab.kernels import Kernel

BEGIN = """
import threading
import numpy as np
from maxlab.experimental import functional as F
from maxlab.experimental.tensor import Tensor, stats
x = Tensor.ones([64])
"""


class Subshell:
    """A subshell of a kernel: cells of it run beside those of the kernel's own shell."""

    def __init__(self, kernel: Kernel) -> None:
        self._client = kernel.client
        request = self._client.session.msg("create_subshell_request")
        self._client.control_channel.send(request)
        self.id = self._answer(self._client.get_control_msg, request)["content"]["subshell_id"]

    def ask(self, code: str, expression: str) -> dict[str, Any]:
        """Send ``code``, which runs in the subshell; the message."""
        content = {
            "code": code,
            "silent": False,
            "store_history": False,
            "user_expressions": {"value": expression},
            "allow_stdin": False,
            "stop_on_error": False,
        }
        message = self._client.session.msg("execute_request", content)
        message["header"]["subshell_id"] = self.id
        self._client.shell_channel.send(message)
        return dict(message)

    def answer(self, message: dict[str, Any]) -> str:
        """The text of the expression of ``message``, when its code has run."""
        content = self._answer(self._client.get_shell_msg, message)["content"]
        assert content["status"] == "ok", content
        value = content["user_expressions"]["value"]
        assert value["status"] == "ok", value
        return str(value["data"]["text/plain"])

    def run(self, code: str, expression: str) -> str:
        """The text of ``expression`` after ``code``."""
        return self.answer(self.ask(code, expression))

    def _answer(self, receive: Any, message: dict[str, Any]) -> dict[str, Any]:
        while True:
            found: dict[str, Any] = receive(timeout=60)
            if found["parent_header"].get("msg_id") == message["header"]["msg_id"]:
                return found


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[Kernel]:
    made = Kernel(tmp_path)
    made.run(BEGIN, "begin")
    assert made.errors == []
    yield made
    made.close()


def test_a_tensor_of_a_cell_is_read_in_a_subshell(kernel: Kernel) -> None:
    kernel.run("y = F.tanh(x) + 1", "a")
    subshell = Subshell(kernel)
    assert subshell.run("", "round(float(y[0].item()), 5)") == "1.76159"
    # What it records there, a cell reads.
    subshell.run("z = y * 2", "None")
    assert kernel.run("", "b", "f'{z[0].item():.5f}'") == "3.52319"


def test_a_subshell_reads_while_a_cell_runs(kernel: Kernel) -> None:
    """The cell waits for the subshell in the middle of an expression of tensors: whoever of them
    needs the other's lock for good would stay for ever."""
    subshell = Subshell(kernel)
    kernel.run("before, after = threading.Event(), threading.Event(); y = x + 1", "a")
    aside = subshell.ask("before.wait(60); a = float((y * 3).sum().item()); after.set()", "a")
    asked = asked_of(kernel, "y = y + 1; before.set(); after.wait(60); b = float(y.sum().item())")
    answers: dict[str, Any] = {}
    while not {asked, aside["header"]["msg_id"]} <= answers.keys():
        answer = kernel.client.get_shell_msg(timeout=60)
        answers[answer["parent_header"].get("msg_id", "")] = answer["content"]
    assert answers[asked]["status"] == "ok", answers[asked]
    found = answers[aside["header"]["msg_id"]]["user_expressions"]["value"]
    assert found["data"]["text/plain"] == "576.0"
    assert kernel.run("", "c", "str(b)") == "192.0"


@pytest.mark.parametrize("way", ["await y.realize", "await y"])
def test_a_tensor_is_awaited_in_a_cell_and_in_a_subshell(kernel: Kernel, way: str) -> None:
    kernel.run("y = F.exp(x * 0) * 4", "a")
    kernel.run(f"z = {way}", "b")
    assert kernel.errors == []
    assert kernel.run("", "c", "str(z[3].item())") == "4.0"
    assert Subshell(kernel).run(f"z = {way}", "z[5].item()") == "4.0"


def test_a_cell_that_is_interrupted_while_its_compiler_runs(tmp_path: Path) -> None:
    """The next cell has the values; nothing of the interrupted compilation is left."""
    marker = tmp_path / "compiling"
    # A compiler that tells when it compiles, and takes its time once.
    wrapper = tmp_path / "slow-gcc"
    wrapper.write_text(
        "#!/bin/sh\n"
        'case "$*" in *.so*|*" -c "*)\n'
        f'  [ -e "{marker}" ] || {{ touch "{marker}"; sleep 20; }};;\n'
        "esac\n"
        'exec gcc "$@"\n'
    )
    wrapper.chmod(0o755)
    kernel = Kernel(tmp_path)
    try:
        kernel.run(
            "import os\n"
            f"os.environ['MAXLAB_CC'] = {str(wrapper)!r}\n"
            f"os.environ['MAXLAB_CACHE_DIR'] = {str(tmp_path / 'cache')!r}",
            "a",
        )
        kernel.run(BEGIN, "b")
        kernel.run("y = F.sin(F.exp(x) - F.tanh(x * 3))", "c")
        asked = asked_of(kernel, "print(y)")
        until = time.monotonic() + 60
        while not marker.exists():
            assert time.monotonic() < until
            time.sleep(0.05)
        kernel.manager.interrupt_kernel()
        answer = kernel.client.get_shell_msg(timeout=60)
        while answer["parent_header"].get("msg_id") != asked:
            answer = kernel.client.get_shell_msg(timeout=60)
        assert answer["content"].get("ename") == "KeyboardInterrupt"
        assert (
            kernel.run("", "d", "f'{y[0].item():.4f}'") == f"{math.sin(math.e - math.tanh(3)):.4f}"
        )
        assert int(kernel.run("", "e", "str(stats().runs)")) >= 1
    finally:
        kernel.close()


def asked_of(kernel: Kernel, code: str) -> str:
    """The id of the message that asks ``kernel`` to run ``code``; it is not waited for."""
    content = {
        "code": code,
        "silent": False,
        "store_history": True,
        "user_expressions": {},
        "allow_stdin": False,
        "stop_on_error": False,
    }
    message = kernel.client.session.msg("execute_request", content, metadata={"cellId": "asked"})
    kernel.client.shell_channel.send(message)
    return str(message["header"]["msg_id"])

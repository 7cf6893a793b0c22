"""A kernel of its own, which is told the ids of cells as JupyterLab tells them."""

from __future__ import annotations

import ast
import time
from pathlib import Path
from typing import Any

from jupyter_client.manager import start_new_kernel


class Kernel:
    """A kernel, told the ids of cells as JupyterLab tells them."""

    def __init__(self, folder: Path) -> None:
        self.manager, self.client = start_new_kernel(kernel_name="python3", cwd=str(folder))
        self.errors: list[str] = []
        self.comms: dict[str, list[dict[str, Any]]] = {}

    def send(self, kind: str, content: dict[str, Any], cell: str = "") -> dict[str, Any]:
        """Send a message, and return when the kernel has done with it: what it answered."""
        session, client = self.client.session, self.client
        message = session.msg(kind, content, metadata={"cellId": cell} if cell else {})
        client.shell_channel.send(message)
        answer: dict[str, Any] = {}
        while True:
            found = client.get_iopub_msg(timeout=60)
            self._comm(found)
            if found["parent_header"].get("msg_id") != message["header"]["msg_id"]:
                continue
            if found["msg_type"] == "error":
                self.errors.append(found["content"]["ename"])
            if found["msg_type"] == "status" and found["content"]["execution_state"] == "idle":
                break
        if kind == "execute_request":
            while answer.get("parent_header", {}).get("msg_id") != message["header"]["msg_id"]:
                answer = client.get_shell_msg(timeout=60)
        return answer

    def _comm(self, message: dict[str, Any]) -> None:
        if message["msg_type"] in ("comm_msg", "comm_close"):
            content = message["content"]
            self.comms.setdefault(content["comm_id"], []).append(content["data"])

    def run(self, code: str, cell: str = "", expression: str = "") -> str:
        """Run ``code`` as the cell with this id; the text of ``expression`` afterwards."""
        wanted = {"value": expression} if expression else {}
        content = {
            "code": code,
            "silent": not cell,
            "store_history": bool(cell),
            "user_expressions": wanted,
            "allow_stdin": False,
            "stop_on_error": False,
        }
        reply = self.send("execute_request", content, cell)
        if not expression:
            return ""
        value = reply["content"]["user_expressions"]["value"]
        assert value["status"] == "ok", value
        return str(ast.literal_eval(value["data"]["text/plain"]))

    def wait(self, comm: str, count: int) -> list[dict[str, Any]]:
        """The messages of a comm, when there are ``count``."""
        until = time.monotonic() + 60
        while len(self.comms.get(comm, [])) < count:
            assert time.monotonic() < until, self.comms
            self._comm(self.client.get_iopub_msg(timeout=60))
        return self.comms[comm]

    def close(self) -> None:
        """End the kernel."""
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


__all__ = ["Kernel"]

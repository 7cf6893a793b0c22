"""How a server for the tests finds a port."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.browser import server


def test_another_port_is_taken_when_one_is_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken, free = other.getsockname()[1], server.free_port()
        ports = [free, taken]
        monkeypatch.setattr(server, "free_port", ports.pop)
        lab = server.start_lab(tmp_path, tmp_path / "home")
        try:
            assert lab.url.endswith(f":{free}")
            assert not ports
        finally:
            lab.stop()

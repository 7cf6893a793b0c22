"""A page that is not there: comms that keep what is sent."""

from __future__ import annotations

import zlib
from typing import Any

import comm
import pytest
from comm.base_comm import BaseComm

from maxlab.lab.protocol import PROTOCOL


class FakeComm(BaseComm):
    """A comm that keeps what is sent, and can say what a page would."""

    made: list[FakeComm] = []  # noqa: RUF012 - the fixture gives each test a new list

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.sent: list[tuple[str, dict[str, Any], list[bytes]]] = []
        if "_esm" in (kwargs.get("data") or {}).get("state", {}):  # a view, not its layout
            self.made.append(self)
        super().__init__(*args, **kwargs)

    def publish_msg(
        self, msg_type: str, data: Any = None, metadata: Any = None, buffers: Any = None, **_: Any
    ) -> None:
        """Keep the message."""
        self.sent.append((msg_type, data or {}, [bytes(b) for b in buffers or []]))

    # ------------------------------------------------------------ what a page does
    def say(self, content: dict[str, Any]) -> None:
        """Send a message to the widget, in the version of the protocol that it speaks."""
        version = {} if content.get("type") == "need_bundle" else {"protocol": PROTOCOL}
        self.tell({**version, **content})

    def tell(self, content: Any) -> None:
        """Send a message to the widget just as it is."""
        data = {"method": "custom", "content": content}
        self.handle_msg({"content": {"data": data}, "buffers": []})

    def custom(self) -> list[tuple[dict[str, Any], list[bytes]]]:
        """The custom messages that were sent, and forget them."""
        found = [(d["content"], b) for _, d, b in self.sent if d.get("method") == "custom"]
        self.sent = []
        return found

    def document(self) -> str:
        """The JSON of the newest document that was sent."""
        parts: list[bytes] = []
        for content, buffers in self.custom():
            if content["type"] == "document":
                parts = [*parts, *buffers] if content["index"] else buffers
                if content["index"] == content["count"] - 1:
                    whole = zlib.decompress(b"".join(parts)).decode()
        return whole


@pytest.fixture
def comms(monkeypatch: pytest.MonkeyPatch) -> list[FakeComm]:
    """The comms that the test's widgets open."""
    made: list[FakeComm] = []
    monkeypatch.setattr(FakeComm, "made", made)
    monkeypatch.setattr(comm, "create_comm", FakeComm)
    return made


@pytest.fixture
def kernel(comms: list[FakeComm], monkeypatch: pytest.MonkeyPatch) -> list[FakeComm]:
    """The comms of a process that takes itself for a notebook's kernel."""
    from maxlab.lab import mime

    monkeypatch.setattr(mime, "has_kernel", lambda: True)
    return comms

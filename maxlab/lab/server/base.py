"""The common part of all handlers of the Jupyter server."""

from __future__ import annotations

import asyncio
import json
import math
import struct
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from jupyter_server.base.handlers import APIHandler
from jupyter_server.utils import url_path_join
from tornado import web

from maxlab.errors import MaxlabError
from maxlab.lab.protocol.files import Refusal

T = TypeVar("T")


class Handler(APIHandler):
    """Does its work beside the server's loop, and answers with JSON, or with JSON and a buffer."""

    async def away(self, work: Callable[[], T]) -> T:
        """The result of ``work``, done beside the server's loop: files and processes take time."""
        return await asyncio.get_running_loop().run_in_executor(None, work)

    def number(self, name: str) -> float:
        """The argument ``name`` of the request.

        Raises:
            HTTPError: 400, it is not a number.
        """
        text = self.get_query_argument(name)
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise web.HTTPError(400, f"{name} must be a number, got {text!r:.100}")
        return number

    def finish_json(self, body: Mapping[str, Any]) -> None:
        """Answer with ``body``, which is of the moment and not to be kept."""
        self.set_header("Content-Type", "application/json")
        self.set_header("Cache-Control", "no-store")
        self.finish(json.dumps(body, allow_nan=False))

    def refuse(self, error: MaxlabError, status: int) -> None:
        """Answer with the reason of ``error`` and the HTTP status ``status``."""
        refusal: Refusal = {"message": error.what, "code": error.code, "fix": error.fix or ""}
        self.set_status(status)
        self.finish_json(refusal)

    def finish_frame(self, frame: tuple[Mapping[str, Any], bytes]) -> None:
        """Answer with 4 bytes that tell the length of the JSON part, that part, and the buffer."""
        body, raw = frame
        text = json.dumps(body, allow_nan=False).encode()
        # A buffer of numbers begins at a multiple of 8.
        text += b" " * (-(len(text) + 4) % 8)
        self.set_header("Content-Type", "application/octet-stream")
        self.set_header("Cache-Control", "no-store")
        self.finish(struct.pack(">I", len(text)) + text + raw)


def add_handlers(
    server: Any, folder: str, handlers: Mapping[str, type[Handler]], **given: Any
) -> None:
    """Adds ``handlers`` to ``server`` below ``maxlab/folder``.

    Args:
        server: A ``jupyter_server.serverapp.ServerApp``.
        folder: The part of the path that the handlers share.
        handlers: By the last part of the path.
        **given: Arguments that each handler is initialised with.
    """
    base = server.web_app.settings["base_url"]
    server.web_app.add_handlers(
        ".*$",
        [
            (url_path_join(base, "maxlab", folder, name), handler, given)
            for name, handler in handlers.items()
        ],
    )

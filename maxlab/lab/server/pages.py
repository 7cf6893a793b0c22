"""The handler of the Jupyter server for the script of exported pages."""

from __future__ import annotations

from functools import partial

from jupyter_server.auth.decorator import authorized
from tornado import web

from maxlab.errors import MaxlabError
from maxlab.lab.server.base import Handler, add_handlers


class ScriptHandler(Handler):
    """``GET script``"""

    # Who may read a graph may make a page of it.
    auth_resource = "contents"

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """The script that draws the graph of a page, the same as that of ``to_html()``."""
        from maxlab.lab import bundle

        try:
            script = await self.away(partial(bundle.read, "export.js"))
        except MaxlabError as error:
            self.refuse(error, 404)
            return
        self.set_header("Content-Type", "text/javascript; charset=utf-8")
        self.set_header("Cache-Control", "no-store")
        self.finish(script)


def add_pages(server: object) -> None:
    """Add the handler to ``server``, a ``jupyter_server.serverapp.ServerApp``."""
    add_handlers(server, "pages", {"script": ScriptHandler})

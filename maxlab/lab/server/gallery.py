"""Handlers of the Jupyter server for the gallery of templates and lessons."""

from __future__ import annotations

from typing import Any

from jupyter_server.auth.decorator import authorized
from jupyter_server.utils import url_path_join
from tornado import web

from maxlab.errors import MaxlabError
from maxlab.lab.protocol.editor import TemplateText
from maxlab.lab.protocol.files import Refusal
from maxlab.lab.server.base import Handler


class _GalleryHandler(Handler):
    # Who may make a file may make one of these.
    auth_resource = "contents"


class ListHandler(_GalleryHandler):
    """``GET list``"""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Answers with the list of the gallery."""
        from maxlab.lab import templates  # what graphs are takes time to import

        self.finish_json(await self.away(templates.listing))


class TextHandler(_GalleryHandler):
    """``GET text?template=…``"""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """The text of one document."""
        from maxlab.lab import templates

        name = self.get_query_argument("template")
        try:
            found: TemplateText = {"text": await self.away(lambda: templates.text(name))}
            self.finish_json(found)
        except MaxlabError as error:
            refusal: Refusal = {
                "message": error.what,
                "code": error.code,
                "fix": error.fix or "",
            }
            self.set_status(404)
            self.finish_json(refusal)


HANDLERS: dict[str, type[_GalleryHandler]] = {"list": ListHandler, "text": TextHandler}


def add_gallery(server: Any) -> None:
    """Add the handlers to ``server``, a ``jupyter_server.serverapp.ServerApp``."""
    base = server.web_app.settings["base_url"]
    server.web_app.add_handlers(
        ".*$",
        [
            (url_path_join(base, "maxlab", "templates", name), handler)
            for name, handler in HANDLERS.items()
        ],
    )

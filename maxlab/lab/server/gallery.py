"""Handlers of the Jupyter server for the gallery of templates and lessons."""

from __future__ import annotations

from typing import Any

from jupyter_server.auth.decorator import authorized
from tornado import web

from maxlab.errors import MaxlabError
from maxlab.lab.protocol.editor import TemplateText
from maxlab.lab.server.base import Handler, add_handlers


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
            self.refuse(error, 404)


HANDLERS: dict[str, type[_GalleryHandler]] = {"list": ListHandler, "text": TextHandler}


def add_gallery(server: Any) -> None:
    """Add the handlers to ``server``, a ``jupyter_server.serverapp.ServerApp``."""
    add_handlers(server, "templates", HANDLERS)

"""Handlers of the Jupyter server for what differs between two documents, without a kernel."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

from jupyter_server.auth.decorator import authorized
from tornado import web

from maxlab.errors import MaxlabError
from maxlab.lab.protocol import reader
from maxlab.lab.protocol.files import Compared, CompareQuestion
from maxlab.lab.server.base import Handler, add_handlers
from maxlab.lab.server.places import place_in

GONE = frozenset({"ML002", "ML890", "ML855"})


def compared(contents: Any, asked: CompareQuestion) -> Compared:
    """The differences between two documents.

    Args:
        contents: The server's manager of contents.
        asked: The two: files, a file as it was in a commit, or the text that a page has of one.

    Raises:
        MaxlabError: One of them is not there, or is no graph.
    """
    from maxlab.analysis.opening import open_file
    from maxlab.analysis.revisions import text_at
    from maxlab.graph import Graph
    from maxlab.graph.reading import graph_of
    from maxlab.lab.beside import diff_graphs
    from maxlab.lab.snapshot import Snapshot

    graphs: list[Graph] = []
    names: list[str] = []
    for side in (asked["before"], asked["after"]):
        place, path = place_in(contents, side["path"]), side["path"]
        text, revision = side.get("text"), side.get("revision", "")
        if text is not None:
            graphs.append(graph_of(text, path))
            names.append(f"{path} (as edited)")
        elif revision:
            folder, name = os.path.split(place)
            graphs.append(graph_of(text_at(revision, name, folder), f"{revision}:{path}"))
            names.append(f"{path} ({revision})")
        else:
            opened = open_file(place)
            graphs.append(opened if isinstance(opened, Graph) else graph_of("", path))
            names.append(path)
    if names[0] == names[1]:
        names = [f"{names[0]} (before)", f"{names[1]} (after)"]
    found = diff_graphs(graphs[0], graphs[1], names)
    document: Any = found.document
    return {"count": len(found.differences), "document": Snapshot(document).packed}


class CompareHandler(Handler):
    """``POST compare`` with a `CompareQuestion`. It changes nothing."""

    # Who may read a file in the file browser may look into it.
    auth_resource = "contents"

    @web.authenticated
    @authorized
    async def post(self) -> None:
        """Answers with the differences between two documents."""
        try:
            asked = reader.compare_question(self.get_json_body())
        except reader.MismatchError as error:
            raise web.HTTPError(400, f"this is no comparison: {error}") from error
        try:
            self.finish_json(await self.away(partial(compared, self.contents_manager, asked)))
        except MaxlabError as error:
            self.refuse(error, 404 if error.code in GONE else 400)


def add_comparing(server: Any) -> None:
    """Add the handler to ``server``, a ``jupyter_server.serverapp.ServerApp``."""
    add_handlers(server, "graphs", {"compare": CompareHandler})

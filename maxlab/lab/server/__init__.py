"""The part of maxlab that runs in the Jupyter server: what needs no kernel. The session's monitor:

``/maxlab/monitor/frame``      GET   what a page does not have yet (``dashboard.store``)
``/maxlab/monitor/detail``     GET   all samples of a stretch of time
``/maxlab/monitor/recording``  GET   the recording as a file
``/maxlab/monitor/now``        GET   how busy the machine is, for the status bar
``/maxlab/monitor/start``      POST  start, or change the period
``/maxlab/monitor/stop``       POST  stop

and the files below the server's folder, each named by ``path``:

``/maxlab/files/state``        GET   whether it is still what it was
``/maxlab/files/header``       GET   the tensors and the metadata of a weight file
``/maxlab/files/slice``        GET   numbers of a tensor along two axes
``/maxlab/files/facts``        GET   statistics and a histogram of a tensor
``/maxlab/files/bytes``        GET   bytes of the file, all or those of the header ``Range``
``/maxlab/files/graph``        GET   the graph of a saved run with its times, or of a kept model
``/maxlab/files/model``        GET   what a kept model says of itself
``/maxlab/files/frame``        GET   what a page does not have yet of a recording
``/maxlab/files/detail``       GET   all samples of a stretch of time of a recording

and the gallery:

``/maxlab/templates/list``     GET   the templates and lessons that are shipped with maxlab
``/maxlab/templates/text``     GET   the text of one of them

and documents:

``/maxlab/graphs/compare``     POST  what differs between two of them, or one and its past in Git
``/maxlab/pages/script``       GET   the script of a page that a graph is exported to

Every request has to be that of a logged-in user who may use kernels (the monitor) or read contents
(files), and a POST has to carry the
token against forged requests: all that is Jupyter's own doing. The extension is enabled by the file
``jupyter_server_config.d/maxlab.json`` that the wheel installs. It starts nothing by itself.
"""

from __future__ import annotations

from typing import Any


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    """The list by which Jupyter finds the extension."""
    return [{"module": "maxlab.lab.server"}]


def _load_jupyter_server_extension(server: Any) -> None:
    """Add the handlers to the running ``server``."""
    from maxlab.lab.server.handlers import add_to

    add_to(server)

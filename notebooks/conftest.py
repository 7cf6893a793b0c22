"""How notebooks are run as tests: by kernels without ports; and what strict nbval does not compare:
pictures and documents, which carry times, and which the browser tests look at.
"""

from __future__ import annotations

from typing import Any

from tests import kernel_sockets

DRAWN = ("image/svg+xml", "text/html", "application/vnd.maxlab.graph+json")

kernel_sockets.use_files()


def pytest_collectstart(collector: Any) -> None:
    """Add the MIME types of drawn graphs to those that nbval leaves out."""
    if collector.__class__.__name__ == "IPyNbFile":
        collector.skip_compare += DRAWN

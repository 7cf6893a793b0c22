"""What strict nbval does not compare: pictures and documents, which carry times, and which the
browser tests look at.
"""

from __future__ import annotations

from typing import Any

DRAWN = ("image/svg+xml", "text/html", "application/vnd.maxlab.graph+json")


def pytest_collectstart(collector: Any) -> None:
    """Add the MIME types of drawn graphs to those that nbval leaves out."""
    if collector.__class__.__name__ == "IPyNbFile":
        collector.skip_compare += DRAWN

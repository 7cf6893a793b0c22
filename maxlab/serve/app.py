"""The ASGI application of a model."""

from __future__ import annotations

from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response

from maxlab import trace
from maxlab.pipelines.lib.scheduler.records import KIND
from maxlab.serve.errors import ApiError
from maxlab.serve.guards import Guard
from maxlab.serve.limits import Limits
from maxlab.serve.metrics import Metrics
from maxlab.serve.routes import Engine, Routes


class Steps:
    """The last step of the scheduler, for metrics.

    Attributes:
        last: The data of its record; empty before the first.
    """

    def __init__(self) -> None:
        self.last: dict[str, Any] = {}
        trace.recorder().listen(self)

    def __call__(self, event: trace.Event) -> None:
        """Takes an event of this process.

        Args:
            event: The event.
        """
        if event.kind == KIND:
            self.last = event.data

    def close(self) -> None:
        """Takes no more events."""
        trace.recorder().unlisten(self)

    def number(self, name: str) -> float:
        """A number of the last step, or the length of a list; 0 before the first.

        Args:
            name: The field of the record.
        """
        found = self.last.get(name, 0)
        return float(len(found) if isinstance(found, (list, tuple)) else found)


def app(
    engine: Engine,
    limits: Limits | None = None,
    *,
    token: str | None = None,
    metrics: Metrics | None = None,
) -> Starlette:
    """The application that answers requests to a model. Its owner closes the engine.

    Args:
        engine: The model.
        limits: How much is taken.
        token: The token that requests have to bring. Without one, requests have to name this
            machine as their host.
        metrics: What is counted.
    """
    limits = limits or Limits()
    metrics = metrics or Metrics()
    steps = Steps()
    metrics.watch("maxlab_answers_open", "Answers that are written or wait.", lambda: engine.count)
    for name, told in (
        ("waiting", "Requests whose prompt is not computed."),
        ("active", "Requests that wait for their next token."),
        ("pages", "Pages of the cache of keys and values."),
        ("free_pages", "Pages that no request has."),
    ):
        metrics.watch(f"maxlab_scheduler_{name}", told, _reader(steps, name))
    table = Routes(engine, limits, metrics).table()
    made = Starlette(
        routes=table,
        middleware=[
            Middleware(Guard, metrics=metrics, token=token, paths=[route.path for route in table])
        ],
        exception_handlers={HTTPException: _not_there},
    )
    made.router.redirect_slashes = False
    made.state.steps = steps
    return made


def _reader(steps: Steps, name: str) -> Any:
    return lambda: steps.number(name)


async def _not_there(request: Request, error: Exception) -> Response:
    """Raises the error of a path that there is not, or that takes another method."""
    path, method = request.url.path, request.method
    if isinstance(error, HTTPException) and error.status_code == 405:
        raise ApiError(
            405,
            f"{path} does not take {method}",
            code="method_not_allowed",
            headers=error.headers or {},
        )
    raise ApiError(404, f"there is no {method} {path}", code="unknown_url")


__all__ = ["Steps", "app"]

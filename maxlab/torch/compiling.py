"""The backend of ``torch.compile(model, backend="maxlab")``.

torch finds it by the entry point ``torch_dynamo_backends`` of an installed maxlab. Where maxlab is
on the path without being installed, importing ``maxlab.torch`` registers it.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import entry_points
from typing import Any

import torch
from torch.fx import GraphModule

from maxlab import trace
from maxlab.errors import ArgumentError, shown
from maxlab.torch.compiled import CompiledGraph
from maxlab.torch.naming import name_of_graph
from maxlab.torch.tracing import traced

NAME = "maxlab"
GROUP = "torch_dynamo_backends"
OPTIONS = ("num_threads", "pack")


def backend(
    module: GraphModule, inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None
) -> Callable[..., Any]:
    """A function that runs ``module`` with maxlab; ``torch.compile`` calls it for each graph that
    it makes.

    Results are those of torch in every case: operations that maxlab does not have, graphs that it
    cannot have, and calls that need gradients are run by torch.

    Args:
        module: The graph.
        inputs: Examples of its inputs.
        options: ``{"num_threads": n}``: threads of the models. ``{"pack": False}``: weights are
            read by every run as any other input, instead of being packed for products once. That
            is slower, and sees every change of them, also of single numbers by ``tensor.data`` or
            by NumPy, which torch does not count.

    Raises:
        ArgumentError: ML888, an option that is not known.

    Example:
        >>> import torch
        >>> import maxlab.torch
        >>> layer = torch.nn.Linear(4, 2)
        >>> compiled = torch.compile(layer, backend=maxlab.torch.backend)
        >>> with torch.no_grad():
        ...     made = compiled(torch.ones(3, 4))
        >>> torch.allclose(made, layer(torch.ones(3, 4)), atol=1e-6)
        True
    """
    settings = _checked(options)
    if torch.is_grad_enabled() and any(
        isinstance(x, torch.Tensor) and x.requires_grad for x in inputs
    ):
        _warn_of_gradients()
        in_torch: Callable[..., Any] = module.forward
        return in_torch
    name = name_of_graph(module)

    def compiler(graph: GraphModule, weights: Mapping[int, str]) -> Any:
        with trace.span("import", name):
            return CompiledGraph(graph, weights, name, **settings)

    return traced(module, inputs, compiler)


def register() -> None:
    """Makes ``"maxlab"`` a name that ``torch.compile`` knows, where no entry point does.

    It does nothing unless torch is imported already.
    """
    if "torch" not in sys.modules or NAME in entry_points(group=GROUP).names:
        return
    import torch._dynamo

    if NAME not in torch._dynamo.list_backends(exclude_tags=()):
        torch._dynamo.register_backend(backend, name=NAME)


def _checked(options: Mapping[str, Any] | None) -> dict[str, Any]:
    found = dict(options or {})
    for key in found:
        if key not in OPTIONS:
            raise ArgumentError(
                "ML888",
                f"the backend maxlab has no option {shown(key)}",
                fix=f"options are {', '.join(OPTIONS)}: torch.compile(model, backend='maxlab', "
                "options={'num_threads': 2})",
            )
    return found


# ---------------------------------------------------------------- warnings
_warned: set[tuple[str, int]] = set()
"""The lines whose calls were warned about gradients."""


def _warn_of_gradients() -> None:
    """Warns once for each line of the user that calls a model while gradients are needed."""
    frame: Any = sys._getframe(1)
    while frame is not None and _is_ours(frame.f_code.co_filename):
        frame = frame.f_back
    file, line = ("", 0) if frame is None else (frame.f_code.co_filename, frame.f_lineno)
    if (file, line) in _warned:
        return
    _warned.add((file, line))
    text = (
        "torch runs this call: it records gradients, which maxlab does not compute. "
        "For inference, call the model inside of `with torch.no_grad():`"
    )
    warnings.warn_explicit(text, UserWarning, file, line, registry={})


_OWN = tuple(
    sys.modules[name].__file__.rpartition("/")[0] + "/"  # type: ignore[union-attr]
    for name in ("torch", "maxlab")
)


def _is_ours(file: str) -> bool:
    return file.startswith(_OWN) or file.startswith("<")


__all__ = ["backend", "register"]

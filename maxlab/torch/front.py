"""``maxlab.profile``: what a graph, a model or a module of torch costs, in one call.

Importing this module imports no torch.
"""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from maxlab.driver import Tensor
from maxlab.engine import InferenceSession, Model
from maxlab.engine.profile import Profile
from maxlab.errors import ArgumentTypeError, UnsupportedError
from maxlab.graph import Graph
from maxlab.habits import fitting
from maxlab.nn import Module

if TYPE_CHECKING:
    from maxlab.torch.model import TorchModel


@fitting("ML975", "maxlab.profile(model, array)")
def profile(
    target: Any,
    *inputs: Any,
    runs: int = 20,
    warmup: int = 3,
    dynamic_batch: bool = False,
    dynamic_shapes: Any = None,
    weights_registry: Any = None,
    num_threads: int | None = None,
    **named: Any,
) -> Profile:
    """The ``Profile`` of ``target`` on ``inputs``; show it to see the graph with its times.

    A module of torch is exported, and what maxlab has operations for becomes its kernels; torch
    runs the rest, as steps of the same plan. Its profile also says what the module takes in torch,
    and how far the outputs are from torch's.

    Args:
        target: A ``torch.nn.Module``, a ``Graph``, or a model.
        *inputs: What it is called with: tensors, and for a module whatever it takes.
        runs: Timed executions.
        warmup: Executions before them that are not counted.
        dynamic_batch: Of a module: whether the first dim of its inputs may vary. The graph then
            has a dim ``batch``.
        dynamic_shapes: Of a module: as ``torch.export.export`` takes them.
        weights_registry: Of a graph: as ``InferenceSession.load`` takes it.
        num_threads: Of a module or graph: threads of the model.
        **named: What it is called with by name.

    Raises:
        ArgumentTypeError: ML684, ``target`` is something else, or an option is not for it.
        UnsupportedError: ML680, ML681 or ML686, the module cannot be imported; ML683, torch cannot
            be imported.

    Example:
        >>> import maxlab
        >>> import numpy as np
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType
        >>> with Graph("double", input_types=[TensorType(DType.float32, ["n"])]) as graph:
        ...     graph.output(graph.inputs[0].tensor * 2)
        >>> maxlab.profile(graph, np.ones(1000, np.float32), runs=5)
        Profile('double', 1 kernel, 5 runs)
    """
    if isinstance(target, Model):
        _only_for(
            "a graph or a module of torch", "a model",
            weights_registry=weights_registry, num_threads=num_threads,
        )  # fmt: skip
        _only_for_torch("a model", dynamic_batch, dynamic_shapes)
        args = target.bind_arguments(inputs, named) if named else inputs
        return _typed(target.profile(*args, runs=runs, warmup=warmup))
    if isinstance(target, Graph):
        _only_for_torch("a graph", dynamic_batch, dynamic_shapes)
        session = InferenceSession(num_threads=num_threads)
        model = session.load(target, weights_registry=weights_registry or {})
        args = model.bind_arguments(inputs, named) if named else inputs
        return _typed(model.profile(*args, runs=runs, warmup=warmup))
    torch = sys.modules.get("torch")  # whoever has a module has imported it
    if torch is not None:
        from maxlab.torch.model import TorchModel

        if isinstance(target, TorchModel):
            return target.profile(*inputs, runs=runs, warmup=warmup, **named)
        if isinstance(target, torch.nn.Module):
            _only_for("a graph", "a module of torch", weights_registry=weights_registry)
            made = load(
                target,
                *inputs,
                dynamic_batch=dynamic_batch,
                dynamic_shapes=dynamic_shapes,
                num_threads=num_threads,
                **named,
            )
            return made.profile(*inputs, runs=runs, warmup=warmup, **named)
    raise ArgumentTypeError(
        "ML684",
        f"profile takes a torch.nn.Module, a Graph or a Model, got {type(target).__name__}",
        fix="pass the module or graph itself, then its inputs: maxlab.profile(module, x)",
    )


def load(
    module: Any,
    *inputs: Any,
    dynamic_batch: bool = False,
    dynamic_shapes: Any = None,
    num_threads: int | None = None,
    **named: Any,
) -> TorchModel:
    """The ``TorchModel`` of a module of torch: its graph, compiled, to be called like the module.

    Args:
        module: A ``torch.nn.Module`` on the CPU, usually after ``module.eval()``.
        *inputs: An example of what it is called with.
        dynamic_batch: Whether the first dim of the inputs may vary.
        dynamic_shapes: As ``torch.export.export`` takes them.
        num_threads: Threads of the model.
        **named: An example of what it is called with by name.

    Raises:
        UnsupportedError: ML680, it cannot be exported; ML681, an input or output that no graph can
            have; ML683, torch cannot be imported; ML686, it writes to its buffers or inputs.
        DeviceError: ML682, something of it is not on the CPU.
        ArgumentTypeError: ML684, ``module`` is none, or it takes inputs and no example is given.
    """
    try:
        import torch
    except ImportError as error:
        raise UnsupportedError(
            "ML683",
            f"modules of torch are imported with torch, which cannot be: {error}",
            fix="pip install torch",
        ) from error
    from maxlab.torch.model import TorchModel

    if not isinstance(module, torch.nn.Module):
        raise ArgumentTypeError(
            "ML684",
            f"load takes a torch.nn.Module, got {type(module).__name__}",
            fix=_module_of(module),
        )
    if not inputs and not named:
        _require_no_inputs(module)
    return TorchModel(
        module,
        tuple(map(_as_torch, inputs)),
        {name: _as_torch(x) for name, x in named.items()},
        dynamic_batch=dynamic_batch,
        dynamic_shapes=dynamic_shapes,
        num_threads=num_threads,
    )


def _as_torch(x: Any) -> Any:
    """``x``, an array of NumPy or a ``driver.Tensor`` as a tensor of torch."""
    import torch

    if isinstance(x, np.ndarray):
        return torch.from_numpy(np.ascontiguousarray(x))
    return torch.from_dlpack(x) if isinstance(x, Tensor) else x


def _module_of(x: Any) -> str:
    """How a ``torch.nn.Module`` is made of ``x``, which is none."""
    if isinstance(x, (str, Path)):
        return "read the module first: torch.load(path, weights_only=False)"
    if isinstance(x, Module):
        return "a layer of maxlab.nn is traced: maxlab.Graph(name, layer, [type of its input])"
    if isinstance(x, type):
        return f"make one: {x.__name__}(...)"
    if isinstance(x, dict):
        return "these are weights: module.load_state_dict(weights), then load the module"
    return "wrap a function into a module with a forward method"


def _require_no_inputs(module: Any) -> None:
    """Raises unless ``module`` can be called without arguments."""
    try:
        parameters = inspect.signature(module.forward).parameters.values()
    except (TypeError, ValueError):
        return  # written in C, say: the call will tell
    open_ended = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = [p.name for p in parameters if p.default is p.empty and p.kind not in open_ended]
    if needed:
        raise ArgumentTypeError(
            "ML684",
            f"{type(module).__name__} takes {', '.join(needed)}, and no example of it is given",
            fix="pass what the module is called with: maxlab.torch.load(module, x)",
        )


def _only_for(of: str, target: str, **options: Any) -> None:
    for name, value in options.items():
        if value is not None:
            raise ArgumentTypeError(
                "ML684", f"profile: {name} is for {of}, not for {target}", fix="leave it out"
            )


def _only_for_torch(target: str, dynamic_batch: bool, dynamic_shapes: Any) -> None:
    _only_for(
        "a module of torch", target,
        dynamic_batch=dynamic_batch or None, dynamic_shapes=dynamic_shapes,
    )  # fmt: skip


def _typed(made: Any) -> Profile:
    assert isinstance(made, Profile)
    return made

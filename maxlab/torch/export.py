"""``torch.export`` with maxlab's errors: they say where, why, and what to do about it."""

from __future__ import annotations

import inspect
import io
import logging
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from typing import Any

import torch
from torch.export import Dim as TorchDim
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from maxlab.errors import DeviceError, UnsupportedError
from maxlab.torch import importer
from maxlab.torch.aten import TABLE
from maxlab.torch.places import location_in, whole_stacks
from maxlab.torch.types import dim_of

_ = importer  # fills the table


@dataclass(frozen=True, slots=True)
class Exported:
    """A module as a program of ATen operations.

    Attributes:
        program: The program, functional and decomposed into what maxlab has operations for, or else
            into core ATen.
        names: The names of its symbolic sizes.
        ranges: The sizes for which it is right: input, axis, name, smallest and largest size.
    """

    program: ExportedProgram
    names: dict[str, str]
    ranges: list[tuple[int, int, str, int, int]]


def check_devices(module: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Raises unless all of the module and of its inputs is on the CPU.

    Raises:
        DeviceError: ML682, something is not.
    """
    named = [*module.named_parameters(), *module.named_buffers()]
    inputs = [x for x in pytree.tree_leaves((args, dict(kwargs))) if isinstance(x, torch.Tensor)]
    named += [(f"input {n}", x) for n, x in enumerate(inputs)]
    for name, tensor in named:
        if tensor.device.type != "cpu":
            raise DeviceError(
                "ML682",
                f"{name} of {type(module).__name__} is on {tensor.device}; modules are imported "
                "from the CPU",
                fix="profile a copy: copy.deepcopy(module).cpu(), with inputs on the CPU too",
            )


def batch_of(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The ``dynamic_shapes`` in which the first dim of every tensor that is as large as that of the
    first tensor is ``batch``: one entry per argument, by name."""
    size: int | None = None
    for leaf in pytree.tree_leaves((tuple(args), dict(kwargs))):
        if isinstance(leaf, torch.Tensor) and leaf.dim():
            size = leaf.shape[0]
            break
    batch = TorchDim("batch")

    def spec(leaf: Any) -> Any:
        same = isinstance(leaf, torch.Tensor) and leaf.dim() and leaf.shape[0] == size
        return {0: batch} if same else None

    return pytree.tree_map(spec, (tuple(args), dict(kwargs)))


def export(
    module: torch.nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    dynamic_shapes: Any = None,
    dynamic_batch: bool = False,
) -> Exported:
    """``module`` as it computes with ``args`` and ``kwargs``.

    Args:
        module: The module; it is not changed.
        args: Its arguments by position.
        kwargs: Its arguments by name.
        dynamic_shapes: As ``torch.export.export`` takes it.
        dynamic_batch: Whether the first dim of the inputs may have any size; not together with
            ``dynamic_shapes``.

    Raises:
        UnsupportedError: ML680, it cannot be exported; ML686, it writes to its buffers or inputs.
        Exception: What the module itself raises for these arguments.
    """
    shapes = _by_argument(module, args, kwargs, dynamic_shapes, dynamic_batch)
    try:
        with torch.no_grad(), warnings.catch_warnings(), _quiet(), whole_stacks():
            warnings.simplefilter("ignore")
            program = torch.export.export(
                module, tuple(args), dict(kwargs), dynamic_shapes=shapes, strict=False
            )
            table = torch.export.default_decompositions()
            for overload in list(table):
                if str(overload).removeprefix("aten.") in TABLE:
                    table.pop(overload)
            program = program.run_decompositions(table)
    except Exception as error:
        with torch.no_grad():
            module(*args, **kwargs)  # an error of its own is a better one
        raise _refused(module, error) from error
    signature = program.graph_signature
    written = [*signature.buffers_to_mutate.values(), *signature.user_inputs_to_mutate.values()]
    if written:
        raise UnsupportedError(
            "ML686",
            f"{type(module).__name__} writes to {', '.join(map(repr, written[:3]))}"
            f"{' and more' if len(written) > 3 else ''}: a graph of maxlab changes nothing",
            fix="call module.eval() before, or return the new value instead of writing it",
        )
    names = _names(program, module, args, kwargs, shapes)
    return Exported(program, names, _ranges(program, names))


@contextmanager
def _quiet() -> Iterator[None]:
    """Keeps what torch logs and prints about an export off the screen: what fails is raised."""
    known = list(logging.root.manager.loggerDict)
    loggers = [logging.getLogger(n) for n in known if n.partition(".")[0] == "torch"]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        with redirect_stderr(io.StringIO()):
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


# ---------------------------------------------------------------- names of sizes
def _bound(module: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    return inspect.signature(module.forward).bind(*args, **kwargs).arguments


def _by_argument(
    module: torch.nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    dynamic_shapes: Any,
    dynamic_batch: bool,
) -> Any:
    if not dynamic_batch:
        return dynamic_shapes
    by_place, by_name = batch_of(args, kwargs)
    names = list(_bound(module, args, kwargs))
    return {**dict(zip(names, by_place, strict=False)), **by_name}


def _names(
    program: ExportedProgram,
    module: torch.nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    shapes: Any,
) -> dict[str, str]:
    """The name that the user gave each symbolic size; the export's own for the others."""
    given: dict[tuple[int, int], str] = {}  # tensor, axis
    arguments = list(_bound(module, args, kwargs).items())
    if isinstance(shapes, (tuple, list)):
        specs = dict(zip((name for name, _ in arguments), shapes, strict=False))
    else:
        specs = dict(shapes or {})
    for name, value in arguments:
        _collect(value, specs.get(name), given)
    tensors = [
        x for x in pytree.tree_leaves((tuple(args), dict(kwargs))) if isinstance(x, torch.Tensor)
    ]
    names: dict[str, str] = {}
    for real, fake in zip(tensors, _stand_ins(program), strict=False):
        for axis, size in enumerate(fake.shape):
            if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol:
                symbol = str(size.node.expr)
                names.setdefault(symbol, given.get((id(real), axis), symbol))
    for fake in _stand_ins(program):
        for size in fake.shape:  # of a derived dim the export has an expression, 2 * n
            for free in size.node.expr.free_symbols if isinstance(size, torch.SymInt) else ():
                names.setdefault(str(free), str(free))
    return names


def _stand_ins(program: ExportedProgram) -> list[torch.Tensor]:
    """The stand-in for each tensor among the inputs of ``program``."""
    wanted = set(program.graph_signature.user_inputs)
    nodes = program.graph_module.graph.nodes
    values = [n.meta.get("val") for n in nodes if n.op == "placeholder" and n.name in wanted]
    return [v for v in values if isinstance(v, torch.Tensor)]


def _ranges(
    program: ExportedProgram, names: Mapping[str, str]
) -> list[tuple[int, int, str, int, int]]:
    known = {str(symbol): bounds for symbol, bounds in program.range_constraints.items()}
    found = []
    for place, fake in enumerate(_stand_ins(program)):
        for axis, size in enumerate(fake.shape):
            bounds = known.get(str(size.node.expr)) if isinstance(size, torch.SymInt) else None
            if bounds is not None:
                text = str(dim_of(size, names))
                low, high = (int(b) if b.is_Integer else limit for b, limit in (
                    (bounds.lower, 0), (bounds.upper, 2**63 - 1)))  # fmt: skip
                found.append((place, axis, text, low, high))
    return found


def _collect(value: Any, spec: Any, found: dict[tuple[int, int], str]) -> None:
    """The names of dims in ``spec`` by the tensor in ``value`` and the axis."""
    if isinstance(value, torch.Tensor):
        axes = spec.items() if isinstance(spec, dict) else enumerate(spec or ())
        for axis, dim in axes:
            name = getattr(dim, "__name__", "")
            if name.isidentifier() and not name.startswith("_"):
                found[id(value), axis] = name
    elif isinstance(value, dict):
        for key, item in value.items():
            _collect(item, spec.get(key) if isinstance(spec, dict) else None, found)
    elif isinstance(value, (tuple, list)) and isinstance(spec, (tuple, list)):
        for item, of in zip(value, spec, strict=False):
            _collect(item, of, found)


# ---------------------------------------------------------------- refusals
_DATA = re.compile(r"data-dependent|GuardOnDataDependent|unbacked|Could not guard", re.IGNORECASE)
_SIZES = re.compile(r"Constraints violated|dynamic_shapes|specializ", re.IGNORECASE)


def _refused(module: torch.nn.Module, error: Exception) -> UnsupportedError:
    text = str(error)
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    place = None
    stack = getattr(error, "real_stack", None)
    if stack is not None:
        place = location_in("".join(stack.format()))
    if place is None:
        place = location_in(text) or location_in(_frames(error))
    if _DATA.search(text):
        why = ["its path through the code depends on the values of a tensor"]
        fix = (
            "write it with torch.where or torch.cond, or profile the parts around it: "
            "maxlab.profile(module.encoder, x)"
        )
    elif _SIZES.search(text):
        why = ["a size that should vary is fixed by the code, or was 0 or 1 in the example"]
        fix = "pass inputs of other sizes, 2 or more, or leave that size out of dynamic_shapes"
    else:
        why = ["torch.export cannot follow it"]
        fix = "see what torch says above, or profile a submodule: maxlab.profile(module.encoder, x)"
    told = [line.strip().removeprefix("- ") for line in text.splitlines() if "  - " in line]
    why += [f"torch says: {line[:200]}" for line in told[:2]]
    return UnsupportedError(
        "ML680",
        f"{type(module).__name__} cannot be exported: {first[:300]}",
        at=place,
        why=why,
        fix=fix,
    )


def _frames(error: BaseException) -> str:
    import traceback

    return "".join(traceback.format_tb(error.__traceback__))

"""From a graph of ``torch.compile`` to a functional one of the operations that maxlab has."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch.fx import GraphModule
from torch.utils._python_dispatch import _disable_current_modes

from maxlab.torch import importer
from maxlab.torch.aten import TABLE

_ = importer  # fills the table

Runs = Callable[..., Any]
Compiler = Callable[[GraphModule, Mapping[int, str]], Callable[[list[Any]], Sequence[Any]]]


def traced(module: GraphModule, inputs: Sequence[Any], compiler: Compiler) -> Runs:
    """A function that runs ``module`` with the outputs of ``compiler`` for its ATen operations.

    torch takes care of all that a functional graph cannot say: inputs that are changed in place,
    outputs that share memory with inputs or with each other, tensors of subclasses.

    Args:
        module: The graph that ``torch.compile`` hands to a backend.
        inputs: Examples of its inputs.
        compiler: From a functional graph, and the names of parameters and buffers by their places
            among its inputs, to a function of the list of its inputs.
    """
    placeholders = [n for n in module.graph.nodes if n.op == "placeholder"]
    names = [_name_of(n) for n in placeholders]

    def compile(graph: GraphModule, examples: Sequence[Any]) -> Any:
        places = _weights()
        same = len(names) == len(examples)  # torch adds and drops inputs of some graphs
        found = {p: (names[p] if same else "") or f"weight{p}" for p in places}
        if same:
            _rename_inputs(graph, [_argument_of(n) for n in placeholders])
        with _disable_current_modes():  # torch's trace lets no real tensor be made
            run = compiler(graph, _distinct(found))

        def boxed(args: list[Any]) -> Sequence[Any]:
            given = list(args)
            args.clear()  # the caller hands them over
            return run(given)

        vars(boxed)["_boxed_call"] = True  # torch asks for it
        return boxed

    overloads, kept = _decompositions()
    backend = aot_autograd(fw_compiler=compile, decompositions=overloads)
    with _kept_whole(kept):
        made: Runs = backend(module, list(inputs))
    return made


# ---------------------------------------------------------------- what torch takes apart
def _decompositions() -> tuple[dict[Any, Any], list[Any]]:
    """The operations that torch takes apart, with how, and those that stay whole although torch
    would take them apart on its way: maxlab has them."""
    table = dict(torch.export.default_decompositions().items())
    kept = []
    for overload in list(table):
        has_it = str(overload).removeprefix("aten.") in TABLE
        composite = torch._C._dispatch_has_kernel_for_dispatch_key(
            overload.name(), torch._C.DispatchKey.CompositeImplicitAutograd
        )
        if has_it and composite:
            kept.append(overload)
        if has_it or composite:
            table.pop(overload)
    return table, kept


@contextmanager
def _kept_whole(overloads: Sequence[Any]) -> Iterator[None]:
    """Lets a trace note ``overloads`` as they are; without this part of ``torch.export`` it notes
    what they consist of, which is right too, and slower."""
    try:
        from torch.export.exported_program import (
            _override_composite_implicit_decomp as override,
        )
        from torch.export.exported_program import _special_op_to_preserve_cia as preserve
    except ImportError:
        yield
        return
    with override(dict.fromkeys(overloads, preserve)):
        yield


# ---------------------------------------------------------------- parameters and buffers
_KEY = re.compile(r"_(?:modules|parameters|buffers)\[['\"]?([^'\"\]]+)|\.(\w+)$")


def _weights() -> list[int]:
    """The places of parameters and buffers among the inputs of the graph that is being traced."""
    context = torch._guards.TracingContext.try_get()
    metadata = context.fw_metadata if context is not None else None
    return list(getattr(metadata, "static_input_indices", None) or ())


def _name_of(node: torch.fx.Node) -> str:
    """The name that ``state_dict`` has for the parameter or buffer of the placeholder ``node``;
    empty for other inputs."""
    source = getattr(node, "_dynamo_source", None)
    if source is None:
        return ""
    text = source.name if isinstance(source.name, str) else source.name()
    return ".".join(first or second for first, second in _KEY.findall(text))


_ARGUMENT = re.compile(r"L_(?:self_|args_\d+_)?([^\W_]\w*?)_?", re.IGNORECASE)


def _argument_of(node: torch.fx.Node) -> str:
    """The name of the variable whose tensor the placeholder ``node`` is; empty where it is none:
    torch calls that of ``x`` ``L_x_``."""
    found = _ARGUMENT.fullmatch(node.name)
    return found[1] if found is not None and isinstance(_example(node), torch.Tensor) else ""


def _example(node: torch.fx.Node) -> Any:
    return node.meta.get("example_value")


def _rename_inputs(graph: GraphModule, names: Sequence[str]) -> None:
    """Gives the placeholders of ``graph`` the ``names`` that the user has for them."""
    nodes = [n for n in graph.graph.nodes if n.op == "placeholder"]
    for node, name in zip(nodes, names, strict=True):
        if name:
            with graph.graph.inserting_before(node):
                named = graph.graph.placeholder(name)
            named.meta = node.meta
            node.replace_all_uses_with(named)
            graph.graph.erase_node(node)


def _distinct(names: Mapping[int, str]) -> dict[int, str]:
    """``names``, in which none is there twice."""
    seen: set[str] = set()
    found = {}
    for place, name in names.items():
        chosen = name if name not in seen else f"{name}@{place}"
        seen.add(chosen)
        found[place] = chosen
    return found


__all__ = ["Compiler", "traced"]

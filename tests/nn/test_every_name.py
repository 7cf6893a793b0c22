"""Every public name of ``maxlab.nn`` is used by a test or by an example that runs, and takes the
keywords that it names."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from maxlab import nn

TESTS = Path(__file__).resolve().parents[1]

MODULES = tuple(
    f"maxlab.nn{name and '.'}{name}"
    for name in (
        "", "attention", "attention.attention_with_rope", "attention.interfaces",
        "attention.mask_config", "attention.multi_latent_attention",
        "attention.multihead_attention", "attention.ragged_attention", "clamp", "comm", "conv",
        "conv_transpose", "embedding", "float8_config", "hooks", "kernels", "kv_cache",
        "kv_cache.cache_params", "kv_cache.manager", "layer", "linear", "lora", "module_v3", "moe",
        "norm", "rotary_embedding", "sampling", "sequential", "transformer",
        "transformer.transformer",
    )
)  # fmt: skip
"""What users import from; the other modules are how these are made."""

PASSED_ON = {
    "maxlab.experimental.nn.module.Module.__call__": "to forward",
    "maxlab.experimental.nn.module.Module.forward": "what a user's own forward takes",
    "maxlab.experimental.nn.module.module_dataclass": "to dataclasses.dataclass",
    "maxlab.nn.calls.Layer.__call__": "to forward",
    "maxlab.nn.lists.LayerList.__call__": "to a call that users write",
    "maxlab.nn.lists.Sequential.__call__": "to the first layer",
    "maxlab.nn.parallel.ColumnParallelLinear.__init__": "to Linear",
}
"""What has ``**kwargs``, and where it passes all of them on to."""


def public(module: str) -> dict[str, Any]:
    """The functions and classes that ``module`` says are public."""
    loaded = importlib.import_module(module)
    names = {name: getattr(loaded, name) for name in getattr(loaded, "__all__", ())}
    return {
        name: value
        for name, value in names.items()
        if inspect.isfunction(value) or inspect.isclass(value)
    }


def texts() -> Iterator[str]:
    """The code of all tests but this one, and of the examples of docstrings."""
    for path in TESTS.rglob("*.py"):
        if path != Path(__file__):
            yield path.read_text("utf-8")
    for path in Path(nn.__path__[0]).rglob("*.py"):
        lines = re.findall(r"^\s*(?:>>>|\.\.\.) (.*)$", path.read_text("utf-8"), re.MULTILINE)
        yield "\n".join(lines)


def signatures(value: Any) -> Iterator[tuple[str, inspect.Signature]]:
    """What of ``value`` is called, by its full name: it itself, or its public methods."""
    called = [value]
    if inspect.isclass(value):
        named = vars(value).items()
        called = [
            getattr(method, "__func__", method)
            for name, method in named
            if not name.startswith("_") or name in ("__init__", "__call__")
        ]
    for each in called:
        if inspect.isfunction(each) and each.__module__.startswith("maxlab."):
            yield f"{each.__module__}.{each.__qualname__}", inspect.signature(each)


def test_every_name_is_used() -> None:
    words = set(re.findall(r"\w+", "\n".join(texts())))
    names = {name: module for module in MODULES for name in public(module)}
    assert len(names) > 150
    assert sorted(f"{module}.{name}" for name, module in names.items() if name not in words) == []


@pytest.mark.parametrize("module", [module for module in MODULES if public(module)])
def test_keywords_have_names(module: str) -> None:
    """A misspelled keyword is an error, and is not swallowed."""
    swallowing = {
        name
        for value in public(module).values()
        for name, signature in signatures(value)
        for parameter in signature.parameters.values()
        if parameter.kind is inspect.Parameter.VAR_KEYWORD
    }
    assert swallowing - set(PASSED_ON) == set()


def test_what_passes_keywords_on_is_there() -> None:
    found = {
        name
        for module in MODULES
        for value in public(module).values()
        for name, signature in signatures(value)
        if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in signature.parameters.values())
    }
    assert found == set(PASSED_ON)

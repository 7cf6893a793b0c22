"""What tests of ``torch.compile`` share."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Nothing compiled before; no line was warned about."""
    if importlib.util.find_spec("torch") is None:
        yield
        return
    import torch

    from maxlab.torch import compiling

    torch._dynamo.reset()
    compiling._warned.clear()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The graphs that the backend makes during the test."""
    from maxlab.torch import compiling

    made: list[Any] = []
    plain = vars(compiling)["CompiledGraph"]

    def noted(*args: Any, **kwargs: Any) -> Any:
        made.append(plain(*args, **kwargs))
        return made[-1]

    monkeypatch.setattr(compiling, "CompiledGraph", noted)
    return made

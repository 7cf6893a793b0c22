"""Whatever is passed to an operation, what comes out is a result or a typed error."""

from __future__ import annotations

import types
from pathlib import Path

import numpy as np
import pytest

from maxlab.errors import MaxlabError
from maxlab.graph import Graph, ops
from tests.graph.bad_values import CALLS, METHODS, Setting, called, swept, swept_method


def test_every_operation_is_swept() -> None:
    public = {n for n in ops.__all__ if isinstance(getattr(ops, n), types.FunctionType)}
    assert public - set(CALLS) == set()


@pytest.mark.parametrize("name", [n for n in CALLS if "custom" not in n])
def test_good_call(name: str) -> None:
    setting = Setting()
    with setting.graph:
        called(name, CALLS[name](setting))


@pytest.mark.parametrize("name", CALLS)
def test_operation(name: str) -> None:
    assert [str(finding) for finding in swept(name)] == []


@pytest.mark.parametrize("name", METHODS)
def test_method(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # of kernels, the empty text names the folder
    assert [str(finding) for finding in swept_method(name)] == []


def test_errors_of_users_functions_pass() -> None:
    """What a body, a branch or ``forward`` raises is the user's own error."""

    def fails(*_: object) -> None:
        raise KeyError("mine")

    setting = Setting()
    with pytest.raises(KeyError, match="mine") as caught:
        Graph("g", fails)
    assert not isinstance(caught.value, MaxlabError)
    with setting.graph:
        for act in (
            lambda: ops.cond(setting.p, [setting.x.type], fails, fails),
            lambda: ops.while_loop(setting.x, lambda x: setting.p, fails),
            lambda: setting.graph.add_subgraph("sub2", fails),
        ):
            with pytest.raises(KeyError, match="mine") as caught:
                act()
            assert not isinstance(caught.value, MaxlabError)


def test_the_argument_is_named() -> None:
    setting = Setting()
    with setting.graph, pytest.raises(MaxlabError) as caught:
        ops.permute(setting.x, None)  # type: ignore[arg-type]
    assert "dims" in str(caught.value)
    assert "None" in str(caught.value)
    assert caught.value.at is not None
    assert caught.value.at.file.endswith("test_bad_values.py")
    assert caught.value.fix


def test_a_failed_call_leaves_the_graph_as_it_was() -> None:
    setting = Setting()
    with setting.graph:
        before = len(setting.graph.function.ops)
        with pytest.raises(MaxlabError):
            ops.add(setting.x, np.array([object()]))
    assert len(setting.graph.function.ops) == before

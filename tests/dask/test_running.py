"""Tasks of a cluster whose workers, and models, die or are wrong."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from maxlab.dask.generating import answer, register_holder
from maxlab.dask.holding import ModelHolder
from maxlab.dask.running import Placing, in_order
from maxlab.errors import ExecutionError, InputError
from tests.dask.fakes import FakeLLM, FakeModel

distributed: Any = pytest.importorskip("distributed")


@pytest.fixture
def answers(client: Any, tmp_path: Path) -> Iterator[Callable[..., list[str]]]:
    """The answers of a fake model to prompts."""
    register_holder(client)
    model = FakeModel(tmp_path.name, tmp_path)

    def given(prompts: list[str], **placing: Any) -> list[str]:
        tasks: list[Any] = [(1, (model, [one], 9, [], None)) for one in prompts]
        parts = in_order(client, answer, tasks, Placing(**placing), "generating", len(tasks))
        return [text for part in parts for text in part]

    yield given
    assert not client.futures


def test_what_a_dead_worker_had_is_sent_again(answers: Callable[..., list[str]]) -> None:
    prompts = [f"{n} {'kill' if n == 3 else 'end' if n == 5 else ''}" for n in range(12)]
    assert answers(prompts) == [one.upper() for one in prompts]


def test_a_prompt_that_ends_every_model_is_told(answers: Callable[..., list[str]]) -> None:
    with pytest.raises(RuntimeError, match=r"sent 3 times[^$]*ML142[^$]*tcp://127") as caught:
        answers(["a", "always", "b"], retries=2)
    assert isinstance(caught.value, ExecutionError)
    assert caught.value.code == "ML870"


def test_an_error_ends_the_others(answers: Callable[..., list[str]]) -> None:
    with pytest.raises(InputError, match=r"ML160[^$]*the Dask worker tcp://127"):
        answers([*"abc", "wrong", *"def"])


def test_a_scheduler_that_ends_is_told(tmp_path: Path) -> None:
    with distributed.LocalCluster(
        n_workers=1,
        threads_per_worker=1,
        processes=False,
        dashboard_address=":0",
        silence_logs=False,
    ) as cluster:
        client = distributed.Client(cluster)
        event = distributed.Event("go", client=client)
        parts = in_order(client, _wait, [(1, ("go",))] * 2, Placing(), "waiting", 2)
        threading.Timer(0.3, _cancel, [client]).start()
        with pytest.raises(ExecutionError, match=r"cancelled[^$]*ML870"):
            list(parts)
        event.set()
        client.close()
    with pytest.raises(ExecutionError, match="ML870"):
        list(in_order(client, _wait, [(1, ("go",))], Placing(), "waiting", 1))


def _wait(name: str) -> None:
    distributed.Event(name).wait(20)


def _cancel(client: Any) -> None:
    client.cancel([distributed.Future(key, client=client) for key in list(client.futures)])


# ---------------------------------------------------------------- one model for each worker
def _holder() -> Any:
    made = ModelHolder()
    made.setup(SimpleNamespace(address="tcp://w"))
    return made


def test_a_model_stays_while_it_is_used_and_gives_way_then(tmp_path: Path) -> None:
    holder = _holder()
    one, two = (FakeModel(key, tmp_path) for key in "ab")
    order: list[str] = []
    with holder.using(one) as first, holder.using(one) as same:
        assert first is same

        def other() -> None:
            with holder.using(two):
                order.append("other")

        waiting = threading.Thread(target=other)
        waiting.start()
        waiting.join(0.1)
        assert waiting.is_alive(), "the other one waits"
        order.append("first")
    waiting.join(20)
    assert order == ["first", "other"]
    assert isinstance(first, FakeLLM)
    assert first.is_closed
    with holder.using(two) as second:
        assert not second.is_closed
    with pytest.raises(InputError, match="tcp://w"), holder.using(FakeModel("none", tmp_path)):
        pass
    with holder.using(two) as same:
        assert same is second, "what cannot be loaded ends no other model"
    holder.close()
    assert second.is_closed


def test_a_model_whose_process_ended_is_loaded_again(tmp_path: Path) -> None:
    holder, model = _holder(), FakeModel("a", tmp_path)
    with pytest.raises(ExecutionError, match="ML142"), holder.using(model) as first:
        first.generate(["always"], 1, False)
    with holder.using(model) as second:
        assert second is not first
    with pytest.raises(InputError), holder.using(model) as third:
        third.generate(["wrong"], 1, False)
    assert third is second
    with holder.using(model) as fourth:
        assert fourth is second, "an error of a request ends no model"

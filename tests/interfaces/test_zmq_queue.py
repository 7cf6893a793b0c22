"""Queues over ZeroMQ: between two processes, full, empty, closed, and with bad endpoints."""

from __future__ import annotations

import multiprocessing
import os
import queue
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from maxlab.errors import DeviceError, DocumentError, InputError, InputTypeError
from maxlab.interfaces import (
    MAXPullQueue,
    MAXPushQueue,
    RequestID,
    TextGenerationOutput,
    drain_queue,
    get_blocking,
    msgpack_numpy_encoder,
)
from maxlab.interfaces.zmq_queue import ZmqPullQueue, ZmqPushQueue, check_endpoint
from tests.interfaces import other_process
from tests.interfaces.samples import TEXT

MESSAGES = 10_000
ANY = "tcp://127.0.0.1:*"


@pytest.mark.parametrize("over", ["ipc", "tcp"])
def test_messages_of_another_process_keep_their_order(over: str, tmp_path: Path) -> None:
    endpoint = f"ipc://{tmp_path}/q" if over == "ipc" else ANY
    spawn = multiprocessing.get_context("spawn")
    with ZmqPullQueue[Any](endpoint, np.ndarray) as pull:
        process = spawn.Process(target=other_process.push, args=(pull.endpoint, MESSAGES))
        process.start()
        for number in range(MESSAGES):
            item = get_blocking(pull)
            assert item.tolist() == [number] * len(item)
            assert len(item) == (1000 if number % 10 == 0 else 3)
        process.join(60)
        assert process.exitcode == 0
        assert drain_queue(pull) == []
    assert not list(Path("/dev/shm").glob(f"maxlab-msg-{process.pid}-*"))


def test_ends_are_queues_and_carry_outputs() -> None:
    with ZmqPullQueue[TextGenerationOutput](ANY, TextGenerationOutput) as pull:
        assert isinstance(pull, MAXPullQueue)
        with pytest.raises(queue.Empty):
            pull.get_nowait()
        with ZmqPushQueue[TextGenerationOutput](pull.endpoint) as push:
            assert isinstance(push, MAXPushQueue)
            push.put_nowait(TEXT)
            assert get_blocking(pull) == TEXT


def test_a_full_queue_says_so_and_loses_nothing() -> None:
    with (
        ZmqPullQueue[int](ANY, int, most_waiting=1) as pull,
        ZmqPushQueue[int](pull.endpoint, most_waiting=1) as push,
    ):
        put = 0

        def fill() -> None:
            nonlocal put
            while put < 10**6:
                push.put_nowait(put)
                put += 1

        with pytest.raises(queue.Full):
            fill()
        assert [get_blocking(pull) for _ in range(put)] == list(range(put))


def test_a_bad_message_is_dropped_alone() -> None:
    with ZmqPullQueue[RequestID](ANY, RequestID) as pull, ZmqPushQueue[Any](pull.endpoint) as push:
        push.put_nowait("no request")
        with pytest.raises(InputTypeError):
            push.put_nowait(print)
        push.put_nowait(RequestID("a"))
        with pytest.raises(DocumentError):
            get_blocking(pull)
        assert get_blocking(pull) == RequestID("a")


def test_a_closed_queue() -> None:
    pull = ZmqPullQueue[int](ANY, int)
    push = ZmqPushQueue[int](pull.endpoint)
    for end in (pull, push):
        end.close(0)
        end.close(0)
    with pytest.raises(DeviceError, match="is closed"):
        pull.get_nowait()
    with pytest.raises(DeviceError, match="is closed"):
        push.put_nowait(1)


def test_an_endpoint_is_bound_once() -> None:
    bound = pytest.raises(DeviceError, match="cannot be bound to")
    with ZmqPullQueue[int](ANY, int) as pull, bound:
        ZmqPullQueue[int](pull.endpoint, int)
    assert pull.endpoint.startswith("tcp://127.0.0.1:")


def test_a_closed_end_has_given_its_endpoint_back() -> None:
    endpoint = ANY
    for _ in range(200):
        with ZmqPullQueue[int](endpoint, int) as pull:
            endpoint = pull.endpoint


@pytest.mark.parametrize(
    "endpoint",
    [
        *("", "ipc://", "ipc://" + "x" * 108, "ipc://a\0b", "inproc://a", "tcp://0.0.0.0:5555"),
        *("tcp://example.com:80", "tcp://127.0.0.1", "tcp://127.0.0.1:0", "tcp://127.0.0.1:70000"),
        *("tcp://127.0.0.1:*", "udp://127.0.0.1:1", "tcp://127.0.0.1:5 ", "tcp://127.0.0.1:x"),
    ],
)
def test_bad_endpoints(endpoint: str) -> None:
    with pytest.raises(InputError) as raised:
        ZmqPushQueue[int](endpoint)
    assert raised.value.code == "ML986"


def test_bad_options() -> None:
    for options in ({"most_waiting": 0}, {"bind": 1}, {"most_waiting": "x"}):
        with pytest.raises((InputError, InputTypeError)):
            ZmqPushQueue[int](ANY, **{"bind": True, **options})  # type: ignore[arg-type]
    with pytest.raises(InputTypeError):
        check_endpoint(3, bind=True)


def test_an_array_that_finds_the_queue_full_leaves_no_segment(tmp_path: Path) -> None:
    encode = msgpack_numpy_encoder(use_shared_memory=True, shared_memory_threshold=100)
    endpoint = f"ipc://{tmp_path}/q"
    mine = f"maxlab-msg-{os.getpid()}-*"
    with ZmqPushQueue[Any](endpoint, bind=True, encode=encode, most_waiting=1) as push:
        with pytest.raises(queue.Full):  # nobody is there
            push.put_nowait(np.zeros(1000))
        assert not list(Path("/dev/shm").glob(mine))
        with ZmqPullQueue[Any](endpoint, np.ndarray, bind=False, most_waiting=1) as pull:
            sent = 0
            for number in range(10_000):
                try:
                    push.put_nowait(np.full(1000, number))
                    sent += 1
                except queue.Full:
                    time.sleep(0.0001)
                    if sent > 1:
                        break
            assert len(list(Path("/dev/shm").glob(mine))) <= sent
            for _ in range(sent):
                get_blocking(pull)
            assert not list(Path("/dev/shm").glob(mine))


def test_an_item_that_cannot_be_encoded_leaves_no_segment() -> None:
    encode = msgpack_numpy_encoder(use_shared_memory=True, shared_memory_threshold=100)
    with (
        ZmqPullQueue[Any](ANY, list) as pull,
        ZmqPushQueue[Any](pull.endpoint, encode=encode) as push,
    ):
        with pytest.raises(InputTypeError):
            push.put_nowait([np.zeros(1000), object()])
        assert not list(Path("/dev/shm").glob(f"maxlab-msg-{os.getpid()}-*"))

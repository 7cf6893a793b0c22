"""Many requests at a time, some of them broken or left: no answer is lost, mixed or told twice."""

from __future__ import annotations

import gc
import json
import random
import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest

from maxlab import trace
from tests.serve.conftest import ADAPTERS, BASE
from tests.serve.serving import Served, head

KINDS, CLIENTS, PARTS = 40, 8, 5
MOST_GROWTH = 1.02
"""By how much a process may grow after the first two parts of the requests."""
BROKEN = [b"{", b'{"model": "' + b"\xff" + b'"}', b'{"model": "nobody", "prompt": "a"}', b""]


def asked(kind: int) -> dict[str, Any]:
    """The request of a kind; its answer is the same whenever it is asked."""
    rng = random.Random(kind)
    return {
        "model": rng.choice([BASE, BASE, *ADAPTERS]),
        "prompt": " ".join(rng.choices(["The", "quick", "weather", "42", "世界"], k=1 + kind % 9)),
        "max_tokens": rng.randrange(1, 14),
        "temperature": rng.choice([0, 0.7, 1.5]),
        "seed": kind,
        "n": rng.choice([1, 1, 2]),
    }


def texts_of(body: bytes, is_stream: bool) -> list[str]:
    """The texts of an answer, whole or streamed; a stream has one end."""
    if not is_stream:
        return [one["text"] for one in json.loads(body)["choices"]]
    lines = [line[6:] for line in body.splitlines() if line.startswith(b"data: ")]
    assert lines.count(b"[DONE]") == 1
    found: dict[int, str] = {}
    ends: Counter[int] = Counter()
    for line in lines[:-1]:
        (choice,) = json.loads(line)["choices"]
        found[choice["index"]] = found.get(choice["index"], "") + choice["text"]
        ends[choice["index"]] += choice["finish_reason"] is not None
    assert set(ends.values()) == {1}
    return [found[index] for index in sorted(found)]


@dataclass
class Soak:
    """Clients that ask at a time, and what they saw."""

    served: Served
    wanted: list[list[str]]
    counts: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, count: int, seed: int) -> None:
        """Asks ``count`` times."""
        threads = [
            threading.Thread(target=self._client, args=(count // CLIENTS, seed + n))
            for n in range(CLIENTS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _client(self, count: int, seed: int) -> None:
        rng = random.Random(seed)
        for _ in range(count):
            try:
                told = self._ask(rng)
            except Exception as error:  # each is a fault of the server
                told = f"fault: {error!r}"
            with self.lock:
                self.counts[told.partition(":")[0]] += 1
                if told.startswith("fault"):
                    self.faults.append(told)

    def _ask(self, rng: random.Random) -> str:
        kind, is_stream, luck = rng.randrange(KINDS), rng.random() < 0.5, rng.random()
        if luck < 0.01:
            status, _, body = self.served.post("/v1/completions", rng.choice(BROKEN))
            assert status in (400, 404), body
            return "broken"
        body = json.dumps({**asked(kind), "stream": is_stream}).encode()
        if luck < 0.02:
            with self.served.send(head("/v1/completions", len(body)), body) as left:
                if is_stream:
                    left.recv(1)
            return "left"
        status, _, data = self.served.post("/v1/completions", body)
        assert status == 200, data
        found = texts_of(data, is_stream)
        return "told" if found == self.wanted[kind] else f"fault: {kind}: {found}"


def memory(served: Served) -> list[int]:
    """The bytes of this process and of the model's that are in memory."""
    import psutil

    trace.recorder().clear()  # the steps; the model's process keeps a few alone
    gc.collect()
    engine: Any = served.server.engine
    pids = [None, engine._worker.process.pid]
    return [psutil.Process(pid).memory_info().rss for pid in pids]


@pytest.fixture(scope="module")
def soak(served: Served) -> Soak:
    """Clients, and what each kind of request gets while it is alone."""
    wanted = [
        texts_of(served.post("/v1/completions", asked(kind))[2], False) for kind in range(KINDS)
    ]
    assert len({json.dumps(one) for one in wanted}) > KINDS // 2
    return Soak(served, wanted)


def _check(soak: Soak, count: int) -> None:
    assert not soak.faults, soak.faults[:3]
    assert soak.counts.total() == count
    assert soak.served.is_idle()


def test_many_requests(soak: Soak) -> None:
    soak.run(80, 0)
    _check(soak, 80)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("count", [10_000])
def test_very_many_requests_in_flat_memory(soak: Soak, count: int) -> None:
    before, sizes = soak.counts.total(), []
    for part in range(PARTS):
        soak.run(count // PARTS, 100 * part)
        sizes.append(memory(soak.served))
    _check(soak, before + count)
    assert soak.counts["broken"] > count // 200
    assert soak.counts["left"] > count // 200
    # In the first two parts a model meets the sizes of batches, each of which it keeps a plan for.
    for warm, last in zip(sizes[1], sizes[-1], strict=True):
        assert last < warm * MOST_GROWTH, f"bytes of both processes, part by part: {sizes}"

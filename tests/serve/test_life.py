"""The command: how it begins, what it tells, and how it ends."""

from __future__ import annotations

import asyncio
import copy
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from maxlab.__main__ import main
from maxlab.entrypoints.messages import Control
from maxlab.entrypoints.worker import Worker
from maxlab.errors import ExecutionError, InputError
from maxlab.serve.app import app
from maxlab.serve.command import engine_of
from maxlab.serve.limits import Limits, check_address
from maxlab.serve.server import ModelServer, listening
from tests.pipelines.serving.idle import factory
from tests.serve.serving import Served, error_of, head, response, until
from tests.serve.waiting import Waiting

LONG = {"model": "tiny", "prompt": "a", "max_tokens": 200, "ignore_eos": True, "stream": True}


@contextmanager
def command(folder: Path, *flags: str) -> Iterator[tuple[subprocess.Popen[str], Served]]:
    """The command as a process, and the server that it is."""
    words = ["serve", str(folder), "--port=0", "--served-model-name=tiny", "--max-length=300"]
    process = subprocess.Popen(
        [sys.executable, "-m", "maxlab", *words, "--max-batch-size=2", *flags],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("serving tiny (text) at http://127.0.0.1:"), line
        port = int(line.rsplit(":", 1)[1])
        place: Any = SimpleNamespace(socket=SimpleNamespace(getsockname=lambda: ("", port)))
        yield process, Served(place)
    finally:
        process.kill()
        process.communicate()


def children(pid: int) -> list[int]:
    """The processes that a process has begun."""
    import psutil

    return [one.pid for one in psutil.Process(pid).children(recursive=True)]


def test_it_completes_what_it_has_begun_and_ends(folder: Path) -> None:
    with command(folder) as (process, served):
        own = children(process.pid)
        assert own
        body = json.dumps(LONG).encode()
        with served.send(head("/v1/completions", len(body)), body) as stream:
            rest = bytearray()
            while b"data: " not in rest:
                rest += stream.recv(1 << 16)
            process.send_signal(signal.SIGTERM)
            while part := stream.recv(1 << 16):
                rest += part
        assert b"data: [DONE]" in rest
        assert rest.count(b'"finish_reason":"length"') == 1
        assert process.wait(60) == 0
        assert until(lambda: not any(os.path.exists(f"/proc/{one}") for one in own))


def test_it_ends_with_the_process_of_the_model(engine: Any) -> None:
    """The process is one that answers nothing, in place of the model's."""
    worker = Worker(factory(Waiting))
    worker.control(Control(paused=True))
    other = copy.copy(engine)
    other._worker, other.count = worker, 0
    server = ModelServer(other, Limits(), port=0)
    found: list[Exception | None] = []
    thread = threading.Thread(target=lambda: found.append(server.run_here()))
    thread.start()
    assert until(lambda: server.started)
    body = json.dumps({**LONG, "stream": False}).encode()
    with Served(server).send(head("/v1/completions", len(body)), body) as connection:
        assert until(lambda: bool(worker._waiting))
        os.kill(worker.process.pid, signal.SIGKILL)
        status, _, told = response(connection)
    assert (status, error_of(told)["code"]) == (503, "model_ended")
    thread.join(60)
    assert not thread.is_alive()
    assert "SIGKILL" in str(found[0])
    assert other.count == 0


def test_answers_that_take_longer_than_the_end_are_called_off(engine: Any) -> None:
    server = ModelServer(engine, Limits(shutdown_s=1.0), port=0)
    served = Served(server)
    thread = threading.Thread(target=server.run_here)
    thread.start()
    assert until(lambda: server.started)
    body = json.dumps({**LONG, "max_tokens": 450, "n": 8}).encode()
    with served.send(head("/v1/completions", len(body)), body) as stream:
        assert stream.recv(1 << 16)
        server.stop()
        thread.join(60)
        assert not thread.is_alive()
    assert served.is_idle()


def test_metrics_are_read_by_prometheus(served: Served, engine: Any) -> None:
    parser = pytest.importorskip("prometheus_client.parser")

    def read() -> dict[tuple[str, str], float]:
        status, headers, body = served.get("/metrics")
        assert status == 200
        assert headers["content-type"].startswith("text/plain; version=0.0.4")
        families = list(parser.text_string_to_metric_families(body.decode()))
        return {
            (one.name, one.labels.get("status", one.labels.get("reason", ""))): one.value
            for family in families
            for one in family.samples
            if one.labels.get("path", "/v1/completions") == "/v1/completions"
        }

    asked = {"model": "tiny", "prompt": [5, 6, 7], "max_tokens": 4, "ignore_eos": True, "n": 2}
    served.post("/v1/completions", asked)
    before = read()
    assert served.post("/v1/completions", asked)[0] == 200
    assert served.post("/v1/completions", {})[0] == 400
    after = read()

    def grown(name: str, label: str = "") -> float:
        return after[name, label] - before.get((name, label), 0)

    assert grown("maxlab_requests_total", "200") == 1
    assert grown("maxlab_requests_total", "400") == 1
    assert grown("maxlab_prompt_tokens_total") == 3
    assert grown("maxlab_generated_tokens_total") == 8
    assert grown("maxlab_answers_total", "length") == 2
    assert grown("maxlab_time_to_first_token_seconds_count") == 1
    assert after["maxlab_answers_open", ""] == 0
    assert until(lambda: read()["maxlab_scheduler_free_pages", ""] > 0)


def test_health_says_when_the_model_has_ended(served: Served, engine: Any) -> None:
    assert served.get("/health")[0] == 200
    dead = copy.copy(engine)
    error = ExecutionError("ML142", "the process that runs the model ended with 1")
    dead._worker = SimpleNamespace(ended=error)
    made = app(dead)
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.disconnect"}

    headers = [(b"host", b"localhost")]
    scope = {"type": "http", "method": "GET", "path": "/health", "headers": headers}
    asyncio.run(made(scope, receive, send))
    made.state.steps.close()
    assert sent[0]["status"] == 503
    assert error_of(sent[1]["body"])["code"] == "model_ended"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org", ""])
def test_others_need_a_token(host: str, tmp_path: Path, capsys: Any, monkeypatch: Any) -> None:
    monkeypatch.delenv("MAXLAB_SERVE_TOKEN", raising=False)
    assert main(["serve", "nowhere", "--host", host]) == 2
    assert "ML188" in capsys.readouterr().err
    short = tmp_path / "token"
    short.write_text("short")
    assert main(["serve", "nowhere", "--host", host, "--token-file", str(short)]) == 2
    assert "ML190" in capsys.readouterr().err
    check_address(host, "x" * 16)


def test_a_port_that_is_taken() -> None:
    with listening("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ExecutionError, match=rf"{port}.*ML189"):
            listening("127.0.0.1", port)
    with pytest.raises(ExecutionError, match="ML189"):
        listening("no.such.host.invalid", 80)
    with pytest.raises(InputError, match="port"):
        listening("127.0.0.1", 99999)


def test_flags_that_there_are_not(folder: Path, capsys: Any) -> None:
    assert main(["serve", str(folder), "--no-such-flag"]) == 2
    assert "ML125" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["info", "x.mlmodel", "--no-such-flag"])
    assert main(["serve", str(folder), "--max-answers=0"]) == 2
    assert "ML981" in capsys.readouterr().err


def test_limits_are_numbers() -> None:
    for wrong in ({"answers": 0}, {"request_s": 0}, {"body_bytes": -1}):
        with pytest.raises(InputError):
            Limits(**wrong)
    with pytest.raises(TypeError):
        Limits(answers="many")  # type: ignore[arg-type]


@pytest.mark.parametrize("spoil", [b"", None])
def test_a_broken_model_ends_the_command(
    folder: Path, tmp_path: Path, capsys: Any, spoil: bytes | None
) -> None:
    """Weights that are empty, or of another size, which the process of the model finds."""
    broken = tmp_path / "broken"
    shutil.copytree(folder, broken)
    if spoil is None:
        config = json.loads((broken / "config.json").read_text())
        (broken / "config.json").write_text(json.dumps({**config, "intermediate_size": 160}))
    else:
        (broken / "model.safetensors").write_bytes(spoil)
    assert main(["serve", str(broken), "--port=0"]) == 2
    assert ("ML707" if spoil is None else "ML633") in capsys.readouterr().err


def test_no_answer_pauses_for_the_prompts_of_others_unless_a_flag_says_so(
    folder: Path, engine: Any
) -> None:
    assert engine.config.enable_in_flight_batching
    flags = ["--served-model-name=tiny", "--max-length=64", "--no-enable-in-flight-batching"]
    other = engine_of(str(folder), flags, 1)
    try:
        assert not other.config.enable_in_flight_batching
    finally:
        other.close()

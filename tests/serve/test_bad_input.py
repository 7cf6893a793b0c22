"""What is wrong gets a status with an error in OpenAI's form, and changes no other answer."""

from __future__ import annotations

import json
import socket
import threading
from typing import Any

import pytest

from maxlab.serve.limits import Limits
from maxlab.serve.server import ModelServer
from tests.serve.conftest import BASE
from tests.serve.serving import Served, error_of, head, response, started, until

COMPLETION = {"model": BASE, "prompt": "The quick", "max_tokens": 8}
CHAT = {"model": BASE, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 4}
FORM = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "integer"}}}
TOOL = {"type": "function", "function": {"name": "f"}}
COMPLETIONS: list[tuple[Any, int, str | None, str | None]] = [
    ({"model": "nobody"}, 404, "model", "model_not_found"),
    ({"model": "one/"}, 404, "model", "model_not_found"),
    ({"model": ""}, 400, "model", None),
    ({"prompt": "a" * 600}, 400, None, "context_length_exceeded"),
    ({"prompt": [5] * 600}, 400, None, "context_length_exceeded"),
    ({"prompt": []}, 400, "prompt", None),
    ({"prompt": [[]]}, 400, "prompt", None),
    ({"prompt": ["a", 1]}, 400, "prompt", None),
    ({"prompt": [509]}, 400, None, "ML981"),
    ({"prompt": [-1]}, 400, "prompt[0]", None),
    ({"prompt": [2**40]}, 400, "prompt[0]", None),
    ({"prompt": None}, 400, "prompt", None),
    ({"prompt": ["a"] * 9}, 400, "n", None),
    ({"n": 9}, 400, "n", None),
    ({"n": 0}, 400, "n", None),
    ({"temperature": 2.1}, 400, "temperature", None),
    ({"temperature": "hot"}, 400, "temperature", None),
    ({"top_p": -0.1}, 400, "top_p", None),
    ({"max_tokens": 0}, 400, "max_tokens", None),
    ({"logprobs": 21}, 400, "logprobs", None),
    ({"stop": ["a"] * 5}, 400, "stop", None),
    ({"stop": ""}, 400, "stop", None),
    ({"min_tokens": 9}, 400, None, "ML982"),
    ({"logit_bias": {"5": 1}}, 400, "logit_bias", None),
    ({"best_of": 2}, 400, "best_of", None),
    ({"suffix": "end"}, 400, "suffix", None),
    ({"stream_options": {"include_usage": True}}, 400, "stream_options", None),
    ({"prompts": "a"}, 400, "prompts", "unknown_field"),
]
"""Fields of a completion that are wrong: the status, the field and the code."""
CHATS: list[tuple[Any, int, str | None, str | None]] = [
    ({"messages": []}, 400, "messages", None),
    ({"messages": [{"role": "king", "content": "x"}]}, 400, "messages[0].role", None),
    ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
     400, "messages[0].content[0]", "images_unsupported"),
    ({"messages": [{"role": "user", "content": [{"type": "audio"}]}]}, 400, None, "ML159"),
    ({"top_logprobs": 2}, 400, "top_logprobs", None),
    ({"logprobs": True, "top_logprobs": 21}, 400, "top_logprobs", None),
    ({"max_completion_tokens": 4}, 400, "max_tokens", None),
    ({"store": True}, 400, "store", None),
    ({"tool_choice": "required"}, 400, "tool_choice", None),
    ({"tools": [TOOL, TOOL]}, 400, "tools", None),
    ({"tools": [TOOL], "response_format": FORM}, 400, "response_format", None),
    (
        {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "g"}}},
        400, "tool_choice", None,
    ),
    ({"response_format": {"type": "xml"}}, 400, "response_format.type", None),
    ({"response_format": {"type": "json_schema"}}, 400, "response_format.json_schema", None),
]  # fmt: skip
"""Fields of a chat that are wrong."""
SCHEMAS: list[Any] = [
    {"enum": []},
    {"type": "integer", "minimum": 3, "maximum": 2},
    {"type": "nothing"},
    {"$ref": "#/$defs/none"},
    {"type": "string", "pattern": "("},
]
"""Schemas that no answer can fit."""
BODIES: list[tuple[bytes, str]] = [
    (b"", "invalid_json"),
    (b"{", "invalid_json"),
    (b"nonsense", "invalid_json"),
    (b'{"model": NaN}', "invalid_json"),
    (b'{"model": "m", "chat_template_kwargs": {"a": ' + b"[" * 60_000, "invalid_json"),
    (b'{"model": "' + b"\xff\xfe" + b'"}', "invalid_utf8"),
    (b'{"model": "\xed\xa0\x80"}', "invalid_utf8"),
]


@pytest.fixture
def unharmed(served: Served) -> Any:
    """Asks the same question while a test runs, and checks that its answers stay the same."""
    asked = {**COMPLETION, "temperature": 1.3, "seed": 11, "max_tokens": 12}

    def ask() -> str:
        status, _, body = served.post("/v1/completions", asked)
        assert status == 200, body
        return str(json.loads(body)["choices"][0]["text"])

    wanted = ask()
    found: list[str] = []
    over = threading.Event()

    def go_on() -> None:
        while not over.is_set():
            found.append(ask())

    thread = threading.Thread(target=go_on)
    thread.start()
    yield
    over.set()
    thread.join()
    assert found
    assert set(found) == {wanted}


def _check(
    served: Served, path: str, body: Any, status: int, param: str | None, code: str | None
) -> None:
    got, headers, data = served.post(path, body)
    error = error_of(data)
    assert got == status, error
    assert headers["content-type"] == "application/json"
    assert (error["param"], error["code"]) == (param, code), error
    assert error["type"] == "invalid_request_error"
    assert error["message"]


def test_fields_that_are_wrong(served: Served, unharmed: None) -> None:
    for given, status, param, code in COMPLETIONS:
        _check(served, "/v1/completions", {**COMPLETION, **given}, status, param, code)
    for given, status, param, code in CHATS:
        _check(served, "/v1/chat/completions", {**CHAT, **given}, status, param, code)


def test_schemas_that_nothing_fits(served: Served, unharmed: None) -> None:
    pytest.importorskip("llguidance")
    for schema in SCHEMAS:
        form = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}
        wanted = (400, None, "invalid_json_schema")
        _check(served, "/v1/chat/completions", {**CHAT, "response_format": form}, *wanted)


def test_bodies_that_are_no_requests(served: Served, unharmed: None) -> None:
    for body, code in BODIES:
        _check(served, "/v1/chat/completions", body, 400, None, code)
    large = b'{"model": "' + b"a" * (1 << 17) + b'"}'
    _check(served, "/v1/completions", large, 413, None, "body_too_large")
    plain = {"content_type": "text/plain"}
    status, _, body = served.post("/v1/completions", COMPLETION, **plain)
    assert (status, error_of(body)["code"]) == (415, "unsupported_media_type")


def test_a_body_whose_size_is_not_told_has_a_limit(served: Served) -> None:
    first = head("/v1/completions", 0).replace(b"content-length: 0", b"transfer-encoding: chunked")
    chunk = b"10000\r\n" + b"a" * 0x10000 + b"\r\n"
    with served.send(first) as connection:
        try:
            connection.sendall(chunk * 2 + b"0\r\n\r\n")
        except OSError:
            pass  # it answered and closed before it got all
        assert response(connection)[0] == 413


def test_paths_and_methods(served: Served) -> None:
    for path, status, code in (
        ("/", 404, "unknown_url"),
        ("/v1/chat/completions", 405, "method_not_allowed"),
        ("/v1/models/nobody", 404, "model_not_found"),
        ("/v1/models/%ff", 404, "model_not_found"),
    ):
        got, _, body = served.get(path)
        assert (got, error_of(body)["code"]) == (status, code)
    with served.send(b"no request at all\r\n\r\n") as connection:
        status, _, body = response(connection)
    assert (status, error_of(body)["code"]) == (400, "invalid_http")


def test_other_hosts_are_refused_without_a_token(served: Served) -> None:
    for host in ("example.org", "127.0.0.1.example.org", "", "[::2]:80"):
        status, _, body = served.get("/v1/models", host=host)
        assert (status, error_of(body)["code"]) == (403, "host")
    for host in ("localhost", "127.0.0.1:99", "[::1]:80"):
        assert served.get("/v1/models", host=host)[0] == 200


def test_a_token_is_asked_for(engine: Any) -> None:
    token = "correct-horse-battery"
    with started(ModelServer(engine, Limits(), port=0, token=token)) as guarded:
        for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": token}):
            for path in ("/v1/models", "/metrics"):
                status, found, body = guarded.get(path, **headers)
                assert (status, error_of(body)["code"]) == (401, "invalid_api_key")
                assert found["www-authenticate"] == "Bearer"
        named = {"authorization": f"Bearer {token}", "host": "example.org"}
        assert guarded.get("/v1/models", **named)[0] == 200
        assert guarded.get("/health")[0] == 200


# ------------------------------------------------------------ slow clients
def _is_closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def test_clients_that_send_slowly_are_left(served: Served, unharmed: None) -> None:
    with served.send(b"POST /v1/comp") as connection:
        assert _is_closed(connection)
    with served.send(head("/v1/completions", 100), b'{"model') as connection:
        status, _, body = response(connection)
    assert (status, error_of(body)["code"]) == (408, "timeout")


def test_a_client_that_reads_nothing_is_left(engine: Any, unharmed: None) -> None:
    """Its buffers are small, so that they are full before the answer is complete."""
    asked = {**COMPLETION, "max_tokens": 400, "ignore_eos": True, "n": 4, "stream": True,
             "logprobs": 20}  # fmt: skip
    body = json.dumps(asked).encode()
    server = ModelServer(engine, Limits(send_s=0.3), port=0)
    server.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    with started(server) as slow, socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", slow.port))
        connection.sendall(head("/v1/completions", len(body)) + body)
        assert until(lambda: engine.count >= 4)
        assert until(lambda: not slow.server.server_state.connections)
        assert slow.is_idle()


def test_clients_that_go_away_give_their_place_back(served: Served, unharmed: None) -> None:
    asked = {**COMPLETION, "max_tokens": 400, "ignore_eos": True, "n": 8}
    engine: Any = served.server.engine
    for stream in (False, True):
        body = json.dumps({**asked, "stream": stream}).encode()
        with served.send(head("/v1/completions", len(body)), body):
            assert until(lambda: engine.count >= 8)
        assert until(lambda: engine.count < 8)


# ------------------------------------------------------------ too much
def _wait_for(connections: list[socket.socket]) -> list[tuple[int, bytes]]:
    found = []
    for one in connections:
        with one:
            status, _, body = response(one)
            found.append((status, body))
    return found


def test_a_full_queue_says_so(served: Served, engine: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(engine, "most", 4)
    body = json.dumps({**COMPLETION, "n": 4, "max_tokens": 40, "ignore_eos": True}).encode()
    sent = served.send(head("/v1/completions", len(body)), body)
    assert until(lambda: engine.count == 4)
    status, headers, told = served.post("/v1/completions", COMPLETION)
    assert (status, error_of(told)["code"]) == (429, "queue_full")
    assert headers["retry-after"] == "1"
    ((status, _),) = _wait_for([sent])
    assert status == 200


def test_an_answer_that_takes_too_long_ends(engine: Any) -> None:
    asked = {**COMPLETION, "max_tokens": 400, "ignore_eos": True, "n": 8}
    with started(ModelServer(engine, Limits(request_s=0.05), port=0)) as hasty:
        status, headers, body = hasty.post("/v1/completions", asked)
        assert (status, error_of(body)["code"]) == (504, "timeout")
        assert headers["x-should-retry"] == "false"
        status, _, body = hasty.post("/v1/completions", {**asked, "stream": True})
        assert status == 200
        (last,) = (line for line in body.splitlines() if line.startswith(b'data: {"error"'))
        assert error_of(last.removeprefix(b"data: "))["code"] == "timeout"
        assert b"[DONE]" not in body
        assert hasty.is_idle()


def test_connections_have_a_limit(engine: Any) -> None:
    with started(ModelServer(engine, Limits(connections=2), port=0)) as small:
        held = [socket.create_connection(("127.0.0.1", small.port)) for _ in range(2)]
        assert until(lambda: len(small.server.server_state.connections) == 2)
        status, _, body = small.get("/health")
        assert (status, error_of(body)["code"]) == (503, "too_many")
        for one in held:
            one.close()
        assert until(lambda: not small.server.server_state.connections)
        assert small.get("/health")[0] == 200

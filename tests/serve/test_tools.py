"""Calls in the texts of answers, whole and in pieces; and the schemas that force one."""

from __future__ import annotations

import json
import random
from itertools import pairwise

import pytest

from maxlab.serve.requests import Function
from maxlab.serve.tools import Call, CallReader, forcing_schema

A = '{"name": "a", "arguments": {"x": 1}}'
B = '{"name": "b", "parameters": {}}'
CASES: list[tuple[str, list[str], str]] = [
    ("no call at all", [], "no call at all"),
    (A, ["a"], ""),
    (f" {B}", ["b"], ""),
    (f"[{A}, {B}]", ["a", "b"], ""),
    (f"{A}; {B}\n", ["a", "b"], ""),
    (f"[TOOL_CALLS] [{A}]", ["a"], ""),
    (f"<|python_tag|>{B}", ["b"], ""),
    ('{"type": "function", "function": ' + A + "}", ["a"], ""),
    ('{"name": "a", "arguments": "{\\"x\\": 1}"}', ["a"], ""),
    (f"<tool_call>\n{A}\n</tool_call>", ["a"], ""),
    (f"I think <tool_call>{A}</tool_call>\n<tool_call>{B}</tool_call> end", ["a", "b"],
     "I think  end"),
    (f"<tool_call>{A}", ["a"], ""),
    ('{"name": "c", "arguments": {}}', [], '{"name": "c", "arguments": {}}'),
    ('{"answer": 3}', [], '{"answer": 3}'),
    ("[1, 2", [], "[1, 2"),
    ("<tool_call>nonsense</tool_call>", [], "<tool_call>nonsense</tool_call>"),
    ('{"name": "a", "arguments": 3}', [], '{"name": "a", "arguments": 3}'),
    ("{" * 5000, [], "{" * 5000),
    ("a <tool", [], "a <tool"),
    ("   ", [], "   "),
    ("", [], ""),
]  # fmt: skip


def read(reader: CallReader, pieces: list[str]) -> tuple[list[str], str, list[Call]]:
    """The names of calls, the text, and the calls of an answer in pieces."""
    found = [one for piece in pieces for one in reader.push(piece)] + reader.finish()
    calls = [one for one in found if isinstance(one, Call)]
    text = "".join(one for one in found if isinstance(one, str))
    return [one.name for one in calls], text, calls


@pytest.mark.parametrize(("answer", "names", "text"), CASES)
def test_calls_are_found_however_the_text_comes(answer: str, names: list[str], text: str) -> None:
    rng = random.Random(answer)
    cuts = [sorted(rng.choices(range(len(answer) + 1), k=4)) for _ in range(20)]
    for places in [[], list(range(len(answer)))[:300], *cuts]:
        ends = [0, *places, len(answer)]
        pieces = [answer[a:b] for a, b in pairwise(ends)]
        found, given, calls = read(CallReader(["a", "b"]), pieces)
        assert (found, given) == (names, text)
        assert all(isinstance(json.loads(one.arguments), dict) for one in calls)
        assert len({one.id for one in calls}) == len(calls)


def test_text_is_given_as_soon_as_it_is_no_call() -> None:
    reader = CallReader(["a"])
    assert reader.push("Hello") == ["Hello"]
    assert reader.push(" <t") == [" "]
    assert reader.push("able>") == ["<table>"]


def test_one_call_is_the_most() -> None:
    answer = f"<tool_call>{A}</tool_call><tool_call>{B}</tool_call> more"
    reader = CallReader(["a", "b"], most=1)
    assert read(reader, [answer])[:2] == (["a"], "")
    assert reader.found == 1


def test_forced_calls_are_whole_answers() -> None:
    assert read(CallReader(["a"], forced="a"), ['{"x"', ": 1}"])[:2] == (["a"], "")
    assert read(CallReader(["a"], forced="a"), ['{"x"'])[:2] == ([], '{"x"')
    assert read(CallReader(["a", "b"], forced=""), [A])[:2] == (["a"], "")


def test_schemas_of_functions_keep_their_references() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    inner = {
        "type": "object",
        "properties": {"x": {"$ref": "#/$defs/y"}},
        "required": ["x"],
        "$defs": {"y": {"type": "integer"}},
    }
    several = forcing_schema([Function("a", parameters=inner), Function("b")])
    good = {"name": "a", "arguments": {"x": 1}}
    jsonschema.validate(good, several)
    jsonschema.validate({"name": "b", "arguments": {}}, several)
    for wrong in ({"x": "1"}, {}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**good, "arguments": wrong}, several)
    jsonschema.validate({"x": 1}, forcing_schema([Function("a", parameters=inner)]))

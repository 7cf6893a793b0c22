"""Chat templates of strangers: what they must not have or use is refused, and names the line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from maxlab.errors import InputError, MaxlabError, ParseError
from maxlab.pipelines.lib.tokenizer import budget, sandbox
from maxlab.pipelines.lib.tokenizer.sandbox import REMOVED
from maxlab.pipelines.lib.tokenizer.templates import ChatTemplate

pytest.importorskip("jinja2", reason="jinja2 not installed")

MESSAGES: list[dict[str, Any]] = [{"role": "user", "content": "a"}]

INTERNALS = [
    "{{ ''.__class__ }}",
    "{{ ''['__class__'].__mro__ }}",
    "{{ messages.__class__.__base__.__subclasses__() }}",
    "{{ ''|attr('__class__') }}",
    "{{ '{0.__class__}'.format(1) }}",
    "{{ '{a.__class__}'.format_map({'a': 1}) }}",
    "{{ raise_exception.__globals__ }}",
    "{{ range.__wrapped__ }}",
    "{{ self.__init__ }}",
    "{{ namespace.__init__.__globals__ }}",
    "{{ cycler.__init__.__globals__.os.system('touch PWNED') }}",
    "{{ joiner.__init__.__globals__ }}",
    "{{ messages.append(1) }}",
    "{{ messages[0].update({'a': 1}) }}",
    "{{ messages.clear() }}",
    "{% set ns = namespace(__class__=1) %}",
    "{% set ns = namespace() %}{% set ns.__class__ = 1 %}",
    "{% for c in [].__class__.__base__.__subclasses__() %}{{ c }}{% endfor %}",
    "{{ [''] | map(attribute='__class__') | list }}",
    "{{ (1).__class__ }}",
    "{{ 'a'.encode() }}",
    "{{ (1).to_bytes(10**10, 'big') }}",
    "{{ loop_messages.x.__globals__ }}",
]
FILES = [
    "{% include '/etc/passwd' %}",
    "{% import 'os' as os %}",
    "{% extends '/etc/passwd' %}",
    "{{ open('/etc/passwd') }}",
    "{{ __import__('os') }}",
    "{{ lipsum() }}",
    "{{ messages[0].content.missing.more }}",
    "{{ 1 // 0 }}",
    "{{ 'a' + 1 }}",
    "{{ raise_exception('no') }}",
    "{{ raise_exception() }}",
]
DOUBLING = "{% set ns = namespace(x=['a'], y=['a']) %}{% for i in range(60) %}"
ENDLESS = {
    "nested loops": "{% for a in range(99999) %}{% for b in range(99999) %}"
    "{% endfor %}{% endfor %}",
    "a loop's condition": "{% for a in range(99999) %}{% for b in range(99999) if false %}"
    "{% endfor %}{% endfor %}",
    "a long range": "{{ range(10**12)|list }}",
    "a loop of a long range": "{% for a in range(10**12) %}{% endfor %}",
    "a macro in itself": "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "macros that call twice": "{% macro m0() %}{% endmacro %}"
    + "".join(
        f"{{% macro m{n}() %}}{{{{ m{n - 1}() }}}}{{{{ m{n - 1}() }}}}{{% endmacro %}}"
        for n in range(1, 60)
    )
    + "{{ m59() }}",
    "blocks that call twice": "{% block b0 %}{% endblock %}"
    + "".join(
        f"{{% block b{n} %}}{{{{ self.b{n - 1}() }}}}{{{{ self.b{n - 1}() }}}}{{% endblock %}}"
        for n in range(1, 60)
    ),
    "a recursive loop": "{% for x in [[1]] recursive %}{{ loop([x, x]) }}{% endfor %}",
    "text times": "{{ 'a' * 10**9 }}",
    "list times": "{{ [0] * 10**9 }}",
    "a power": "{{ 10 ** (10 ** 10) }}",
    "squares": "{% set ns = namespace(x=3) %}{% for i in range(99) %}{% set ns.x = ns.x * ns.x %}"
    "{% endfor %}",
    "text doubled by +": "{% set ns = namespace(x='ab') %}{% for i in range(60) %}"
    "{% set ns.x = ns.x + ns.x %}{% endfor %}",
    "text doubled by ~": "{% set ns = namespace(x='ab') %}{% for i in range(60) %}"
    "{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
    "text doubled in a set": "{% set ns = namespace(x='ab') %}{% for i in range(60) %}"
    "{% set y %}{{ ns.x }}{{ ns.x }}{% endset %}{% set ns.x = y %}{% endfor %}",
    "lists in lists, written": DOUBLING + "{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
    "lists in lists, as JSON": DOUBLING
    + "{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x|tojson }}",
    "lists in lists, as text": DOUBLING
    + "{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ (ns.x|string)|length }}",
    "lists in lists, joined": DOUBLING
    + "{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x|join('') }}",
    "lists in lists, compared": DOUBLING
    + "{% set ns.x = [ns.x, ns.x] %}{% set ns.y = [ns.y, ns.y] %}{% endfor %}"
    "{{ ns.x == ns.y }}",
    "lists in lists, found": DOUBLING
    + "{% set ns.x = [ns.x, ns.x] %}{% set ns.y = [ns.y, ns.y] %}{% endfor %}"
    "{{ ns.x in [ns.y] }}",
    "lists in lists, by a test": DOUBLING
    + "{% set ns.x = [ns.x, ns.x] %}{% set ns.y = [ns.y, ns.y] %}{% endfor %}"
    "{{ ns.x is eq(ns.y) }}",
    "lists in lists, by %": DOUBLING
    + "{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ '%s' % [ns.x] }}",
    "lists in lists, by format": DOUBLING
    + "{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ '{}'.format(ns.x) }}",
    "lists in lists, raised": DOUBLING
    + "{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ raise_exception(ns.x) }}",
    "a wide filter": "{{ 'a'|center(10**9) }}",
    "a wide filter by map": "{{ ['a']|map('center', 10**9)|list }}",
    "a wide indent": "{{ ('a\n' * 1000)|indent(10**7) }}",
    "an indent of text": "{{ ('a\n' * 100000)|indent('b' * 100000) }}",
    "a wide method": "{{ 'a'.ljust(10**9) }}",
    "a wide zfill": "{{ 'a'.zfill(10**9) }}",
    "tabs": "{{ ('\t' * 10000).expandtabs(9999) }}",
    "a wide format": "{{ '{:1000000000}'.format(1) }}",
    "a wide format of its argument": "{{ '{:{}}'.format(1, 10**9) }}",
    "a wide %": "{{ '%1000000000d' % 1 }}",
    "a wide % of its argument": "{{ '%*d' % (10**9, 1) }}",
    "a wide format filter": "{{ '%1000000000d'|format(1) }}",
    "replaced": "{{ ('a' * 1000000).replace('a', 'b' * 1000000) }}",
    "replaced by nothing": "{{ ('a' * 1000000).replace('', 'b' * 1000000) }}",
    "replaced by the filter": "{{ ('a' * 1000000)|replace('a', 'b' * 1000000) }}",
    "joined": "{{ ('a' * 1000000).join(range(100000)|map('string')|list) }}",
    "joined by the filter": "{{ range(100000)|join('a' * 1000000) }}",
    "translated": "{{ ('a' * 1000000).translate({97: 'b' * 1000000}) }}",
    "split": "{{ ('a' * 4000000).split('a') }}",
    "slices in a loop": "{% set x = 'a' * 4000000 %}{% for i in range(100000) %}"
    "{% for j in range(70) %}{% set y = x[1:] %}{% endfor %}{% endfor %}",
    "joined without a list": "{{ ''.join((['a' * 4000000] * 100000)|select) }}",
    "joined by the filter without a list": "{{ (['a' * 4000000] * 100000)|select|join }}",
    "lists in lists, in a namespace's values": DOUBLING
    + "{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ {'a': ns.x}.items() }}",
    "tuples in tuples, hashed": DOUBLING
    + "{% set ns.x = (ns.x, ns.x) %}{% endfor %}{{ {ns.x: 1} }}",
    "tuples in tuples, looked for": DOUBLING
    + "{% set ns.x = (ns.x, ns.x) %}{% endfor %}{{ messages[0][ns.x] }}",
    "tuples in tuples, got": DOUBLING
    + "{% set ns.x = (ns.x, ns.x) %}{% endfor %}{{ messages[0].get(ns.x) }}",
    "lists in lists, counted": DOUBLING
    + "{% set ns.x = [ns.x, ns.x] %}{% set ns.y = [ns.y, ns.y] %}{% endfor %}"
    "{{ [ns.x].count(ns.y) }}",
    "lists in lists, changed": DOUBLING
    + "{% set ns.x = [ns.x, ns.x] %}{% set ns.y = [ns.y, ns.y] %}{% endfor %}"
    "{% for a in [ns.x, ns.y] %}{{ loop.changed(a) }}{% endfor %}",
    "a long number": "{{ ('f' * 4000000)|int(0, 16) // 3 }}",
    "wide JSON": "{{ [1]|tojson(indent=10**9) }}",
    "batches": "{{ [1]|batch(10**9, 0)|list }}",
    "slices": "{{ [1]|slice(10**9)|list }}",
    "sums of lists": "{{ ([[1]] * 100000)|sum(start=[]) }}",
    "a wide date": "{{ strftime_now('%999999999d') }}",
    "another meaning for counting": "{% macro each(x, n) %}{% endmacro %}{% set tick = 1 %}"
    "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
}


def refused(source: str) -> MaxlabError:
    """The error that the template ends with."""
    with pytest.raises(MaxlabError) as caught:
        ChatTemplate(f"\n{source}", "a test").render(MESSAGES)
    return caught.value


def outcome(source: str) -> str:
    """What becomes of a template: the code of its error, or that it was rendered."""
    try:
        ChatTemplate(source, "a test").render(MESSAGES)
    except MaxlabError as error:
        return error.code
    return "rendered"


@pytest.mark.parametrize("source", INTERNALS)
def test_internals_of_python_are_out_of_reach(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    error = refused(source)
    # A name that is not there is no way in either.
    assert error.code in ("ML156", "ML157") if "undefined" in str(error) else error.code == "ML157"
    assert "line 2" in str(error)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("source", FILES)
def test_what_fails_names_the_line(source: str) -> None:
    error = refused(source)
    assert isinstance(error, InputError)
    assert (error.code, "line 2" in str(error)) == ("ML156", True)


@pytest.mark.parametrize("name", ENDLESS)
def test_what_would_not_end_is_ended(name: str) -> None:
    assert refused(ENDLESS[name]).code == "ML158"


@pytest.mark.parametrize(
    "source", ["{% for", "{{ a", "{% endfor %}", "{{ 'a'|nofilter }}", "{% unknown %}", "{{ }}"]
)
def test_what_is_no_template_is_refused(source: str) -> None:
    error = refused(source)
    assert isinstance(error, ParseError)
    assert (error.code, "line 2" in str(error)) == ("ML155", True)


@pytest.mark.parametrize("name", REMOVED)
def test_filters_that_were_taken_away_are_named(name: str) -> None:
    assert repr(name) in str(refused(f"{{{{ 'a'|{name} }}}}")).replace('"', "'")


def test_a_template_of_any_size_or_depth_is_refused_or_rendered() -> None:
    assert refused("a" * (2 << 20)).code == "ML158"
    for depth in (50, 5000):
        for left, right in (("(", ")"), ("[", "]"), ("{% if 1 %}", "{% endif %}")):
            inner = left * depth + "1" + right * depth
            source = inner if left.startswith("{") else f"{{{{ {inner} }}}}"
            assert outcome(source) in ("rendered", "ML155", "ML156", "ML158")


def test_a_long_conversation_is_no_offence() -> None:
    long = [{"role": "user", "content": "x" * 1000}] * 3000
    source = (
        "{% for m in messages %}{% if m == messages[0] %}{{ m.role ~ m.content }}{% endif %}"
        "{{ messages|length }}{{ messages|selectattr('role', 'equalto', 'user')|list|length }}"
        "{% endfor %}"
    )
    few = long[:300]
    assert len(ChatTemplate(source, "a test").render(few)) == 300 * (4 + 1000 + 6)
    assert len(ChatTemplate("{% for m in messages %}{{ m.content }}{% endfor %}", "a").render(long))


def test_budgets_are_of_one_rendering() -> None:
    template = ChatTemplate("{% for a in range(99999) %}b{% endfor %}", "a test")
    for _ in range(3):
        assert template.render(MESSAGES) == "b" * 99999


def test_the_time_of_a_rendering_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "MOST_SECONDS", -1.0)
    assert "seconds" in str(refused("{% for a in range(99) %}{{ a }}{% endfor %}"))


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("{{ '{:>4}|{a}'.format(1, a=2) }}", "   1|2"),
        ("{{ '{a}'.format_map({'a': 1}) }}", "1"),
        ("{{ '%03d' % 7 }}{{ '%s-%s' % ('a', 'b') }}", "007a-b"),
        ("{{ 'a,b'.split(',')|join('+')|upper }}", "A+B"),
        ("{{ 'abc'.replace('b', 'xx')|replace('x', 'y') }}", "ayyc"),
        ("{{ {'b': [1, '<']}|tojson(indent=1) }}", '{\n "b": [\n  1,\n  "<"\n ]\n}'),
        ("{% for a in [1, 2] %}{% if a == 1 %}{% continue %}{% endif %}{{ a }}{% endfor %}", "2"),
        ("{% for a in range(3) %}{{ loop.length - loop.index }}{{ loop.last }}{% endfor %}",
         "2False1False0True"),
        ("{% for k, v in {'a': 1}.items() %}{{ k }}{{ v }}{% endfor %}", "a1"),
        ("{% for a in [[1, [2]]] recursive %}{{ a }}{% endfor %}", "[1, [2]]"),
        ("{% set ns = namespace(a=1) %}{{ ns }}{{ 'abc'[1:] }}{{ {1: 2}[1] }}", "<Namespace>bc2"),
        ("{{ dict(a=1).a }}{{ namespace(b=2).b }}{{ 2 ** 3 * 4 }}", "1232"),
        ("{% generation %}a{% endgeneration %}", "a"),
        ("{% set x %}a{% endset %}{% filter upper %}{{ x }}{% endfilter %}", "A"),
        ("{{ '  a'|trim ~ 'b'.center(3) ~ 1 ~ [1] ~ none }}", "a b 1[1]None"),
        ("{{ nothing }}{{ nothing is defined }}{{ strftime_now('%Y')|length }}", "False4"),
        ("{{ [3, 1]|sort }}{{ [1, 2]|sum }}{{ 'x'|indent(2, true) }}", "[1, 3]3  x"),
    ],
)  # fmt: skip
def test_what_templates_do_works(source: str, text: str) -> None:
    assert ChatTemplate(source, "a test").render(MESSAGES) == text


FILTERS = {
    "abs", "attr", "batch", "capitalize", "center", "count", "d", "default", "dictsort", "e",
    "escape", "filesizeformat", "first", "float", "forceescape", "format", "groupby", "indent",
    "int", "items", "join", "last", "length", "list", "lower", "map", "max", "min", "reject",
    "rejectattr", "replace", "reverse", "round", "safe", "select", "selectattr", "slice", "sort",
    "string", "sum", "title", "tojson", "trim", "truncate", "unique", "upper", "urlencode",
    "wordcount",
}  # fmt: skip
METHODS = {
    "append", "capitalize", "casefold", "center", "clear", "copy", "count", "encode", "endswith",
    "expandtabs", "extend", "find", "format", "format_map", "fromkeys", "get", "index", "insert",
    "isalnum", "isalpha", "isascii", "isdecimal", "isdigit", "isidentifier", "islower",
    "isnumeric", "isprintable", "isspace", "istitle", "isupper", "items", "join", "keys", "ljust",
    "lower", "lstrip", "maketrans", "partition", "pop", "popitem", "remove", "removeprefix",
    "removesuffix", "replace", "reverse", "rfind", "rindex", "rjust", "rpartition", "rsplit",
    "rstrip", "setdefault", "sort", "split", "splitlines", "startswith", "strip", "swapcase",
    "title", "translate", "update", "upper", "values", "zfill",
}  # fmt: skip


def test_the_costs_of_all_that_jinja_and_python_have_were_looked_at() -> None:
    """Another filter pays for what it gets and gives; what it makes in between, nobody knows."""
    assert set(sandbox.environment().filters) <= FILTERS
    methods = {name for kind in (str, list, dict) for name in dir(kind) if name[0] != "_"}
    assert methods <= METHODS

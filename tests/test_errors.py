"""Errors travel between processes with all that they say."""

from __future__ import annotations

import copy
import pickle

import pytest

from maxlab import errors
from maxlab.errors import FileError, InputError, Location, MaxlabError, MissingKeyError, QueryError


def kinds() -> list[type[MaxlabError]]:
    """Every class of errors that is made with a code and a sentence."""
    found = [one for one in vars(errors).values() if isinstance(one, type)]
    return [one for one in found if issubclass(one, MaxlabError) and one is not QueryError]


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)
def test_an_error_is_pickled_and_copied_whole(kind: type[MaxlabError]) -> None:
    error = kind("ML101", "one ≠ two", at=Location("a.py", 3), why=["because"], fix="mend it")
    error.add_note("while testing")
    for again in (pickle.loads(pickle.dumps(error)), copy.deepcopy(error)):
        assert type(again) is kind
        assert vars(again) == vars(error)
        assert str(again) == str(error)
        assert again.args == error.args


def test_an_error_of_a_query_is_pickled_whole() -> None:
    error = QueryError("ML801", "no such field", "op=mul", 3)
    again = pickle.loads(pickle.dumps(error))
    assert (again.query, again.place, again.said, str(again)) == (
        "op=mul",
        3,
        error.said,
        str(error),
    )


def test_an_error_of_inputs_may_have_a_sentence_alone() -> None:
    error = InputError("Model supports only 1 image, got 2")
    assert (error.code, error.what) == ("ML181", "Model supports only 1 image, got 2")
    assert str(error) == "Model supports only 1 image, got 2 [ML181]"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_an_error_of_files_keeps_its_text() -> None:
    assert str(pickle.loads(pickle.dumps(FileError("ML001", "no file")))) == "no file [ML001]"
    assert str(pickle.loads(pickle.dumps(MissingKeyError("ML971", "no key")))) == "no key [ML971]"

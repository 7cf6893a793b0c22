"""PyCUDA for these tests: they skip without it, or fail where MAXLAB_REQUIRE_PYCUDA=1."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from tests.driver_cuda.fake import harness

Run = Callable[..., harness.Result]


@pytest.fixture
def on_fake() -> Run:
    """Runs a program on the fake driver; it must end well, say nothing on stderr, leave nothing."""
    need_pycuda()

    def run(program: str, **options: object) -> harness.Result:
        result = harness.run(program, **options)  # type: ignore[arg-type]
        assert result.code == 0, result.err
        assert result.err == ""
        assert set(result.report["left"].values()) == {0}, result.report
        return result

    return run


def need_pycuda() -> None:
    """Skip a test that needs PyCUDA and the fake driver, or fail it."""
    reason = harness.why_not()
    if reason is None:
        return
    if os.environ.get("MAXLAB_REQUIRE_PYCUDA") == "1":
        pytest.fail(reason)
    pytest.skip(reason)

"""The GPU's own tests of models, ops and products, through PyCUDA on the fake driver."""

from __future__ import annotations

import pytest

from tests.driver_cuda.conftest import Run

PROGRAM = """
import os, sys
os.environ["MAXLAB_TEST_DEVICE"] = "cuda"
import pytest
code = pytest.main(["-q", "-p", "no:cacheprovider", *{arguments!r}])
sys.exit(int(code))
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ["tests/cuda/test_models.py"],
        ["tests/cuda/test_products.py", "-k", "epilogue or additive or memory"],
        ["tests/cuda/test_ops.py", "-k", "every_width or what_is_left or softmax or gather"],
    ],
    ids=["models", "products", "ops"],
)
def test_on_the_fake_driver(arguments: list[str], on_fake: Run) -> None:
    result = on_fake(PROGRAM.format(arguments=arguments), devices=2, timeout_s=280)
    assert "passed" in result.out

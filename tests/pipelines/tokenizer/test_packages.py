"""The packages that tokenizers need, as they are imported."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("transformers", reason="transformers not installed")

WITHOUT_TORCH = """
import importlib.util, os, sys
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *given: None if name == "torch" else found(name, *given)
from maxlab.pipelines.lib.tokenizer import packages
assert not packages.transformers().utils.is_torch_available()
print("TRANSFORMERS_NO_ADVISORY_WARNINGS" in os.environ)
"""


def test_transformers_says_nothing_of_torch() -> None:
    """Where PyTorch is not installed, nobody is told that there are no models: maxlab has them."""
    command = [sys.executable, "-c", WITHOUT_TORCH]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "False\n", "")

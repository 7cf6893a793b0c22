"""The Llama of ``benchmarks.llm`` in OpenVINO GenAI and ONNX Runtime GenAI, which draw tokens.

Both go on with the token that they drew, so a pass of one token has one more cached with every run.
The given token of a case is the last one of their prompt: the first token that they draw is the
most probable one of the logits that others return.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.llm_shapes import CASES, Array, Sizes, tokens
from benchmarks.serve_folder import write
from benchmarks.serve_peers import onnx_model, openvino_folder, openvino_settings

LONGEST = 2304


class OpenVINOGenAI:
    """The continuous batching of OpenVINO GenAI with one request, whose prompt is one part."""

    def __init__(self, sizes: Sizes, threads: int) -> None:
        import openvino as ov

        genai: Any = import_module("openvino_genai")
        self.ov, self.genai, self.sizes, self.count = ov, genai, sizes, 0
        limits = genai.SchedulerConfig()
        limits.cache_size, limits.max_num_batched_tokens = 1, LONGEST
        limits.enable_prefix_caching = False
        with tempfile.TemporaryDirectory() as name:
            write(sizes, Path(name), LONGEST)
            made = openvino_folder(sizes, Path(name))
            self.pipeline = genai.ContinuousBatchingPipeline(
                made, limits, "CPU", openvino_settings(threads)
            )
        self.handle: Any = None

    def ask(self, length: int, new: int) -> Array:
        """The first token behind a prompt, in the place of the request before."""
        if self.handle is not None:
            self.handle.cancel()
            while self.pipeline.has_non_finished_requests():
                self.pipeline.step()
        config = self.genai.GenerationConfig()
        config.max_new_tokens, config.ignore_eos, config.do_sample = new, True, False
        self.count += 1
        ids = self.ov.Tensor(tokens(self.sizes, length)[None])
        self.handle = self.pipeline.add_request(self.count, ids, config)
        return self.step()

    def step(self) -> Array:
        """The next token."""
        self.pipeline.step()
        (found,) = self.handle.read().values()
        return np.array(found.generated_ids[-1:])

    def prepared(self, name: str) -> Callable[[], Array]:
        """The pass of a case, whose cached tokens are in the cache."""
        case = CASES[name]
        (cached,) = case.cached
        if not cached:
            return lambda: self.ask(case.new, 1)
        return _first_told(self.ask(cached + 1, LONGEST - cached - 1), self.step)


class OnnxRuntimeGenAI:
    """The generator of ONNX Runtime GenAI."""

    def __init__(self, sizes: Sizes, threads: int) -> None:
        self.sizes = sizes
        with tempfile.TemporaryDirectory() as name:
            write(sizes, Path(name), LONGEST)
            self.og, self.model = onnx_model(Path(name), threads)
        self.generator: Any = None

    def ask(self, length: int) -> Array:
        """The first token behind a prompt."""
        params = self.og.GeneratorParams(self.model)
        params.set_search_options(max_length=LONGEST, min_length=LONGEST, do_sample=False)
        self.generator = self.og.Generator(self.model, params)
        self.generator.append_tokens(tokens(self.sizes, length).astype(np.int32))
        return self.step()

    def step(self) -> Array:
        """The next token."""
        self.generator.generate_next_token()
        return np.array(self.generator.get_next_tokens()[:1])

    def prepared(self, name: str) -> Callable[[], Array]:
        """The pass of a case, whose cached tokens are in the cache."""
        case = CASES[name]
        (cached,) = case.cached
        if not cached:
            return lambda: self.ask(case.new)
        return _first_told(self.ask(cached + 1), self.step)


def _first_told(first: Array, step: Callable[[], Array]) -> Callable[[], Array]:
    """A run that returns ``first`` once, and then the results of ``step``."""
    told = [first]

    def run() -> Array:
        return told.pop() if told else step()

    return run


__all__ = ["OnnxRuntimeGenAI", "OpenVINOGenAI"]

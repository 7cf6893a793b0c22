"""The peers of ``benchmarks.serve``: transformers, OpenVINO GenAI and ONNX Runtime GenAI.

What is imported is in no environment together, so each peer imports its own.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.llm_shapes import Array, Sizes
from benchmarks.serve_cases import Request

PAD = 1


class Transformers:
    """``generate`` of transformers: whole batches, padded on the left."""

    def __init__(self, folder: Path, threads: int) -> None:
        import torch
        from transformers import AutoModelForCausalLM

        torch.set_num_threads(threads)
        self.torch = torch
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()

    def answer(self, requests: Sequence[Request]) -> list[list[int]]:
        """The tokens of each request."""
        longest = max(len(one.prompt) for one in requests)
        ids = np.full((len(requests), longest), PAD, np.int64)
        mask = np.zeros_like(ids)
        for row, seen, one in zip(ids, mask, requests, strict=True):
            row[longest - len(one.prompt) :], seen[longest - len(one.prompt) :] = one.prompt, 1
        new = max(one.new for one in requests)
        with self.torch.inference_mode():
            found = self.model.generate(
                self.torch.from_numpy(ids), attention_mask=self.torch.from_numpy(mask),
                max_new_tokens=new, min_new_tokens=new, do_sample=False,
            )  # fmt: skip
        return [
            row[longest : longest + one.new].tolist()
            for row, one in zip(found, requests, strict=True)
        ]


def onnx_model(folder: Path, threads: int) -> tuple[Any, Any]:
    """The module of ONNX Runtime GenAI, and the model of ``folder`` as its own builder makes it."""
    sys.modules["torchvision"] = None  # type: ignore[assignment] # not needed, and may not fit torch
    og: Any = import_module("onnxruntime_genai")
    builder: Any = import_module("onnxruntime_genai.models.builder")
    made = folder / f"onnx-{threads}"
    shutil.rmtree(made, ignore_errors=True)
    arguments = ("llama", str(folder), str(made), "fp32", "cpu", str(folder / "cache"))
    builder.create_model(*arguments, **builder.parse_extra_options(*arguments, []))
    config = og.Config(str(made))
    options = {"intra_op_num_threads": threads}
    config.overlay(json.dumps({"model": {"decoder": {"session_options": options}}}))
    return og, og.Model(config)


class OnnxRuntime:
    """ONNX Runtime GenAI: whole batches, padded on the right. Its engine shares batches among
    requests of any age on GPUs only.
    """

    def __init__(self, folder: Path, threads: int) -> None:
        self.og, self.model = onnx_model(folder, threads)

    def answer(self, requests: Sequence[Request]) -> list[list[int]]:
        """The tokens of each request."""
        longest = max(len(one.prompt) for one in requests)
        ids = np.full((len(requests), longest), PAD, np.int32)
        for row, one in zip(ids, requests, strict=True):
            row[: len(one.prompt)] = one.prompt
        length = longest + max(one.new for one in requests)
        params = self.og.GeneratorParams(self.model)
        params.set_search_options(
            max_length=length, min_length=length, batch_size=len(requests), do_sample=False
        )
        generator = self.og.Generator(self.model, params)
        generator.append_tokens(ids)
        while not generator.is_done():
            generator.generate_next_token()
        return [
            generator.get_sequence(n)[longest : longest + one.new].tolist()
            for n, one in enumerate(requests)
        ]


def openvino_folder(sizes: Sizes, folder: Path) -> Path:
    """The model and the tokenizer of ``folder`` as OpenVINO GenAI reads them."""
    import openvino as ov
    from transformers import PreTrainedTokenizerFast

    from benchmarks.llm_openvino import stateful

    tokenizers: Any = import_module("openvino_tokenizers")
    made = folder / "openvino"
    made.mkdir(exist_ok=True)
    ov.save_model(stateful(sizes), made / "openvino_model.xml", compress_to_fp16=False)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    pair = tokenizers.convert_tokenizer(tokenizer, with_detokenizer=True)
    for name, one in zip(("tokenizer", "detokenizer"), pair, strict=True):
        ov.save_model(one, made / f"openvino_{name}.xml")
    for name in ("config.json", "generation_config.json"):
        shutil.copy(folder / name, made / name)
    return made


def openvino_settings(threads: int) -> dict[str, Any]:
    """Settings that hold OpenVINO to float32."""
    return {
        "INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32",
        "INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": 1,
        "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0, "ENABLE_CPU_PINNING": False,
    }  # fmt: skip


class OpenVINO:
    """The continuous batching of OpenVINO GenAI, with prompts in parts as it does by default."""

    def __init__(self, sizes: Sizes, folder: Path, threads: int) -> None:
        import openvino as ov

        genai: Any = import_module("openvino_genai")
        self.ov, self.genai = ov, genai
        limits = genai.SchedulerConfig()
        limits.cache_size, limits.max_num_seqs = 3, 32
        limits.enable_prefix_caching = False
        self.pipeline = genai.ContinuousBatchingPipeline(
            openvino_folder(sizes, folder), limits, "CPU", openvino_settings(threads)
        )
        self.asked: list[tuple[Request, Any]] = []
        self.count = 0

    def submit(self, request: Request) -> None:
        """Takes a request."""
        config = self.genai.GenerationConfig()
        config.max_new_tokens, config.ignore_eos, config.do_sample = request.new, True, False
        self.count += 1
        ids: Array = request.prompt[None].astype(np.int64)
        handle = self.pipeline.add_request(self.count, self.ov.Tensor(ids), config)
        self.asked.append((request, handle))

    def step(self) -> list[tuple[Request, list[int]]]:
        """Works once; the requests that got tokens, with these."""
        self.pipeline.step()
        found = []
        for request, handle in self.asked:
            if handle.can_read():
                (output,) = handle.read().values()
                found.append((request, list(output.generated_ids)))
        self.asked = [(one, handle) for one, handle in self.asked if not self._over(one, found)]
        return found

    @staticmethod
    def _over(request: Request, found: list[tuple[Request, list[int]]]) -> bool:
        new = sum(len(tokens) for one, tokens in found if one is request)
        return len(request.tokens) + new >= request.new

    def cancel(self, requests: Sequence[Request]) -> None:
        """Ends requests."""
        for request, handle in self.asked:
            if any(request is one for one in requests):
                handle.cancel()
        self.asked = []
        while self.pipeline.has_non_finished_requests():
            self.pipeline.step()


__all__ = [
    "OnnxRuntime",
    "OpenVINO",
    "Transformers",
    "onnx_model",
    "openvino_folder",
    "openvino_settings",
]

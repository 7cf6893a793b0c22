"""Tokens of speculative decoding have the distribution of the target, and are those of Llama."""

from __future__ import annotations

import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from maxlab.interfaces import SamplingParams, TextGenerationInputs
from maxlab.pipelines.architectures.llama import ARCHITECTURES
from maxlab.pipelines.core import TextContext
from maxlab.pipelines.lib.architectures import use_registry
from maxlab.pipelines.lib.config import PipelineConfig
from maxlab.pipelines.lib.registry import PIPELINE_REGISTRY, PipelineRegistry
from tests.pipelines.serving.drafts import Pair, draft_folders, paired
from tests.pipelines.serving.running import TEXTS, context, settings, written

WORDS, BATCH, TEXTS_DRAWN = 8, 64, 1024
PROMPT = [3, 5, 2]
RULES: dict[str, Any] = {"temperature": 20.0, "top_k": 7, "top_p": 0.98, "presence_penalty": 9.0}
Array = np.ndarray[Any, np.dtype[np.float64]]


def one(tokens: list[int], **given: Any) -> TextContext:
    return TextContext(
        max_length=32,
        tokens=np.array(tokens),
        ignore_eos=True,
        sampling_params=SamplingParams(ignore_eos=True, **given),
    )


def scores(pipeline: Any, tokens: list[int]) -> Array:
    """The logits of a model behind tokens, but for a constant."""
    asked = one(tokens, max_new_tokens=1)
    asked.log_probabilities = WORDS
    found = pipeline.execute(TextGenerationInputs([{asked.request_id: asked}], 1))
    pipeline.release(asked.request_id)
    (told,) = found[asked.request_id].log_probabilities[0].top_log_probabilities
    return np.array([told[token] for token in range(WORDS)])


def distribution(pipeline: Any, drawn: list[int]) -> Array:
    """The probabilities of the token behind the prompt and drawn ones, by the formulas."""
    x = scores(pipeline, [*PROMPT, *drawn])
    x[list(set(drawn))] -= RULES["presence_penalty"]
    x = x / RULES["temperature"]
    x[np.argsort(-x, kind="stable")[RULES["top_k"] :]] = -np.inf
    p = np.exp(x - x.max())
    p /= p.sum()
    order = np.argsort(-p, kind="stable")
    before = np.cumsum(p[order]) - p[order]
    p[order[before >= RULES["top_p"]]] = 0
    found: Array = p / p.sum()
    return found


def test_drawn_tokens_have_the_distribution_of_the_target(
    registry: PipelineRegistry, tmp_path: Path
) -> None:
    """Chi-square of pairs of tokens: the first of a draft, the second of a draft or behind it."""
    folders = draft_folders(tmp_path, 0.3, vocab_size=WORDS, hidden_size=12, num_hidden_layers=1)
    given: dict[str, Any] = {"max_batch_size": BATCH, "max_length": 32, "do_penalties": True}
    _, target = registry.retrieve(PipelineConfig(**settings(folders["target"], **given)))
    _, draft = registry.retrieve(PipelineConfig(**settings(folders["near"], **given)))
    pair: Any = paired(registry, folders, "near", **given)
    joint, wrong = (
        np.array([p * distribution(model, [n]) for n, p in enumerate(distribution(model, []))])
        for model in (target, draft)
    )
    counts = np.zeros((WORDS, WORDS))
    for start in range(0, TEXTS_DRAWN, BATCH):
        seeds = range(start, start + BATCH)
        texts = [one(PROMPT, max_new_tokens=2, seed=1000 * n, **RULES) for n in seeds]
        for first, second in written(pair, *texts, steps=2):
            counts[first, second] += 1
    kept = pair.metrics.get_stats()["acceptance_rate"]
    assert 0.3 < kept < 0.9
    assert not counts[joint == 0].any()

    def chi_square(p: Array) -> float:
        """Cells with fewer than 5 expected texts are one."""
        wanted = p.reshape(-1) * TEXTS_DRAWN
        rare, seen = wanted < 5, counts.reshape(-1)
        wanted = np.append(wanted[~rare], wanted[rare].sum())
        seen = np.append(seen[~rare], seen[rare].sum())
        freedom = len(wanted) - 1
        total = float(((seen - wanted) ** 2 / wanted).sum())
        return (total - freedom) / math.sqrt(2 * freedom)  # nearly of the standard normal one

    assert chi_square(joint) < 3
    assert chi_square(wrong) > 20


def test_llama_writes_what_transformers_writes_for_any_draft(
    llama: Path, tmp_path: Path, registry: PipelineRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model with the tensors of its own, one layer as a draft, and texts of mixed lengths."""
    import torch
    import transformers

    from tests.pipelines.decoders import tiny
    from tests.pipelines.tokenizer import trained

    tiny.decoder_folder(
        tmp_path, "LlamaForCausalLM", num_hidden_layers=1, eos_token_id=1, bos_token_id=0
    )
    trained.folder(tmp_path)
    registry.register(ARCHITECTURES[0])
    config = PipelineConfig(
        model_path=str(llama), draft_model_path=str(tmp_path), max_batch_size=4, max_length=300
    )
    _, factory = registry.retrieve_factory(config)
    # As in a process of its own, whose registry is empty.
    monkeypatch.setattr(PIPELINE_REGISTRY, "architectures", {})
    use_registry(PIPELINE_REGISTRY)
    try:
        pair = pickle.loads(pickle.dumps(factory))()
    finally:
        use_registry(registry)
    assert isinstance(pair, Pair)
    model: Any = transformers.AutoModelForCausalLM.from_pretrained(llama)
    whole: Any = pair
    contexts = [context(whole, text, max_new_tokens=10) for text in TEXTS[:3]]
    wanted = []
    for asked in contexts:
        ids = torch.tensor([asked.prompt_tokens.tolist()])
        options = {"do_sample": False, "max_new_tokens": 10, "pad_token_id": 0}
        (found,) = model.generate(ids, attention_mask=torch.ones_like(ids), **options)
        wanted.append(found[ids.shape[1] :].tolist())
    got = written(whole, *contexts, steps=3)
    assert got == [tokens[: tokens.index(1)] if 1 in tokens else tokens for tokens in wanted]
    assert pair.metrics.draft_tokens_generated > 30

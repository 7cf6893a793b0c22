"""Texts of all workers of a cluster, each with a model of its own."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maxlab import progress
from maxlab.dask.models import WantedModel
from maxlab.dask.running import Placing, in_order, require_client, thread_count
from maxlab.errors import ExecutionError
from maxlab.interfaces import SamplingParamsInput, fields

if TYPE_CHECKING:
    from maxlab.pipelines.lib.config import PipelineConfig

MOST_EACH = 16
"""The most prompts of a task where the caller does not say."""
_PARTS = 8
"""Into how many tasks for each worker a list of prompts is divided at least, so that all of them
end at about the same time."""


def generate(
    client: Any,
    model: PipelineConfig | str | Path,
    prompts: str | Sequence[str],
    max_new_tokens: int | None = 100,
    *,
    sampling_params: SamplingParamsInput | None = None,
    adapter: str | None = None,
    prompts_each: int | None = None,
    workers: list[str] | None = None,
    resources: dict[str, float] | None = None,
    retries: int = 3,
    **settings: Any,
) -> list[str]:
    """The texts that a model writes behind prompts, in the order of these, computed by all workers
    of a cluster.

    Each worker loads the model once, with its first prompts, and keeps it for later calls, until
    another model is asked for or `release` is called. The prompts that a dead worker had are
    answered by another one; the texts are those that one `LLM` writes, wherever they are written.

    Args:
        client: A `distributed.Client`.
        model: The configuration, or the path of the model, which every machine has at one place.
        prompts: A text, or texts.
        max_new_tokens: The most tokens of each answer; None leaves it to the length that the model
            takes.
        sampling_params: How tokens are drawn, as by `LLM.generate`. Without a seed each prompt gets
            one here, so that a prompt that is answered again gets the same answer.
        adapter: The adapter (LoRA) that answers, one of ``lora_paths``; the base by default.
        prompts_each: How many prompts a worker gets at a time, which share its batches; chosen by
            their number by default.
        workers: The addresses or hosts of the workers that may be asked; None for all.
        resources: What a task takes of the resources that workers were started with, such as
            ``{"GPU": 1}``.
        retries: How often prompts are sent again when the workers, or the model of one, died.
        settings: Settings of `PipelineConfig`, with the path of a model.

    Raises:
        InputError: ML981, an argument is out of its range; ML160, a prompt is too long; and what
            the model raises (each a ValueError). The worker is among the reasons.
        InputTypeError: ML980, an argument of another type (a TypeError).
        ExecutionError: ML870, workers died again and again, or the scheduler is gone; ML871, a
            worker has another version of maxlab or another model (each a RuntimeError).
        MissingPackageError: ML979, Dask is not installed (an ImportError).
        CancelledError: ML897 (a RuntimeError), the work was cancelled.

    Example:
        >>> from distributed import Client  # doctest: +SKIP
        >>> with Client("scheduler:8786") as client:  # doctest: +SKIP
        ...     generate(client, "meta-llama/Llama-3.2-1B", ["The capital of France is"], 1)
        [' Paris']
    """
    texts = [prompts] if isinstance(prompts, str) else prompts
    fields.listed(fields.text, kinds=(list, tuple))("prompts", texts)
    if not texts or not all(texts):
        raise fields.out_of_range("prompts", prompts, "texts, one or more and none of them empty,")
    found = iter_generate(
        client, model, texts, max_new_tokens, sampling_params=sampling_params, adapter=adapter,
        prompts_each=prompts_each, workers=workers, resources=resources, retries=retries,
        **settings,
    )  # fmt: skip
    with progress.working(f"generate {len(texts)} answers"):
        return list(found)


def iter_generate(
    client: Any,
    model: PipelineConfig | str | Path,
    prompts: Iterable[str],
    max_new_tokens: int | None = 100,
    *,
    sampling_params: SamplingParamsInput | None = None,
    adapter: str | None = None,
    prompts_each: int | None = None,
    workers: list[str] | None = None,
    resources: dict[str, float] | None = None,
    retries: int = 3,
    **settings: Any,
) -> Iterator[str]:
    """The answers of `generate` one by one, in the order of the prompts, each as soon as it and
    those before it are written.

    Prompts are taken as the cluster gets through them, so there may be any number of them. Where
    the iterator is closed before its end, what has not begun is called off.

    Args:
        client: A `distributed.Client`.
        model: As for `generate`.
        prompts: Texts, of any iterable.
        max_new_tokens: As for `generate`.
        sampling_params: As for `generate`.
        adapter: As for `generate`.
        prompts_each: As for `generate`; of an iterable without a length, `MOST_EACH` by default.
        workers: As for `generate`.
        resources: As for `generate`.
        retries: As for `generate`.
        settings: As for `generate`.

    Raises:
        MaxlabError: As by `generate`; what is wrong with an argument is raised at once.

    Example:
        >>> for text in iter_generate(client, "folder", open("prompts.txt")):  # doctest: +SKIP
        ...     print(text)
    """
    require_client(client)
    fields.optional(fields.integer(1))("max_new_tokens", max_new_tokens)
    fields.optional(fields.instance(SamplingParamsInput))("sampling_params", sampling_params)
    fields.optional(fields.word)("adapter", adapter)
    fields.optional(fields.integer(1))("prompts_each", prompts_each)
    fields.integer(0)("retries", retries)
    fields.instance(Iterable)("prompts", prompts)
    wanted = WantedModel.of(model, settings)
    total = len(prompts) if isinstance(prompts, Sequence) else 0
    threads = max(thread_count(client), 1)
    each = prompts_each or min(
        MOST_EACH, max(1, total // (_PARTS * threads)) if total else MOST_EACH
    )
    register_holder(client)
    tasks = _tasks(wanted, prompts, each, max_new_tokens, sampling_params, adapter)
    placing = Placing(workers, resources, retries)
    parts = in_order(client, answer, tasks, placing, "generating", total)
    return (text for part in parts for text in part)


def _tasks(
    wanted: WantedModel,
    prompts: Iterable[str],
    each: int,
    max_new_tokens: int | None,
    sampling_params: SamplingParamsInput | None,
    adapter: str | None,
) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """The parts of the prompts, with all that a worker needs to answer them."""
    given = sampling_params or SamplingParamsInput()
    left = iter(prompts)
    while part := list(islice(left, each)):
        fields.listed(fields.word)("prompts", part)
        params = [
            given if given.seed is not None else replace(given, seed=random.getrandbits(63))
            for _ in part
        ]
        yield len(part), (wanted, part, max_new_tokens, params, adapter)


def answer(
    wanted: WantedModel,
    prompts: list[str],
    max_new_tokens: int | None,
    params: list[SamplingParamsInput],
    adapter: str | None,
) -> list[str]:
    """The texts behind some prompts; what a worker runs.

    Args:
        wanted: The model.
        prompts: The prompts.
        max_new_tokens: The most tokens of each answer.
        params: How each answer is drawn.
        adapter: The adapter; None for the base.

    Raises:
        MaxlabError: As by `LLM.generate`, with the worker among the reasons.
    """
    from maxlab.dask.holding import held, told_where

    with told_where(), held(wanted) as llm:
        found: list[str] = llm.generate(
            prompts, max_new_tokens, False, sampling_params=params, model=adapter
        )
    return found


def register_holder(client: Any) -> None:
    """Lets all workers of a cluster, and those that come later, hold a model.

    Args:
        client: The client.

    Raises:
        ExecutionError: ML871 (a RuntimeError), a worker has no maxlab, or another one.
    """
    from maxlab.dask.holding import NAME, ModelHolder

    try:
        client.register_plugin(ModelHolder(), name=NAME)
    except Exception as error:
        raise ExecutionError(
            "ML871",
            f"a worker of the cluster cannot hold a model: {type(error).__name__}: {error}",
            fix="install the same maxlab on all machines: pip install 'maxlab[dask,llm]'",
        ) from error


def release(client: Any) -> None:
    """Ends the models that workers hold, and gives their memory back. The next call that needs one
    loads it again.

    Args:
        client: A `distributed.Client`.

    Raises:
        InputTypeError, InputError: ML980, ML981, it is none.
    """
    require_client(client)
    from maxlab.dask.holding import NAME

    try:
        client.unregister_worker_plugin(NAME)
    except ValueError:
        pass  # nothing was generated on this cluster


__all__ = ["MOST_EACH", "answer", "generate", "iter_generate", "register_holder", "release"]

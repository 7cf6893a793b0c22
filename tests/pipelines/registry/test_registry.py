"""The registry: what is registered, how a checkpoint finds its architecture, and what is made."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import pickle
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("transformers", reason="transformers not installed")

from maxlab.errors import InputError, InputTypeError, MaxlabError, UnsupportedError
from maxlab.interfaces import (
    EmbeddingsGenerationInputs,
    PipelineTask,
    RequestID,
    TextGenerationRequest,
)
from maxlab.pipelines.lib import registry as registry_module
from maxlab.pipelines.lib.audio_generator_pipeline import AudioGeneratorPipeline
from maxlab.pipelines.lib.config import PipelineConfig
from maxlab.pipelines.lib.config_enums import RepoType, SupportedEncoding
from maxlab.pipelines.lib.embeddings_pipeline import EmbeddingsPipeline
from maxlab.pipelines.lib.hf_utils import HuggingFaceRepo
from maxlab.pipelines.lib.pipeline_variants import TextGenerationPipeline
from maxlab.pipelines.lib.registry import (
    PIPELINE_REGISTRY,
    PipelineRegistry,
    SupportedArchitecture,
    get_pipeline_for_task,
)
from maxlab.pipelines.lib.speculative_decoding import SpeculativeDecodingTextGenerationPipeline
from maxlab.pipelines.lib.speech_token_pipeline import SpeechTokenGenerationPipeline
from tests.pipelines.tiny.bag_of_words import ARCHITECTURES
from tests.pipelines.tiny.models import CUSTOM, SIZES, WORDS, bag_of_words_folder

(BAG,) = ARCHITECTURES
EMBEDDINGS = PipelineTask.EMBEDDINGS_GENERATION


def changed(**fields: Any) -> SupportedArchitecture:
    return dataclasses.replace(BAG, **fields)


def embedded(tokenizer: Any, pipeline: Any, texts: list[str]) -> list[np.ndarray[Any, Any]]:
    """The embeddings of texts, from requests to outputs."""

    async def contexts() -> list[Any]:
        requests = [TextGenerationRequest(RequestID(), "tiny", prompt=text) for text in texts]
        return [await tokenizer.new_context(request) for request in requests]

    found = asyncio.run(contexts())
    outputs = pipeline.execute(EmbeddingsGenerationInputs([{one.request_id: one for one in found}]))
    for one in found:
        pipeline.release(one.request_id)
    return [outputs[one.request_id].embeddings for one in found]


# ---------------------------------------------------------------- registering
def test_registering_twice_is_as_registering_once() -> None:
    registry = PipelineRegistry([BAG])
    registry.register(BAG)
    registry.register(changed())
    assert registry.architectures == {"BagOfWords": BAG}


def test_another_of_the_same_name_is_refused_unless_it_may_override() -> None:
    registry = PipelineRegistry([BAG])
    other = changed(multi_gpu_supported=True, example_repo_ids=[])
    with pytest.raises(InputError) as caught:
        registry.register(other)
    assert caught.value.code == "ML171"
    assert "example_repo_ids, multi_gpu_supported" in caught.value.what
    assert registry.architectures["BagOfWords"] is BAG
    registry.register(other, allow_override=True)
    assert registry.architectures["BagOfWords"] is other


@pytest.mark.parametrize("value", [None, "BagOfWords", SupportedArchitecture, object()])
def test_only_architectures_are_registered(value: Any) -> None:
    with pytest.raises(InputTypeError):
        PipelineRegistry([]).register(value)


def test_a_reset_registry_knows_nothing(tmp_path: Path, registry: PipelineRegistry) -> None:
    bag_of_words_folder(tmp_path)
    registry.register(BAG)
    repo = HuggingFaceRepo(str(tmp_path))
    before = registry.get_active_huggingface_config(repo)
    registry.reset()
    assert not registry.architectures
    assert registry.get_active_huggingface_config(repo) is not before


def test_the_registry_of_pipelines_is_the_one_configurations_ask() -> None:
    from maxlab.pipelines.lib.architectures import registry as asked

    assert asked() is PIPELINE_REGISTRY


# ---------------------------------------------------------------- checkpoints
def test_configurations_are_kept_by_repository_revision_and_trust(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[Any] = []

    def config_of(repo: Any) -> Any:
        read.append(repo)
        return repo

    monkeypatch.setattr(registry_module, "config_of", config_of)
    registry = PipelineRegistry([])
    given = [(a, b, c) for a in ("x/a", "x/b") for b in ("main", "v2") for c in (False, True)]

    def repos() -> list[Any]:
        names = ("repo_id", "revision", "trust_remote_code")
        made = [SimpleNamespace(**dict(zip(names, one, strict=True))) for one in given]
        return [SimpleNamespace(**vars(one), repo_type=RepoType.online) for one in made]

    first = [registry.get_active_huggingface_config(repo) for repo in repos()]
    again = [registry.get_active_huggingface_config(repo) for repo in repos()]
    assert len(read) == 8
    assert [id(one) for one in first] == [id(one) for one in again]


def test_what_is_kept_of_a_folder_follows_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = PipelineRegistry([])
    found = []
    for size, place in enumerate(["a", "b", "a"]):
        (tmp_path / place / "model").mkdir(parents=True, exist_ok=True)
        monkeypatch.chdir(tmp_path / place)
        bag_of_words_folder(Path("model"), longest_text=10 + size)
        repo = HuggingFaceRepo("model")
        found.append(registry.get_active_huggingface_config(repo).longest_text)
        assert registry.get_active_huggingface_config(
            HuggingFaceRepo(str(tmp_path / place / "model"))
        ) is registry.get_active_huggingface_config(repo)
    assert found == [10, 11, 12]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["BagOfWords"], "BagOfWords"),
        (["Unknown", "Second", "BagOfWords"], "Second"),
        (["BagOfWord"], None),
        (["bagofwords"], None),
        ([], None),
        (None, None),
    ],
)
def test_the_first_architecture_that_is_known_is_taken(
    names: list[str] | None, expected: str | None, tmp_path: Path
) -> None:
    bag_of_words_folder(tmp_path, architectures=names)
    registry = PipelineRegistry([BAG, changed(name="Second")])
    found = registry.retrieve_architecture(HuggingFaceRepo(str(tmp_path)))
    assert (found.name if found else None) == expected


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (None, ""),
        (b"", ""),
        (b"{", ""),
        (b"[]", ""),
        (b"null", ""),
        (b"{}", "no entries"),
        (b"\xff\xfe", ""),
        (b"[" * 100_000, ""),
        (b'{"architectures": "BagOfWords"}', "a list of names"),
        (b'{"architectures": [3]}', "a list of names"),
        (b'{"architectures": {"BagOfWords": 1}}', "a list of names"),
    ],
)
def test_a_configuration_that_is_none_is_refused(
    written: bytes | None, said: str, tmp_path: Path
) -> None:
    if written is not None:
        (tmp_path / "config.json").write_bytes(written)
    with pytest.raises(InputError) as caught:
        PipelineRegistry([BAG]).retrieve_architecture(HuggingFaceRepo(str(tmp_path)))
    assert caught.value.code == "ML132"
    assert said in str(caught.value)


def test_code_of_a_folder_does_not_run_without_trust(tmp_path: Path) -> None:
    bag_of_words_folder(tmp_path, auto_map={"AutoConfig": "remote.Config"})
    (tmp_path / "remote.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    registry = PipelineRegistry([BAG])
    assert registry.retrieve_architecture(HuggingFaceRepo(str(tmp_path))) is BAG
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("named", "override", "said"),
    [
        (["BagsOfWords"], None, "did you mean override_architecture='BagOfWords'?"),
        (["Llama"], None, "custom_architectures"),
        (None, None, "architecture none"),
        (["BagOfWords"], "BagofWords", "did you mean override_architecture='BagOfWords'?"),
    ],
)
def test_the_error_for_an_unknown_architecture_tells_the_known_ones(
    named: list[str] | None,
    override: str | None,
    said: str,
    tmp_path: Path,
    registry: PipelineRegistry,
) -> None:
    bag_of_words_folder(tmp_path, architectures=named, **SIZES)
    config = PipelineConfig(model_path=str(tmp_path))
    registry.register(BAG)
    registry.register(changed(name="Zebra"))
    with pytest.raises(InputError) as caught:
        registry.retrieve(config, EMBEDDINGS, override)
    assert caught.value.code == "ML172"
    assert said in str(caught.value)
    assert "BagOfWords, Zebra" in str(caught.value)
    if override is None:
        with pytest.raises(InputError, match="not registered"):
            registry.retrieve_pipeline_task(config)
        with pytest.raises(InputError, match="not registered"):
            registry.retrieve_tokenizer(config)


# ---------------------------------------------------------------- tasks
def test_each_task_has_a_pipeline() -> None:
    found = {task: get_pipeline_for_task(task, None) for task in PipelineTask}
    assert found == {
        PipelineTask.EMBEDDINGS_GENERATION: EmbeddingsPipeline,
        PipelineTask.TEXT_GENERATION: TextGenerationPipeline,
        PipelineTask.SPEECH_TOKEN_GENERATION: SpeechTokenGenerationPipeline,
        PipelineTask.AUDIO_GENERATION: AudioGeneratorPipeline,
    }
    config: Any = SimpleNamespace(draft_model_config=object())
    speculative: Any = get_pipeline_for_task(PipelineTask.TEXT_GENERATION, config)
    assert speculative is SpeculativeDecodingTextGenerationPipeline


def test_a_task_by_its_value_is_refused() -> None:
    task: Any = "embeddings_generation"
    config: Any = None
    with pytest.raises(InputTypeError):
        get_pipeline_for_task(task, config)


def test_a_model_for_another_task_is_refused(tmp_path: Path, registry: PipelineRegistry) -> None:
    bag_of_words_folder(tmp_path)
    registry.register(changed(task=PipelineTask.TEXT_GENERATION))
    config = PipelineConfig(model_path=str(tmp_path))
    with pytest.raises(InputError) as caught:
        registry.retrieve(config, EMBEDDINGS)
    assert caught.value.code == "ML174"
    assert registry.retrieve_pipeline_task(config) is PipelineTask.TEXT_GENERATION


# ---------------------------------------------------------------- from end to end
def test_a_model_of_a_user_runs_from_end_to_end(tmp_path: Path, registry: PipelineRegistry) -> None:
    table = bag_of_words_folder(tmp_path)
    config = PipelineConfig(model_path=str(tmp_path), custom_architectures=[CUSTOM])
    assert (config.max_length, config.max_batch_size) == (8, 1)
    task = registry.retrieve_pipeline_task(config)
    tokenizer, pipeline = registry.retrieve(config, task)
    texts = ["the quiet river", "bread", "river turns into green light"]
    for found, text in zip(embedded(tokenizer, pipeline, texts), texts, strict=True):
        rows = table[[WORDS.index(word) for word in text.split()]]
        np.testing.assert_allclose(found, rows.mean(0), rtol=1e-6, atol=1e-6)


def test_validators_of_an_architecture_see_each_new_context(
    tmp_path: Path, registry: PipelineRegistry
) -> None:
    bag_of_words_folder(tmp_path)
    config = PipelineConfig(model_path=str(tmp_path), custom_architectures=[CUSTOM])
    tokenizer = registry.retrieve_tokenizer(config)
    with pytest.raises(InputError, match="6 words or less"):
        embedded(tokenizer, None, ["the quiet river turns into green bread"])


def test_the_architecture_may_be_named(tmp_path: Path, registry: PipelineRegistry) -> None:
    table = bag_of_words_folder(tmp_path, architectures=["Unknown"], **SIZES)
    config = PipelineConfig(model_path=str(tmp_path), custom_architectures=[CUSTOM])
    found = embedded(*registry.retrieve(config, EMBEDDINGS, "BagOfWords"), texts=["bread"])
    np.testing.assert_allclose(found[0], table[WORDS.index("bread")])


def test_an_architecture_may_be_registered_after_the_configuration_is_made(
    tmp_path: Path, registry: PipelineRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    bag_of_words_folder(tmp_path, **SIZES)
    config = PipelineConfig(model_path=str(tmp_path))
    registry.register(changed(required_arguments={"max_batch_size": 3}))
    registry.retrieve_factory(config, EMBEDDINGS)
    assert config.max_batch_size == 3
    assert "BagOfWords needs max_batch_size=3" in caplog.text


@pytest.mark.parametrize(
    ("given", "expected"),
    [({}, 3), ({"max_batch_size": 2}, 3), ({"max_batch_size": 2, "force": True}, 2)],
)
def test_required_arguments_override_unless_forced(
    given: dict[str, Any], expected: int, tmp_path: Path, registry: PipelineRegistry
) -> None:
    bag_of_words_folder(tmp_path)
    registry.register(changed(required_arguments={"max_batch_size": 3}))
    config = PipelineConfig(model_path=str(tmp_path), **given)
    assert config.max_batch_size == expected
    registry.retrieve_factory(config, EMBEDDINGS)
    assert config.max_batch_size == expected


def test_a_required_argument_that_is_no_setting_is_refused(
    tmp_path: Path, registry: PipelineRegistry
) -> None:
    bag_of_words_folder(tmp_path)
    registry.register(changed(required_arguments={"some_arg": True}))
    with pytest.raises(InputError) as caught:
        PipelineConfig(model_path=str(tmp_path))
    assert caught.value.code == "ML179"
    assert PipelineConfig(model_path=str(tmp_path), force=True).force


def test_a_model_does_not_depend_on_the_working_directory(
    tmp_path: Path, registry: PipelineRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model").mkdir()
    bag_of_words_folder(tmp_path / "model")
    registry.register(BAG)
    config = PipelineConfig(model_path=str(tmp_path / "model"))
    for place in (tmp_path, tmp_path / "model"):
        monkeypatch.chdir(place)
        assert embedded(*registry.retrieve(config, EMBEDDINGS), texts=["bread"])


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({"data_parallel_degree": 2}, "ML127"),
        ({"enable_lora": True}, "ML169"),
        ({"enable_prefix_caching": True}, "ML127"),
    ],
)
def test_what_the_pipeline_does_not_do_is_refused(
    settings: dict[str, Any], code: str, tmp_path: Path, registry: PipelineRegistry
) -> None:
    bag_of_words_folder(tmp_path)
    registry.register(BAG)
    config = PipelineConfig(model_path=str(tmp_path), **settings)
    with pytest.raises(UnsupportedError) as caught:
        registry.retrieve(config, EMBEDDINGS)
    assert caught.value.code == code


def test_weights_of_an_encoding_that_the_architecture_does_not_run_are_refused(
    tmp_path: Path, registry: PipelineRegistry
) -> None:
    encodings: Any = {SupportedEncoding.bfloat16: []}
    other = changed(supported_encodings=encodings, default_encoding=SupportedEncoding.bfloat16)
    bag_of_words_folder(tmp_path, architectures=["Unknown"], **SIZES)
    config = PipelineConfig(model_path=str(tmp_path))
    registry.register(other)
    with pytest.raises(InputError) as caught:
        registry.retrieve(config, EMBEDDINGS, "BagOfWords")
    assert caught.value.code == "ML182"


PROGRAM = """
import pickle, sys
factory = pickle.loads(open(sys.argv[1], "rb").read())
pipeline = factory()
print(type(pipeline).__name__, type(pipeline._pipeline_model).__module__)
"""


def test_a_factory_makes_its_pipeline_in_another_process(
    tmp_path: Path, registry: PipelineRegistry
) -> None:
    bag_of_words_folder(tmp_path)
    config = PipelineConfig(model_path=str(tmp_path), custom_architectures=[CUSTOM])
    _, factory = registry.retrieve_factory(config, EMBEDDINGS)
    again = pickle.loads(pickle.dumps(factory))
    assert again.pipeline_model is factory.pipeline_model
    assert again.pipeline_config == config
    (tmp_path / "factory").write_bytes(pickle.dumps(factory))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "factory")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["EmbeddingsPipeline", "bag_of_words"]


def test_a_broken_checkpoint_is_a_typed_error(tmp_path: Path, registry: PipelineRegistry) -> None:
    bag_of_words_folder(tmp_path)
    registry.register(BAG)
    config = PipelineConfig(model_path=str(tmp_path))
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-5])
    with pytest.raises(MaxlabError):
        registry.retrieve(config, EMBEDDINGS)
    entries = json.loads((tmp_path / "config.json").read_text())
    assert entries["architectures"] == ["BagOfWords"]

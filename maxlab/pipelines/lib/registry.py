"""The registry of architectures: which model, tokenizer and pipeline run a checkpoint."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from maxlab.errors import InputError
from maxlab.graph.weights import WeightsFormat
from maxlab.interfaces import Pipeline, PipelineTask, PipelineTokenizer, fields
from maxlab.markup import table
from maxlab.pipelines.lib.architecture import (
    SupportedArchitecture,
    encodings_of,
    formats_of,
    takes,
)
from maxlab.pipelines.lib.architectures import use_registry
from maxlab.pipelines.lib.config_enums import RepoType
from maxlab.pipelines.lib.config_resolving import architecture_of, set_required
from maxlab.pipelines.lib.custom_architectures import custom_architectures
from maxlab.pipelines.lib.interfaces import PipelineModel
from maxlab.pipelines.lib.model_files import config_of
from maxlab.pipelines.lib.tokenizer.loading import load
from maxlab.pipelines.lib.weights_adapter import WeightsAdapter
from maxlab.tabular import aligned

if TYPE_CHECKING:
    from maxlab.pipelines.lib.config import PipelineConfig
    from maxlab.pipelines.lib.hf_utils import HuggingFaceRepo

PipelineTypes: TypeAlias = Pipeline[Any, Any]
"""A pipeline of any task."""
_SMALL_FILES = (".json", ".txt", ".model", ".jinja", ".py")
"""Endings of the files that configurations and tokenizers are made of."""
_HEAD = ("architecture", "task", "encodings", "files", "model", "examples")


def get_pipeline_for_task(
    task: PipelineTask, pipeline_config: PipelineConfig | None
) -> type[Pipeline[Any, Any]]:
    """The class of pipelines for a task.

    Args:
        task: The task.
        pipeline_config: The configuration; text with a draft model is generated speculatively.

    Raises:
        InputTypeError: ML980, ``task`` is no `PipelineTask`.

    Example:
        >>> from maxlab.interfaces import PipelineTask
        >>> get_pipeline_for_task(PipelineTask.EMBEDDINGS_GENERATION, None).__name__
        'EmbeddingsPipeline'
    """
    fields.instance(PipelineTask)("task", task)
    if task is PipelineTask.EMBEDDINGS_GENERATION:
        from maxlab.pipelines.lib.embeddings_pipeline import EmbeddingsPipeline

        return EmbeddingsPipeline
    if task is PipelineTask.TEXT_GENERATION:
        if pipeline_config is not None and pipeline_config.draft_model_config is not None:
            from maxlab.pipelines.lib.speculative_decoding import (
                SpeculativeDecodingTextGenerationPipeline,
            )

            return SpeculativeDecodingTextGenerationPipeline
        from maxlab.pipelines.lib.pipeline_variants import TextGenerationPipeline

        return TextGenerationPipeline
    if task is PipelineTask.SPEECH_TOKEN_GENERATION:
        from maxlab.pipelines.lib.speech_token_pipeline import SpeechTokenGenerationPipeline

        return SpeechTokenGenerationPipeline
    from maxlab.pipelines.lib.audio_generator_pipeline import AudioGeneratorPipeline

    return AudioGeneratorPipeline


@dataclass(frozen=True)
class PipelineFactory:
    """Makes a pipeline when called. It can be pickled and called in another process.

    There, the modules of custom architectures are imported first, as what is pickled names classes
    in them.

    Args:
        pipeline: The class of the pipeline.
        pipeline_config: The configuration.
        pipeline_model: The class of the model.
        eos_token_id: The token that ends a sequence; None for embeddings.
        weight_adapters: Functions that convert the weights of other formats.
        tokenizer: The tokenizer.
        draft_architecture: The architecture of the draft model; None without one. Where the
            process has none that fits, it is registered there.
    """

    pipeline: Callable[..., PipelineTypes]
    pipeline_config: PipelineConfig
    pipeline_model: type[PipelineModel[Any]]
    eos_token_id: int | None
    weight_adapters: dict[WeightsFormat, WeightsAdapter]
    tokenizer: PipelineTokenizer[Any, Any, Any]
    draft_architecture: SupportedArchitecture | None = None

    def __call__(self) -> PipelineTypes:
        """The pipeline, its model compiled and its weights loaded."""
        draft = self.pipeline_config.draft_model_config
        if draft is not None and self.draft_architecture is not None:
            if architecture_of(draft) is None:
                PIPELINE_REGISTRY.register(self.draft_architecture)
        return self.pipeline(
            pipeline_config=self.pipeline_config,
            pipeline_model=self.pipeline_model,
            eos_token_id=self.eos_token_id,
            weight_adapters=self.weight_adapters,
            tokenizer=self.tokenizer,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        fields = tuple(getattr(self, name) for name in self.__dataclass_fields__)
        return _factory, (list(self.pipeline_config.custom_architectures), pickle.dumps(fields))


def _factory(modules: list[str], pickled: bytes) -> PipelineFactory:
    """A factory of its pickled fields, after ``modules`` are imported."""
    for spec in modules:
        custom_architectures(spec)
    return PipelineFactory(*pickle.loads(pickled))


class PipelineRegistry:
    """The architectures that are known, by name.

    Configurations and tokenizers of checkpoints are kept, so that each is read once.

    Args:
        architectures: The architectures to begin with.

    Attributes:
        architectures: The architectures by name.

    Example:
        >>> registry = PipelineRegistry([])
        >>> registry
        PipelineRegistry(0 architectures)
    """

    architectures: dict[str, SupportedArchitecture]

    def __init__(self, architectures: Iterable[SupportedArchitecture]) -> None:
        self.architectures = {}
        self._configs = _Kept(config_of)
        self._tokenizers = _Kept(_tokenizer_of)
        for architecture in architectures:
            self.register(architecture)

    def __repr__(self) -> str:
        count = len(self.architectures)
        return f"PipelineRegistry({count} architecture{'s' * (count != 1)})"

    def register(
        self, architecture: SupportedArchitecture, *, allow_override: bool = False
    ) -> None:
        """Adds an architecture. One that is there already, with the same fields, is left alone.

        Args:
            architecture: The architecture.
            allow_override: Whether it may take the place of another of its name.

        Raises:
            InputTypeError: ML980, it is no `SupportedArchitecture`.
            InputError: ML171 (a ValueError), there is another of its name.
        """
        self._check(architecture, allow_override)
        self.architectures[architecture.name] = architecture

    def _check(self, architecture: SupportedArchitecture, allow_override: bool) -> None:
        """Raises unless ``architecture`` can be added."""
        fields.instance(SupportedArchitecture)("architecture", architecture)
        known = self.architectures.get(architecture.name)
        if known is None or known == architecture or allow_override:
            return
        differ = [name for name in vars(known) if getattr(known, name) != vars(architecture)[name]]
        raise InputError(
            "ML171",
            f"there is an architecture {architecture.name!r} already, and this one has another "
            f"{', '.join(differ)}",
            fix="give it another name, or pass allow_override=True to replace the one there is",
        )

    def register_custom(self, specs: Iterable[str]) -> None:
        """Adds the architectures of modules of users; those of a module all together.

        Args:
            specs: Names of modules, or ``"folder:module"``; each has a list ``ARCHITECTURES``.

        Raises:
            InputError: ML133 (a ValueError), a module cannot be imported or has no such list;
                ML171, there is another architecture of a name.
        """
        for spec in specs:
            found = custom_architectures(spec)
            for architecture in found:
                self._check(architecture, allow_override=False)
            for architecture in found:
                self.register(architecture)

    def reset(self) -> None:
        """Forgets all architectures, configurations and tokenizers."""
        self.architectures.clear()
        self._configs.clear()
        self._tokenizers.clear()

    # ------------------------------------------------------------ checkpoints
    def get_active_huggingface_config(self, huggingface_repo: HuggingFaceRepo) -> Any:
        """The configuration of a checkpoint, a ``PretrainedConfig``.

        It is read once while the files stay as they are.

        Args:
            huggingface_repo: The repository or folder.

        Raises:
            InputError: ML132 (a ValueError), it cannot be read.
            MissingPackageError: ML979, transformers is not installed.
        """
        return self._configs.of(huggingface_repo)

    def get_active_tokenizer(self, huggingface_repo: HuggingFaceRepo) -> Any:
        """The tokenizer of a checkpoint, as transformers has it.

        It is loaded once while the files stay as they are.

        Args:
            huggingface_repo: The repository or folder.

        Raises:
            FileError: ML151, ML152, its files are not there, or cannot be read (an OSError).
            UnsupportedError: ML153, it needs code of its own, which is not trusted.
            MissingPackageError: ML979, transformers is not installed.
        """
        return self._tokenizers.of(huggingface_repo)

    def retrieve_architecture(
        self, huggingface_repo: HuggingFaceRepo
    ) -> SupportedArchitecture | None:
        """The architecture of a checkpoint; None where none of those it names is known.

        Args:
            huggingface_repo: The repository or folder.

        Raises:
            InputError: ML132 (a ValueError), its configuration cannot be read.
        """
        names = self.get_active_huggingface_config(huggingface_repo).architectures or []
        return next(
            (self.architectures[name] for name in names if name in self.architectures), None
        )

    # ------------------------------------------------------------ pipelines
    def retrieve_pipeline_task(self, pipeline_config: PipelineConfig) -> PipelineTask:
        """The task of the architecture of a configuration's checkpoint.

        Args:
            pipeline_config: The configuration.

        Raises:
            InputError: ML172 (a ValueError), no architecture fits.
        """
        return self._architecture(pipeline_config, None).task

    def retrieve_tokenizer(
        self, pipeline_config: PipelineConfig, override_architecture: str | None = None
    ) -> PipelineTokenizer[Any, Any, Any]:
        """The tokenizer of a configuration's checkpoint.

        The tokenizer of the architecture is called with the path of the checkpoint, and with those
        of these keywords that it takes: ``revision``, ``max_length``, ``trust_remote_code``,
        ``pipeline_config``, ``chat_template``, ``context_validators`` and
        ``enable_llama_whitespace_fix``.

        Args:
            pipeline_config: The configuration.
            override_architecture: The name of the architecture to take, whatever the checkpoint
                says.

        Raises:
            InputError: ML172 (a ValueError), no architecture fits.
        """
        return self._tokenizer(
            pipeline_config, self._architecture(pipeline_config, override_architecture)
        )

    def retrieve_factory(
        self,
        pipeline_config: PipelineConfig,
        task: PipelineTask = PipelineTask.TEXT_GENERATION,
        override_architecture: str | None = None,
    ) -> tuple[PipelineTokenizer[Any, Any, Any], PipelineFactory]:
        """The tokenizer, and a function that makes the pipeline; it can be sent to a process.

        Args:
            pipeline_config: The configuration.
            task: What the pipeline is for.
            override_architecture: The name of the architecture to take, whatever the checkpoint
                says.

        Raises:
            InputError: ML172, no architecture fits; ML174, the architecture has another task;
                ML179, a required argument is no setting (each a ValueError).
        """
        architecture = self._architecture(pipeline_config, override_architecture)
        fields.instance(PipelineTask)("task", task)
        if architecture.task is not task:
            raise InputError(
                "ML174",
                f"a model for {task.value} expected ≠ {architecture.name} for "
                f"{architecture.task.value} given",
                fix="pass task=registry.retrieve_pipeline_task(pipeline_config)",
            )
        pipeline = get_pipeline_for_task(task, pipeline_config)
        self._prepare(pipeline_config, architecture)
        tokenizer = self._tokenizer(pipeline_config, architecture)
        draft = pipeline_config.draft_model_config
        factory = PipelineFactory(
            pipeline,
            pipeline_config,
            architecture.pipeline_model,
            # Tokenizers of models of embeddings may have no such token.
            None if task is PipelineTask.EMBEDDINGS_GENERATION else tokenizer.eos,
            architecture.weight_adapters,
            tokenizer,
            None if draft is None else self.retrieve_architecture(draft.huggingface_model_repo),
        )
        return tokenizer, factory

    def retrieve(
        self,
        pipeline_config: PipelineConfig,
        task: PipelineTask = PipelineTask.TEXT_GENERATION,
        override_architecture: str | None = None,
    ) -> tuple[PipelineTokenizer[Any, Any, Any], PipelineTypes]:
        """The tokenizer, and the pipeline with its model compiled and its weights loaded.

        Args:
            pipeline_config: The configuration.
            task: What the pipeline is for.
            override_architecture: The name of the architecture to take, whatever the checkpoint
                says.

        Raises:
            InputError: As by `retrieve_factory`.
            UnsupportedError: As by the pipeline, such as for a setting that it does not read.
        """
        tokenizer, factory = self.retrieve_factory(pipeline_config, task, override_architecture)
        return tokenizer, factory()

    def _architecture(self, config: PipelineConfig, override: str | None) -> SupportedArchitecture:
        """The architecture that fits a configuration."""
        self.register_custom(config.custom_architectures)
        repo = config.model_config.huggingface_model_repo
        if override is not None:
            asked = [override]
            source = "override_architecture is"
        else:
            asked = self.get_active_huggingface_config(repo).architectures or []
            source = f"{repo.repo_id} names the"
        for name in asked:
            if name in self.architectures:
                return self.architectures[name]
        raise self._none_fits(asked, source)

    def _prepare(self, config: PipelineConfig, architecture: SupportedArchitecture) -> None:
        """Resolves a configuration by ``architecture``, which may be newer than it."""
        config.resolve()
        if not config.force:
            set_required(config, architecture)
        encoding = config.model_config.quantization_encoding
        if encoding not in architecture.supported_encodings:
            raise InputError(
                "ML182",
                f"an encoding of {architecture.name} expected: "
                f"{', '.join(architecture.supported_encodings)} ≠ {encoding} given",
                fix="pass quantization_encoding, or take weights of one of them",
            )

    def _none_fits(self, asked: list[str], source: str) -> InputError:
        from difflib import get_close_matches

        near = [one for name in asked for one in get_close_matches(name, self.architectures, 1)]
        known = ", ".join(sorted(self.architectures)) or "none"
        named = ", ".join(asked) or "none"
        return InputError(
            "ML172",
            f"{source} architecture {named}, which is not registered",
            why=[f"registered: {known}"],
            fix=f"did you mean override_architecture={near[0]!r}?"
            if near
            else "register it, or name the module that has it in custom_architectures",
        )

    def _tokenizer(
        self, config: PipelineConfig, architecture: SupportedArchitecture
    ) -> PipelineTokenizer[Any, Any, Any]:
        """The tokenizer of ``architecture`` for the checkpoint of ``config``."""
        model = config.model_config
        repo = model.huggingface_model_repo
        longest = architecture.pipeline_model.calculate_max_seq_len(
            config, self.get_active_huggingface_config(repo)
        )
        offered = {
            "revision": repo.revision,
            "max_length": longest,
            "trust_remote_code": repo.trust_remote_code,
            "pipeline_config": config,
            "chat_template": config.retrieve_chat_template(),
            "context_validators": architecture.context_validators,
            "enable_llama_whitespace_fix": True,
        }
        make = architecture.tokenizer
        return make(
            model.model_path,
            **{name: value for name, value in offered.items() if takes(make, name)},
        )

    def _rows(self) -> list[tuple[str, ...]]:
        """The rows of the table, one for each architecture."""
        return [
            (
                name,
                one.task.value,
                encodings_of(one),
                formats_of(one),
                one.pipeline_model.__name__,
                ", ".join(one.example_repo_ids),
            )
            for name, one in sorted(self.architectures.items())
        ]

    def _repr_html_(self) -> str:
        if not self.architectures:
            return table((), [("register() adds an architecture",)], caption=repr(self))
        return table(_HEAD, self._rows(), caption=repr(self), wide=True)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(
            "\n".join([repr(self), *(aligned([_HEAD, *rows]) if (rows := self._rows()) else [])])
        )


class _Kept:
    """Values that are made of the files of a checkpoint, each made once while these stay as they
    are.

    Args:
        make: Makes the value of a repository.
    """

    def __init__(self, make: Callable[[HuggingFaceRepo], Any]) -> None:
        self._make = make
        self._values: dict[tuple[str, str, bool], tuple[object, Any]] = {}

    def of(self, repo: HuggingFaceRepo) -> Any:
        """The value of a repository."""
        place, stamp = repo.repo_id, None
        if repo.repo_type is RepoType.local:
            place = os.path.realpath(os.path.expanduser(place))
            stamp = _stamp(place)
        key = (place, repo.revision, repo.trust_remote_code)
        known = self._values.get(key)
        if known is None or known[0] != stamp:
            self._values[key] = known = (stamp, self._make(repo))
        return known[1]

    def clear(self) -> None:
        """Forgets all values."""
        self._values.clear()


def _stamp(folder: str) -> object:
    """Changes when a small file of ``folder`` is written, added or removed."""
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(_SMALL_FILES) and entry.is_file():
                status = entry.stat()
                found.append((entry.name, status.st_mtime_ns, status.st_size, status.st_ino))
    return sorted(found)


def _tokenizer_of(repo: HuggingFaceRepo) -> Any:
    return load("AutoTokenizer", repo.repo_id, repo.revision, repo.trust_remote_code)


PIPELINE_REGISTRY = PipelineRegistry([])
"""The registry that pipelines use."""
use_registry(PIPELINE_REGISTRY)  # configurations are resolved by it

__all__ = [
    "PIPELINE_REGISTRY",
    "PipelineFactory",
    "PipelineRegistry",
    "PipelineTypes",
    "SupportedArchitecture",
    "get_pipeline_for_task",
]

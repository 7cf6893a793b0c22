"""A model in a folder, in the cache or on a hub: which files of weights it has, and how they are
encoded."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maxlab.engine.times import size_text
from maxlab.errors import RepositoryError, UnreachableError, WeightError, shown
from maxlab.graph.staged import placed
from maxlab.graph.weights import WeightsFormat
from maxlab.markup import escape
from maxlab.pipelines.lib.config_enums import RepoType, SupportedEncoding
from maxlab.pipelines.lib.hf_utils import encodings, listing
from maxlab.pipelines.lib.hf_utils.access import asked, no_file
from maxlab.pipelines.lib.hf_utils.cache import snapshot_of
from maxlab.pipelines.lib.hf_utils.encodings import Told
from maxlab.pipelines.lib.hf_utils.listing import Checkpoint, Listing
from maxlab.pipelines.lib.hf_utils.names import (
    as_folder,
    below,
    check_file_name,
    check_repo_id,
    check_revision,
    no_folder,
    refuse_revision,
)
from maxlab.tabular import Field, Tabular, aligned, first_rows

if TYPE_CHECKING:
    from huggingface_hub import ModelInfo  # type: ignore[import-not-found,unused-ignore]

_HEADS = ("file", "format", "encoding", "size [B]")
_MOST_ROWS = 40
"""Files that a view shows."""


@dataclass(frozen=True, init=False)
class HuggingFaceRepo(Tabular):
    """A model of Hugging Face: a folder of this machine, or a repository of a hub.

    A folder is read where it lies, without the network and without ``huggingface_hub``. Of a
    repository the cache is looked at first: where it has a whole checkpoint of the revision, its
    files are all that is told, and the network is not used. Otherwise the hub is asked when the
    object is made, once, and again after a while where it cannot be reached. As the last value of
    a cell it is a table of its files.

    Args:
        repo_id: A folder, or the id of a repository, such as ``"HuggingFaceTB/SmolLM2-135M"``.
        revision: A branch, a tag, or the hash of a commit; a folder has none but ``main``.
        trust_remote_code: Whether whoever loads the model may run Python files of the repository.
            Nothing here does: it is kept for ``transformers``, which asks for it.
        repo_type: Where it lies; None for a folder where there is one, else a hub.

    Raises:
        RepositoryError: (a ValueError) ML111, a name that none can have; ML112, no such folder;
            ML113 to ML120, as `validate_hf_repo_access`; ML124, a folder with a revision.
        MissingPackageError: ML979, ``huggingface_hub`` is not installed, and it is no folder.

    Example:
        >>> repo = HuggingFaceRepo("models/tiny")  # doctest: +SKIP
        >>> repo.supported_encodings  # doctest: +SKIP
        [<SupportedEncoding.bfloat16: 'bfloat16'>]
    """

    repo_id: str
    """The folder, or the id of the repository."""
    revision: str = "main"
    """The branch, the tag or the commit."""
    trust_remote_code: bool = False
    """Whether whoever loads the model may run Python files of the repository."""
    repo_type: RepoType | None = None
    """Where it lies; told from ``repo_id`` when it is None."""

    @placed
    def __init__(
        self,
        repo_id: str,
        revision: str = "main",
        trust_remote_code: bool = False,
        repo_type: RepoType | None = None,
    ) -> None:
        if isinstance(repo_id, os.PathLike):
            repo_id = os.fspath(repo_id)
        if repo_type is None:
            repo_type = RepoType.online if as_folder(repo_id) is None else RepoType.local
        elif repo_type not in [str(one) for one in RepoType]:
            raise RepositoryError(
                "ML111",
                f"repo_type is online or local, got {shown(repo_type)}",
                fix="leave it out: it is told from repo_id",
            )
        kept = self.__dict__  # the fields are frozen for everybody else
        kept["repo_id"], kept["revision"] = repo_id, check_revision(revision)
        kept["trust_remote_code"], kept["repo_type"] = trust_remote_code, RepoType(repo_type)
        if self.repo_type is RepoType.online:
            check_repo_id(self.repo_id)
            _ = self._listing  # errors are told here, not where a file is needed
        else:
            refuse_revision(self._folder, self.revision)

    @property
    def _folder(self) -> Path:
        """The folder of a model of this machine."""
        folder = as_folder(self.repo_id)
        if folder is None:
            raise no_folder(self.repo_id)
        return folder

    # ------------------------------------------------------------ files

    @cached_property
    def _listing(self) -> Listing:
        """The files, from the nearest place that has enough of them."""
        if self.repo_type is RepoType.local:
            return listing.in_folder(self._folder)
        snapshot = snapshot_of(self.repo_id, self.revision)
        cached = None if snapshot is None else listing.in_cache(snapshot)
        if cached is not None and listing.is_filled(cached.sizes):
            return cached
        try:
            return listing.on_hub(self.repo_id, self.revision)
        except UnreachableError:
            if cached is not None and cached.sizes:
                return cached
            raise

    @cached_property
    def _on_hub(self) -> Listing | None:
        """The files as the hub tells them; None of a folder, and where no hub can be reached."""
        if self.repo_type is RepoType.local:
            return None
        if self._listing.place == "hub":
            return self._listing
        try:
            return listing.on_hub(self.repo_id, self.revision)
        except UnreachableError:
            return None

    @property
    @placed
    def weight_files(self) -> dict[WeightsFormat, list[str]]:
        """The files of weights by format, relative to the root; formats without files are left out.

        Of safetensors and PyTorch files those of the root count, and those of folders where the
        root has none. Files that begin with ``consolidated``, ``mmproj`` or ``adapter_model`` count
        where there are no others.

        Raises:
            RepositoryError: ML123, a file is a link that leads out of the folder.
        """
        return {format: list(names) for format, names in self._weight_files.items()}

    @cached_property
    def _weight_files(self) -> dict[WeightsFormat, list[str]]:
        found = listing.weight_files(self._listing.sizes)
        if self._listing.root is not None:
            for name in (name for names in found.values() for name in names):
                self._listing.path(name)
        return found

    @property
    def formats_available(self) -> list[WeightsFormat]:
        """The formats that there are files of: safetensors first, then GGUF, then PyTorch."""
        return list(self._weight_files)

    @placed
    def file_exists(self, filename: str) -> bool:
        """True if the model has the file, named relative to its root.

        Of weights that the cache lacks the hub is asked; of other files a cache that has a whole
        checkpoint is believed.

        Raises:
            RepositoryError: ML111, a name that leads out of the repository; ML123, a link that
                does.
        """
        name = check_file_name(filename)
        found = self._listing
        if found.root is not None and found.path(name).is_file():
            return True
        return name in self._listing_for(name).sizes

    @placed
    def size_of(self, filename: str) -> int | None:
        """The bytes of a file; None where there is no such file, or the hub does not tell.

        Raises:
            RepositoryError: ML111, a name that leads out of the repository; ML123, a link that
                does.
        """
        name = check_file_name(filename)
        found = self._listing
        if found.root is not None and (path := found.path(name)).is_file():
            return path.stat().st_size
        return self._listing_for(name).sizes.get(name)

    def _listing_for(self, name: str) -> Listing:
        """The listing to look a name up in: that of the hub for weights that the cache lacks."""
        found = self._listing
        if found.place == "cache" and name not in found.sizes and listing.format_of(name):
            return self._on_hub or found
        return found

    @property
    @placed
    def info(self) -> ModelInfo:
        """The description by the hub, with its files and their sizes; asked once.

        Raises:
            RepositoryError: ML124, a folder, which no hub describes; ML113 to ML120, as
                `validate_hf_repo_access`.
        """
        if self.repo_type is RepoType.local:
            raise RepositoryError(
                "ML124",
                f"{shown(self.repo_id, 200)} is a folder, which no hub describes",
                fix="weight_files, supported_encodings and size_of tell of folders too",
            )
        found = self._on_hub
        if found is None:  # it may be reached by now, or the error says why not
            found = self.__dict__["_on_hub"] = listing.on_hub(self.repo_id, self.revision)
        assert found.info is not None
        return found.info

    # ------------------------------------------------------------ encodings

    @property
    @placed
    def supported_encodings(self) -> list[SupportedEncoding]:
        """The encodings that there are weights of, each once, in the order of the formats.

        A file of this machine is read for it, as far as its head. On a hub a GGUF file tells it by
        its name, and safetensors by what the hub knows of their dtypes.

        Raises:
            WeightError: ML632, ML633 or ML637, none of the files can be read.
        """
        told = [self._told(one) for one in self._checkpoints(self._listing)]
        found = dict.fromkeys(one.encoding for one in told if one.encoding is not None)
        _raise_unread(told)
        return list(found)

    @placed
    def files_for_encoding(
        self, encoding: SupportedEncoding, weights_format: WeightsFormat | None = None
    ) -> dict[WeightsFormat, list[Path]]:
        """The files of one checkpoint in an encoding for each format, relative to the root.

        They can be loaded together: of several checkpoints of one format, such as the variants
        ``Q4_K_M`` and ``Q4_K_S``, it is the first by name. Where the cache has none, the hub is
        asked.

        Args:
            encoding: The encoding.
            weights_format: The format; None for all.

        Raises:
            RepositoryError: ML116, a shard of the checkpoint is not there; ML121, ``encoding`` is
                none.
            WeightError: ML632, ML633 or ML637, none of the files can be read.
        """
        if encoding not in [str(one) for one in SupportedEncoding]:
            raise _unknown(f"there is no encoding {shown(encoding)}")
        encoding = SupportedEncoding(encoding)
        format = None if weights_format is None else WeightsFormat(weights_format)
        found = self._files_for(self._listing, encoding, format)
        if not found and self._listing.place == "cache" and self._on_hub is not None:
            found = self._files_for(self._on_hub, encoding, format)
        if not found:
            checkpoints = self._checkpoints(self._listing)
            _raise_unread([self._told(one) for one in checkpoints if format in (None, one.format)])
        return found

    def _files_for(
        self, of: Listing, encoding: SupportedEncoding, format: WeightsFormat | None
    ) -> dict[WeightsFormat, list[Path]]:
        found: dict[WeightsFormat, list[Path]] = {}
        for one in self._checkpoints(of):
            if one.format in found or format not in (None, one.format):
                continue
            if self._told(one, of).encoding is encoding:
                if one.lacks:
                    raise no_file(self.repo_id, self._shown_revision, one.lacks[0], ())
                found[one.format] = [Path(name) for name in one.files]
        return found

    @placed
    def encoding_for_file(self, file: str | Path) -> SupportedEncoding:
        """The encoding of a file of weights, named relative to the root or, of a folder, by its
        path.

        Raises:
            RepositoryError: ML111, a name that leads out of the repository; ML116, no such file;
                ML121, the file tells no encoding that maxlab knows.
            WeightError: ML632, ML633 or ML637, the file cannot be read.
        """
        root = self._listing.root
        name = check_file_name(file) if root is None else below(root, file)
        of = self._listing_for(name)
        if name not in of.sizes:
            raise no_file(self.repo_id, self._shown_revision, name, ())
        format = listing.format_of(name)
        told = Told(None, "its suffix is that of no file of weights")
        if format is not None:
            shards = [one for one in self._checkpoints(of) if name in one.files]
            told = self._told(shards[0] if shards else Checkpoint(format, (name,)), of)
        if told.error is not None:
            raise told.error
        if told.encoding is None:
            raise _unknown(
                f"the encoding of the weights of {shown(name, 200)} is none that maxlab knows: "
                f"{told.why}"
            )
        return told.encoding

    @property
    def _shown_revision(self) -> str:
        return "" if self.repo_type is RepoType.local else self.revision

    def _checkpoints(self, of: Listing) -> list[Checkpoint]:
        files = self._weight_files if of is self._listing else listing.weight_files(of.sizes)
        return listing.checkpoints(files, of.sizes)

    def _told(self, one: Checkpoint, of: Listing | None = None) -> Told:
        """The encoding that a checkpoint tells, which is remembered."""
        of = self._listing if of is None else of
        known: dict[tuple[str, str], Told] = self.__dict__.setdefault("_known", {})
        key = of.place, one.files[0]
        if key not in known:
            try:
                known[key] = self._told_here(one, of) if of.root else self._told_by_hub(one, of)
            except WeightError as error:
                known[key] = Told(None, f"not readable: {error.what}", error)
        return known[key]

    def _told_here(self, one: Checkpoint, of: Listing) -> Told:
        config = of.path("config.json")
        method = encodings.method_of(encodings.read_config(config) if config.is_file() else None)
        return encodings.told_by_file([of.path(name) for name in one.files], one.format, method)

    def _told_by_hub(self, one: Checkpoint, of: Listing) -> Told:
        assert of.info is not None
        method = encodings.method_of(of.info.config)
        if one.format is not WeightsFormat.safetensors:
            return encodings.told_by_name(one.files[0])
        if self._needs_head(one, of):
            return self._told_by_remote_head(one.files[0], method)
        info: Any = of.info
        return encodings.told_by_counts(info.safetensors.parameters, (), method)

    def _needs_head(self, one: Checkpoint, of: Listing | None = None) -> bool:
        """True if only the head of a file of a hub tells its encoding.

        What hubs tell of the dtypes of safetensors is of a repository with one checkpoint of them.
        """
        of = self._listing if of is None else of
        if one.format is not WeightsFormat.safetensors:
            return False
        same = [other for other in self._checkpoints(of) if other.format is one.format]
        return of.info is None or of.info.safetensors is None or len(same) > 1

    def _told_by_remote_head(self, name: str, method: str | None) -> Told:
        """The encoding that the head of a file of a hub tells; the head alone is downloaded."""
        from huggingface_hub import HfApi
        from huggingface_hub.errors import SafetensorsParsingError

        from maxlab.pipelines.lib.hf_utils.access import endpoint

        api = HfApi(endpoint=endpoint())
        try:
            head: Any = asked(
                lambda: api.parse_safetensors_file_metadata(
                    self.repo_id, name, revision=self.revision
                ),
                self.repo_id,
                self.revision,
                name,
            )
        except SafetensorsParsingError:
            return encodings.told_by_name(name)
        return encodings.told_by_counts(head.parameter_count, head.tensors, method)

    # ------------------------------------------------------------ views

    def _heads(self) -> Sequence[str]:
        return _HEADS

    def _records(self) -> Iterable[Sequence[Field]]:
        told: dict[str, tuple[str, str]] = {}
        for one in self._checkpoints(self._listing):
            words = self._words(one)
            told |= dict.fromkeys(one.files, (one.format.value, words))
            for name in one.lacks:
                yield name, one.format.value, "missing", None
        weights = sorted(told)
        rest = sorted(name for name in self._listing.sizes if name not in told)
        for name in [*weights, *rest]:
            format, encoding = told.get(name, (None, None))
            yield name, format, encoding, self._listing.sizes[name]

    def _words(self, one: Checkpoint) -> str:
        if self._listing.place == "hub" and self._needs_head(one):
            return ""  # a view asks no hub
        told = self._told(one)
        return str(told.encoding) if told.encoding is not None else f"unknown: {told.why}"

    @property
    def _where(self) -> str:
        words = {"folder": "a folder", "cache": "in the cache", "hub": "on the hub"}
        return words[self._listing.place]

    def _cells(self) -> tuple[list[tuple[str, str, str, str]], str]:
        """The first rows of the table as texts, and a line about the others."""
        try:
            rows = [
                (str(name), str(format or ""), str(encoding or ""), _size(size))
                for name, format, encoding, size in self._records()
            ]
        except RepositoryError as error:  # a view says what is wrong, and raises nothing
            return [], error.what
        shown_rows = list(first_rows(rows, _MOST_ROWS))
        left = len(rows) - len(shown_rows)
        return shown_rows, f"and {left} more" if left else ""

    def _title(self) -> str:
        at = f" at {self.revision}" if self._shown_revision else ""
        return f"{self.repo_id}{at}, {self._where}"

    def __str__(self) -> str:
        rows, more = self._cells()
        lines = aligned([("file", "format", "encoding", "size"), *rows], right=(3,))
        return "\n".join([self._title(), "", *lines, *([more] if more else [])])

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))

    def _repr_html_(self) -> str:
        """The files as a table, for the last value of a cell."""
        rows, more = self._cells()
        head = "".join(f"<th>{word}</th>" for word in ("file", "format", "encoding", "size"))
        body = "".join(
            "<tr>"
            + "".join(f'<td style="text-align:left">{escape(cell)}</td>' for cell in cells)
            + f'<td style="text-align:right;white-space:nowrap">{escape(size)}</td></tr>'
            for *cells, size in rows
        )
        return (
            '<table class="maxlab-repo" style="margin:0"><caption style="text-align:left">'
            f"{escape(self._title())}</caption><thead><tr>{head}</tr></thead>"
            f"<tbody>{body}</tbody></table>" + (f"<p>{escape(more)}</p>" if more else "")
        )


def _unknown(what: str) -> RepositoryError:
    return RepositoryError(
        "ML121", what, fix="the encodings are " + ", ".join(map(str, SupportedEncoding))
    )


def _raise_unread(told: Sequence[Told]) -> None:
    """Raise why the first file could not be read, if none of them could."""
    errors = [one.error for one in told if one.error is not None]
    if errors and len(errors) == len(told):
        raise errors[0]


def _size(size: Field) -> str:
    return size_text(size) if isinstance(size, int) else ""


__all__ = ["HuggingFaceRepo"]

"""Tokenizers out of folders and repositories; every file that is wrong is named.

Code that lies in a folder is run only with ``trust_remote_code=True``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from maxlab import files
from maxlab.errors import FileError, MaxlabError, MissingFileError, UnsupportedError, shown
from maxlab.interfaces import fields
from maxlab.pipelines.lib.hf_utils import HuggingFaceRepo
from maxlab.pipelines.lib.hf_utils.names import as_folder
from maxlab.pipelines.lib.model_files import generation_config_of
from maxlab.pipelines.lib.tokenizer import packages

MOST_BYTES = 256 << 20
"""The largest file of a tokenizer that is read."""
_ANY_OF = [
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "spiece.model",
    "sentencepiece.bpe.model",
    "vocab.json",
    "vocab.txt",
    "tekken.json",
    "tiktoken.model",
]
"""A folder with none of these has no tokenizer."""

_Check = Callable[[Any], bool]


def _is_token(value: Any) -> bool:
    """Whether ``value`` is a special token: None, its text, or a dict with it."""
    if isinstance(value, dict):
        return isinstance(value.get("content"), str)
    return value is None or isinstance(value, str)


def _is_tokens(value: Any) -> bool:
    if isinstance(value, list):
        return all(map(_is_token, value))
    if isinstance(value, dict) and "content" not in value:
        return all(map(_is_token, value.values()))
    return _is_token(value)


def _is_templates(value: Any) -> bool:
    if isinstance(value, list):
        return all(
            isinstance(one, dict)
            and isinstance(one.get("name"), str)
            and isinstance(one.get("template"), str)
            for one in value
        )
    if isinstance(value, dict):
        return all(isinstance(one, str) for one in value.values())
    return value is None or isinstance(value, str)


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))


def _is_ids(value: Any) -> bool:
    def is_id(one: Any) -> bool:
        return isinstance(one, int) and not isinstance(one, bool) and 0 <= one <= fields.INT32

    return value is None or is_id(value) or (isinstance(value, list) and all(map(is_id, value)))


_SPECIAL: dict[str, tuple[_Check, str]] = {
    f"{name}_token": (_is_token, "a text, or an object with a text under 'content'")
    for name in ("bos", "eos", "unk", "sep", "pad", "cls", "mask")
} | dict.fromkeys(
    ("additional_special_tokens", "extra_special_tokens"),
    (_is_tokens, "a list of special tokens"),
)
_EOS: dict[str, tuple[_Check, str]] = {"eos_token_id": (_is_ids, "an id of a token, or a list")}
_SMALL: dict[str, dict[str, tuple[_Check, str]]] = {
    "tokenizer_config.json": {
        **_SPECIAL,
        "chat_template": (_is_templates, "a text, or a list of objects with name and template"),
        "model_max_length": (_is_number, "a number"),
        "tokenizer_class": (lambda value: value is None or isinstance(value, str), "a text"),
        "added_tokens_decoder": (
            lambda value: value is None or (isinstance(value, dict) and _is_tokens(value)),
            "an object of special tokens",
        ),
    },
    "special_tokens_map.json": _SPECIAL,
    "generation_config.json": _EOS,
    "config.json": _EOS,
}
"""The files that are checked before a tokenizer is made: their fields, and what each holds."""


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object in a file.

    Raises:
        FileError: ML002, it cannot be read; ML152, it is no JSON object.
    """
    text = files.read_text(path, "the file of the tokenizer", most=MOST_BYTES)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FileError(
            "ML152",
            f"{path}: JSON expected ≠ {shown(text[:40], 60)} given: {error}",
            fix="download the file again: it may have been cut off",
        ) from error
    if not isinstance(value, dict):
        raise FileError("ML152", f"{path}: a JSON object expected ≠ {shown(value)} given")
    return value


def _checked(folder: Path, name: str) -> dict[str, Any]:
    """The object in a file of ``folder`` with its fields checked; empty without the file.

    Raises:
        FileError: ML152, it is no JSON object, or a field of it is wrong.
    """
    path = folder / name
    if not path.exists():
        return {}
    found = read_object(path)
    for field, (fits, expected) in _SMALL[name].items():
        if field in found and not fits(found[field]):
            raise FileError(
                "ML152",
                f"{path}: {field}: {expected} expected ≠ {shown(found[field])} given",
                fix="download the file again, or correct the field",
            )
    return found


def local_folder(model_path: str) -> Path | None:
    """The folder that ``model_path`` is; None when it can only be a repository's name.

    Raises:
        FileError: ML112, it is a path where nothing is, or a file.
        MissingFileError: ML151, it is a folder without a tokenizer.
    """
    path = as_folder(model_path)
    if path is not None and not any((path / name).exists() for name in _ANY_OF):
        raise MissingFileError(
            "ML151",
            f"{path} has no tokenizer: one of {', '.join(_ANY_OF[:3])} expected ≠ none found",
            fix="give the folder that the model's tokenizer was saved in",
        )
    return path


def load(kind: str, model_path: str, revision: str | None, trust_remote_code: bool) -> Any:
    """The tokenizer or processor that a class of transformers makes of a folder or a repository.

    Args:
        kind: The class, ``"AutoTokenizer"`` or ``"AutoProcessor"``.
        model_path: A folder, or the name of a repository.
        revision: A branch, tag or commit of the repository.
        trust_remote_code: Whether code of the folder or repository may run.

    Raises:
        MissingFileError: ML151, the folder has no tokenizer.
        FileError: ML112, nothing is there; ML152, a file cannot be read or is wrong.
        UnsupportedError: ML153, it needs code of its own, and that is not trusted.
        MissingPackageError: ML979, transformers or a package that it needs is not installed.
    """
    folder = local_folder(model_path)
    for name in _SMALL if folder else ():
        assert folder is not None
        _checked(folder, name)
    maker = getattr(packages.transformers(), kind)
    try:
        return maker.from_pretrained(
            str(folder) if folder else model_path,
            revision=revision or "main",
            trust_remote_code=trust_remote_code,
        )
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # a panic of the Rust library is no Exception
        raise _unloaded(folder, model_path, trust_remote_code, error) from error


def _unloaded(
    folder: Path | None, model_path: str, trusted: bool, error: BaseException
) -> MaxlabError:
    """The error for a tokenizer that cannot be made; of the files, the one that is wrong."""
    said = shown(str(error), 200)[1:-1]
    if isinstance(error, ImportError):
        from maxlab.errors import MissingPackageError

        return MissingPackageError(
            "ML979",
            f"the tokenizer of {model_path} needs a package that is not installed",
            why=[said],
            fix='pip install "maxlab[llm]", and the package that is named',
        )
    if not trusted and "trust_remote_code" in str(error):
        return UnsupportedError(
            "ML153",
            f"{model_path} has a tokenizer with code of its own, which is not run",
            fix="read the code; if you trust it, give trust_remote_code=True",
        )
    where: Path | str = model_path
    if folder is not None:
        try:
            where = _wrong_file(folder)
        except FileError as found:
            return found
    return FileError(
        "ML152",
        f"{where}: no tokenizer can be made of it: {type(error).__name__}: {said}",
        fix="download it again"
        if folder
        else "check the name, the revision, and that the network can be reached",
    )


def _wrong_file(folder: Path) -> Path:
    """The file to name when a tokenizer cannot be made, and no file is found to be wrong.

    Raises:
        FileError: ML152, a file is wrong.
    """
    path = folder / "tokenizer.json"
    if not path.exists():
        return folder
    found = read_object(path)
    if not isinstance(found.get("model"), dict):
        got = shown(found.get("model"))
        raise FileError("ML152", f"{path}: model: an object expected ≠ {got} given")
    return path


# ---------------------------------------------------------------- what else the files say
def eos_token_ids(repo: HuggingFaceRepo) -> set[int]:
    """The tokens that end a sequence by ``generation_config.json``, and by a folder's
    ``config.json``.

    Args:
        repo: The folder or repository of the model.

    Raises:
        FileError: ML152, a file of the folder is wrong.
        InputError: ML132, the file of the repository cannot be read.
    """
    folder = local_folder(repo.repo_id)
    if folder is None:
        return as_ids(getattr(generation_config_of(repo), "eos_token_id", None))
    found: set[int] = set()
    for name in ("config.json", "generation_config.json"):
        found |= as_ids(_checked(folder, name).get("eos_token_id"))
    return found


def as_ids(value: Any) -> set[int]:
    """The ids in a field of a configuration: None, one, or a list of them."""
    if isinstance(value, int):
        return {value}
    return set(value) if isinstance(value, (list, tuple, set)) else set()


def template_origin(model_path: str) -> str:
    """Where the chat template of a model lies: a file of the folder, or the repository's name."""
    folder = local_folder(model_path)
    if folder is None:
        return model_path
    for name in ("chat_template.jinja", "chat_template.json", "tokenizer_config.json"):
        path = folder / name
        if path.exists() and (name[-1] == "a" or "chat_template" in read_object(path)):
            return str(path)
    return str(folder)


__all__ = [
    "as_ids",
    "eos_token_ids",
    "load",
    "local_folder",
    "read_object",
    "template_origin",
]

"""The base of configurations: checked settings that know where their values came from.

A configuration is read from arguments of Python, from a YAML file, from the flags of a command and
from environment variables, in this order of priority: a program's arguments win over flags, flags
over a file, a file over the environment, and the environment over the defaults of the class.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any, ClassVar, NamedTuple, Self

from maxlab import files
from maxlab.errors import InputError, UnsupportedError, shown
from maxlab.pipelines.lib import config_files, config_flags, config_showing
from maxlab.pipelines.lib.settings import Origin, Setting, default_of, settings_of


def unknown_setting(name: str, owner: str, known: Iterable[str]) -> InputError:
    """The error for the setting ``name`` that ``owner`` does not have; tells the nearest names."""
    near = get_close_matches(name[:100], list(known), 3, 0.6)
    hint = f"did you mean {' or '.join(near)}?" if near else f"{owner}.help() tells all settings"
    return InputError("ML125", f"{owner} has no setting {shown(name)}", fix=hint)


class Place(NamedTuple):
    """Where a setting lies: its own name, the section of files it belongs to, and its facts."""

    section: str
    name: str
    owner: type[MAXConfig]
    setting: Setting


class MAXConfig:
    """The base of all configurations, which are dataclasses of settings.

    Assigning to a setting checks the value as the constructor does. Configurations are equal if
    their settings are, wherever these came from.
    """

    section: ClassVar[str] = ""
    """The name of the configuration's section in a file."""

    _flags: ClassVar[argparse.ArgumentParser]
    _origins: dict[str, Origin]
    _origin_now: Origin

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        new = super().__new__(cls)
        cls._refuse_unknown(kwargs)
        given = {*cls._argument_names()[: len(args)], *kwargs}
        vars(new)["_origins"] = {name: Origin.user for name in settings_of(cls) if name in given}
        vars(new)["_origin_now"] = Origin.user
        return new

    @classmethod
    def _argument_names(cls) -> list[str]:
        """The arguments of the constructor that may be given without their names, in order."""
        return list(settings_of(cls))

    @classmethod
    def _refuse_unknown(cls, names: Iterable[str]) -> None:
        """Raises for a keyword of the constructor that is no setting."""
        known = settings_of(cls)
        for name in names:
            if name not in known:
                raise unknown_setting(name, cls.__name__, known)

    def __post_init__(self) -> None:
        self._read_environment()

    def _read_environment(self) -> None:
        """Sets what environment variables say and nobody gave."""
        for name, found in settings_of(type(self)).items():
            text = os.environ.get(found.env, "") if found.env else ""
            if text and name not in self._origins:
                value = found.kind.read(f"{type(self).__name__}.{name}, of ${found.env}", text)
                setattr(self, name, value)
                self._origins[name] = Origin.environment

    def __setattr__(self, name: str, value: Any) -> None:
        found = settings_of(type(self)).get(name)
        if found is None:
            if not name.startswith("_") and not hasattr(type(self), name):
                raise unknown_setting(name, type(self).__name__, settings_of(type(self)))
            object.__setattr__(self, name, value)
            return
        kept = found.kind.kept(f"{type(self).__name__}.{name}", value)
        is_set = name in vars(self)
        if is_set and (self._origin_now is not Origin.resolved or vars(self)[name] != kept):
            self._origins[name] = self._origin_now
        object.__setattr__(self, name, kept)

    @contextmanager
    def _setting_as(self, origin: Origin) -> Iterator[None]:
        """A block in which assignments are told as ``origin``."""
        before = [(part, part._origin_now) for _, part in self._parts()]
        try:
            for part, _ in before:
                vars(part)["_origin_now"] = origin
            yield
        finally:
            for part, one in before:
                vars(part)["_origin_now"] = one

    # ------------------------------------------------------------ the flat view
    def _parts(self) -> list[tuple[str, MAXConfig]]:
        """The section of each configuration that this one is made of, itself first."""
        return [(self.section, self)]

    @classmethod
    def _places(cls) -> dict[str, Place]:
        """Every setting that the class takes as a keyword, by that keyword."""
        return {
            name: Place(cls.section, name, cls, found) for name, found in settings_of(cls).items()
        }

    def _part(self, section: str) -> MAXConfig | None:
        """The configuration of this section; None where there is none."""
        return dict(self._parts()).get(section)

    def _values(self) -> Iterator[tuple[str, Place, Any, Origin]]:
        """Each setting with its value and its origin, by keyword."""
        for keyword, place in self._places().items():
            part = self._part(place.section)
            if part is not None:
                origin = part._origins.get(place.name, Origin.default)
                yield keyword, place, getattr(part, place.name), origin

    def origin(self, name: str) -> Origin:
        """Where the value of the setting ``name`` came from.

        Raises:
            InputError: ML125, there is no such setting.

        Example:
            >>> from maxlab.pipelines.lib.kv_cache_config import KVCacheConfig
            >>> config = KVCacheConfig(kv_cache_page_size=256)
            >>> str(config.origin("kv_cache_page_size")), str(config.origin("cache_strategy"))
            ('user', 'default')
        """
        for keyword, _, _, origin in self._values():
            if keyword == name:
                return origin
        raise unknown_setting(name, type(self).__name__, self._places())

    def is_open(self, name: str) -> bool:
        """True if nobody decided the setting ``name``, so that ``resolve()`` may.

        Raises:
            InputError: ML125, there is no such setting.
        """
        return self.origin(name) in (Origin.default, Origin.resolved)

    def set_resolved(self, name: str, value: Any) -> bool:
        """Gives the setting ``name`` a value that ``resolve()`` chose; True if that changed it.

        A name that no part of this configuration has changes nothing.
        """
        place = self._places().get(name)
        part = None if place is None else self._part(place.section)
        if place is None or part is None:
            return False
        before = getattr(part, place.name)
        with self._setting_as(Origin.resolved):
            setattr(part, place.name, value)
        return bool(getattr(part, place.name) != before)

    @classmethod
    def _made(cls, values: dict[str, Any]) -> Self:
        """The configuration with these settings, by keyword."""
        return cls(**values)

    def _told_as(self, origins: Mapping[str, Origin]) -> Self:
        """This configuration, whose settings of the user have the origins given by keyword."""
        places = self._places()
        for keyword, origin in origins.items():
            place = places[keyword]
            part = self._part(place.section)
            if part is not None and part._origins.get(place.name) is Origin.user:
                part._origins[place.name] = origin
        return self

    def refuse_unread(self, read: Collection[str]) -> None:
        """Raises for a setting that was asked for, and that its reader does not read.

        A pipeline calls it with the settings that it reads itself, by keyword. Settings that
        maxlab reads before a pipeline is made are known here.

        Args:
            read: The keywords of the settings that the pipeline reads.

        Raises:
            UnsupportedError: ML127, a setting that nobody reads differs from its default (a
                NotImplementedError).
            InputError: ML125, ``read`` has a name that is no setting.

        Example:
            >>> from maxlab.pipelines.lib.kv_cache_config import KVCacheConfig
            >>> KVCacheConfig(host_kvcache_swap_space_gb=1).refuse_unread(
            ...     read={"host_kvcache_swap_space_gb"})
        """
        places = self._places()
        for name in read:
            if name not in places:
                raise unknown_setting(name, type(self).__name__, places)
        for keyword, place, value, origin in self._values():
            if place.setting.is_read or keyword in read:
                continue
            if origin in (Origin.default, Origin.resolved):
                continue
            default = default_of(place.owner, place.name)
            if value != default:
                raise UnsupportedError(
                    "ML127",
                    f"{place.owner.__name__}.{place.name} is {shown(value)}, and this pipeline "
                    "does not read it",
                    fix=f"leave it at its default, {default!r}",
                )

    # ------------------------------------------------------------ files
    @classmethod
    def from_config_file(cls, path: files.AnyPath, **kwargs: Any) -> Self:
        """The configuration that a YAML file describes; ``kwargs`` win over it.

        The file names settings, at its head or in sections such as ``model_config:``. It is data
        only: tags, anchors and aliases are refused, so that no file makes objects or grows.

        Args:
            path: The file, of at most 1 MiB.
            kwargs: Settings that replace those of the file.

        Raises:
            FileError: ML001, ML002, the file cannot be read.
            DocumentError: ML128, it is no such YAML.
            InputError: ML125, a setting that there is not; ML126, ML981, a value that a setting
                does not take.
        """
        return cls._from_document(cls._read_file(path), kwargs)

    @classmethod
    def from_yaml(cls, text: str, **kwargs: Any) -> Self:
        """The configuration that YAML describes, as by ``from_config_file``.

        Raises:
            DocumentError, InputError: As by ``from_config_file``.

        Example:
            >>> from maxlab.pipelines.lib.kv_cache_config import KVCacheConfig
            >>> KVCacheConfig.from_yaml("kv_cache_page_size: 256").kv_cache_page_size
            256
        """
        where = "the text"
        return cls._from_document(cls._read_sections(config_files.load(text, where), where), kwargs)

    @classmethod
    def _read_file(cls, path: files.AnyPath) -> dict[str, Any]:
        """The settings of a file, by keyword."""
        text = files.read_text(path, "the configuration", most=config_files.MOST_BYTES)
        where = str(files.as_path(path))
        return cls._read_sections(config_files.load(text, where), where)

    @classmethod
    def _from_document(cls, found: Mapping[str, Any], kwargs: Mapping[str, Any]) -> Self:
        values = {**found, **kwargs}
        origins = dict.fromkeys((name for name in found if name not in kwargs), Origin.file)
        return cls._made(values)._told_as(origins)

    @classmethod
    def _read_sections(cls, document: Mapping[str, Any], where: str) -> dict[str, Any]:
        """The settings of a document, by keyword."""
        places = cls._places()
        by_section: dict[str, dict[str, str]] = {}
        for keyword, place in places.items():
            by_section.setdefault(place.section, {})[place.name] = keyword
        found: dict[str, Any] = {}
        for name, value in document.items():
            inner = by_section.get(name)
            if inner is None:
                group = {name: value}
                names = {keyword: keyword for keyword in places}
            else:
                names = inner
                group = config_files.section(value, name, where)
            for key, one in group.items():
                if key not in names:
                    owner = cls.__name__ if inner is None else name
                    known = [*names, *by_section] if inner is None else names
                    error = unknown_setting(key, owner, known)
                    error.why = (f"{where} has it",)
                    raise InputError(error.code, error.what, why=error.why, fix=error.fix)
                keyword = names[key]
                if keyword in found:
                    raise config_files.twice(keyword, where)
                place = places[keyword]
                field = f"{place.owner.__name__}.{place.name}, of {where}"
                found[keyword] = config_files.value(place.setting.kind, field, one)
        return found

    def to_yaml(self) -> str:
        """YAML that ``from_yaml`` makes this configuration of: what was not left at its default.

        What ``resolve()`` chose is left out, so that it is chosen anew where the text is read.

        Example:
            >>> from maxlab.pipelines.lib.kv_cache_config import KVCacheConfig
            >>> print(KVCacheConfig(kv_cache_page_size=256).to_yaml())
            kv_cache_config:
              kv_cache_page_size: 256
            <BLANKLINE>
        """
        sections: dict[str, dict[str, Any]] = {}
        for _, place, value, _ in self._asked():
            plain = config_files.plain(place.setting.kind, value)
            sections.setdefault(place.section, {})[place.name] = plain
        return config_files.dump(sections)

    def _asked(self) -> Iterator[tuple[str, Place, Any, Origin]]:
        """The settings that were asked for: those neither at a default nor resolved."""
        for row in self._values():
            if row[3] not in (Origin.default, Origin.resolved):
                yield row

    # ------------------------------------------------------------ flags
    @classmethod
    def argument_parser(cls, prog: str | None = None) -> argparse.ArgumentParser:
        """A parser of command lines with a flag for each setting, such as ``--max-batch-size``.

        Its ``--help`` tells all flags. Lists repeat their flag; ``--no-NAME`` sets false;
        ``--config-file`` names a file whose settings the other flags replace.
        """
        places = cls._places()
        return config_flags.parser(
            {name: place.setting for name, place in places.items()}, prog or cls.__name__
        )

    @classmethod
    def from_arguments(cls, arguments: Sequence[str], **kwargs: Any) -> Self:
        """The configuration that the flags of a command line ask for; ``kwargs`` win over them.

        Args:
            arguments: The words of the command line, without the command.
            kwargs: Settings that replace those of the flags.

        Raises:
            InputError: ML125, there is no such flag; ML126, ML981, a value that a setting does not
                take; ML129, flags that cannot be read.

        Example:
            >>> from maxlab.pipelines.lib.kv_cache_config import KVCacheConfig
            >>> KVCacheConfig.from_arguments(["--kv-cache-page-size", "256"]).kv_cache_page_size
            256
        """
        places = cls._places()
        if "_flags" not in vars(cls):
            cls._flags = cls.argument_parser()
        texts = config_flags.read(cls._flags, arguments, cls.__name__)
        file = texts.pop(config_flags.CONFIG_FILE, None)
        in_file = {} if file is None else cls._read_file(str(file))
        by_flag = {
            name: config_flags.value(places[name].setting.kind, name, one)
            for name, one in texts.items()
        }
        origins = dict.fromkeys(in_file, Origin.file) | dict.fromkeys(by_flag, Origin.flags)
        origins = {name: one for name, one in origins.items() if name not in kwargs}
        return cls._made({**in_file, **by_flag, **kwargs})._told_as(origins)

    def to_arguments(self) -> list[str]:
        """Flags that ``from_arguments`` makes this configuration of: what was asked for.

        Example:
            >>> from maxlab.pipelines.lib.kv_cache_config import KVCacheConfig
            >>> KVCacheConfig(kv_cache_page_size=256, enable_prefix_caching=True).to_arguments()
            ['--kv-cache-page-size=256', '--enable-prefix-caching']
        """
        words: list[str] = []
        for keyword, place, value, _ in self._asked():
            words += config_flags.write(keyword, place.setting, value)
        return words

    # ------------------------------------------------------------ showing
    def rows(self) -> list[config_showing.Row]:
        """Each setting as a row of a table: its section, name, value, origin and help."""
        return [
            config_showing.Row(
                place.section,
                place.name,
                value,
                str(origin),
                default_of(place.owner, place.name),
                place.setting.help,
                place.setting.is_read,
            )
            for _, place, value, origin in self._values()
        ]

    def __str__(self) -> str:
        return config_showing.text(type(self).__name__, self.rows())

    def __repr__(self) -> str:
        told = ", ".join(f"{keyword}={value!r}" for keyword, _, value, _ in self._asked())
        return f"{type(self).__name__}({told})"

    def _repr_html_(self) -> str:
        """The settings as a table, for the last value of a cell."""
        return config_showing.page(type(self).__name__, self.rows())


def help_of(kind: type[MAXConfig]) -> Mapping[str, str]:
    """The help of each keyword of a class of configurations."""
    return {name: place.setting.help for name, place in kind._places().items()}


__all__ = ["MAXConfig", "Place", "help_of", "unknown_setting"]

"""The text that names a runner: `torch`, `torch:mkldnn=off,threads=1`, `tensorflow:env.TF_ENABLE_ONEDNN_OPTS=0`."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from samebits.engines.registry.known_engines import (
    ENGINES,
    find_class,
    find_plugin,
    is_file_engine,
    list_plugins,
    match_given_engine,
)
from samebits.engines.workers.emulated_cpu import NATIVE, check_model
from samebits.engines.workers.place import HERE, Place, check_host, check_image
from samebits.engines.workers.releases import Release, check_version, find_environment
from samebits.errors import RecipeError, RunnerTextError
from samebits.sums.recipes import Recipe, format_recipe, parse_recipe
from samebits.sums.recipes.hardware import find_unit_recipe

TRUTH = "truth"
EMULATE = "emulate"
_ENVIRONMENT = "env."
_PYTHON, _HOST, _IMAGE, _CPU, _VERSION = _PLACES = ("python", "ssh", "docker", "cpu", "version")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class RunnerText:
    """A runner's name, its settings, its process's environment variables and its place; for `emulate` the recipe."""

    name: str
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    recipe: Recipe | None = None
    place: Place = HERE


def parse_runner_text(text: str) -> RunnerText:
    """Reads and checks a runner's text without loading anything; raises RunnerTextError, which says what is known.

    `name[:key=value[,key=value...]]`; a comma inside a value is written `\\,`. `env.NAME=value` sets an environment
    variable before the engine is imported, `python=PATH` takes the engine of another Python, `ssh=HOST` that of another
    machine, `docker=IMAGE` that of a container; `cpu=MODEL` has it run as another processor, emulated, and
    `version=NUMBER` takes another release of its package.
    `FILE.py:NAME` is a class or function of a person's own, `onnx-backend:MODULE` whatever speaks ONNX's backend
    interface. After `emulate:` stands a recipe's text, or a matrix unit (`a100/tf32`). Raises RecipeError for one that
    cannot be read.
    """
    name, rest = _split_name(text)
    if name == EMULATE:
        return RunnerText(name, recipe=find_unit_recipe(rest) or parse_recipe(rest or "direct"))
    settings: dict[str, str] = {}
    environment: dict[str, str] = {}
    places: dict[str, str] = {}
    for part in _split_commas(rest) if rest else ():
        key, equals, value = part.partition("=")
        if not equals or not key:
            raise RunnerTextError(f"engine text {text!r}: {part!r} is no key=value")
        if key in {*settings, *places, *(_ENVIRONMENT + variable for variable in environment)}:
            raise RunnerTextError(f"engine text {text!r}: {key} is given twice")
        if key in _PLACES and name not in (TRUTH, EMULATE):
            places[key] = _check_place(text, key, value)
        elif key.startswith(_ENVIRONMENT):
            environment[_check_variable(key.removeprefix(_ENVIRONMENT), value)] = value
        else:
            _check_setting(name, key, value)
            settings[key] = value
    _check_places_together(text, name, places)
    if _CPU in places and places[_CPU] != NATIVE:
        _refuse_compiling(text, name, settings)
    cpu, version = places.get(_CPU), places.get(_VERSION)
    release = None if version is None else ENGINES[name].find_release(version)
    place = Place(places.get(_PYTHON), places.get(_HOST), places.get(_IMAGE), None if cpu == NATIVE else cpu, release)
    return RunnerText(name, settings, environment, place=place)


def can_be_typed(text: str) -> bool:
    """Whether a runner's text names an engine; functions and objects of a program have names that nobody can type."""
    try:
        parse_runner_text(text)
    except RunnerTextError:
        return False
    return True


def format_runner_text(runner: RunnerText) -> str:
    """The text that `parse_runner_text` reads back."""
    if runner.recipe:
        return f"{runner.name}:{format_recipe(runner.recipe)}"
    given = (
        (_HOST, runner.place.host),
        (_IMAGE, runner.place.image),
        (_PYTHON, runner.place.python),
        (_CPU, runner.place.cpu),
        (_VERSION, runner.place.release and runner.place.release.version),
    )
    places = [(key, value) for key, value in given if value]
    pairs = [*places, *runner.settings.items(), *((_ENVIRONMENT + k, v) for k, v in runner.environment.items())]
    joined = ",".join(f"{key}={value.replace(',', chr(92) + ',')}" for key, value in pairs)
    return f"{runner.name}:{joined}" if joined else runner.name


def _split_name(text: str) -> tuple[str, str]:
    """The runner's name, which is checked, and what follows its colon."""
    name, _, rest = text.partition(":")
    known = [TRUTH, EMULATE, *ENGINES]
    if name not in known:
        given = match_given_engine(text)
        plugins = _list_names()
        if given is not None:
            name, rest = given
        elif name in plugins:
            find_plugin(name)
        else:
            known = [*known, *sorted(plugins)]
            own = f"; {name}:NAME, a class or function in it" if name.endswith(".py") else ""
            hint = _ELSEWHERE if name.lower() in _OTHERS else _suggest(name, known)
            raise RunnerTextError(f"unknown engine {name!r}{hint}; known: {', '.join(known)}{own}")
    if text.removeprefix(name) == ":":
        raise RunnerTextError(f"engine text {text!r} ends after the colon; expected name:key=value,key=value")
    return name, rest


def _list_names() -> set[str]:
    """The names of engines that installed packages bring."""
    return {one.name for one in list_plugins()}


def _check_places_together(text: str, name: str, places: Mapping[str, str]) -> None:
    if _HOST in places and _IMAGE in places:
        raise RunnerTextError(f"engine text {text!r}: an engine is on a host or in a container, not both")
    if is_file_engine(name) and (_HOST in places or _IMAGE in places):
        raise RunnerTextError(f"engine text {text!r}: a file's engine runs on this machine; python= may name a Python")
    if _CPU in places and (_HOST in places or _IMAGE in places):
        raise RunnerTextError(f"engine text {text!r}: cpu= emulates a processor on this machine, not elsewhere")
    if _VERSION in places and name not in ENGINES:
        raise RunnerTextError(f"engine text {text!r}: version= is of an engine's package, and {name} is none")
    if _VERSION in places and places.keys() & {_PYTHON, _HOST, _IMAGE}:
        raise RunnerTextError(
            f"engine text {text!r}: version= makes an environment on this machine; the others name one"
        )


def _refuse_compiling(text: str, name: str, settings: Mapping[str, str]) -> None:
    """A compiler is a program of its own, which is not emulated: it compiles for the processor that is here."""
    own = find_class(name)
    known = own.settings if own else {}
    for key, value in settings.items():
        if key in known and known[key].compiles and value != known[key].default:
            raise RunnerTextError(f"engine text {text!r}: {key} compiles for this machine's processor, not for cpu=")


def _split_commas(text: str) -> list[str]:
    return [part.replace("\\,", ",") for part in re.split(r"(?<!\\),", text)]


def _check_place(text: str, key: str, value: str) -> str:
    """Where an engine is: a program, a host, or an image."""
    if key == _PYTHON and (not value or "\0" in value):
        raise RunnerTextError(f"engine text {text!r}: python= names the program of a Python environment")
    if key == _HOST and not check_host(value):
        raise RunnerTextError(f"engine text {text!r}: ssh= names a host, as in ssh=user@gpu-box")
    if key == _CPU and not check_model(value):
        raise RunnerTextError(f"engine text {text!r}: cpu= names a processor, as in cpu=Haswell or cpu=native")
    if key == _VERSION and not check_version(value):
        raise RunnerTextError(f"engine text {text!r}: version= is a release's number, as in version=1.20.1")
    if key == _IMAGE and not check_image(value):
        raise RunnerTextError(f"engine text {text!r}: docker= names an image, as in docker=pytorch/pytorch:latest")
    return value


def _check_variable(name: str, value: str) -> str:
    if not _VARIABLE.fullmatch(name):
        raise RunnerTextError(f"env.{name} names no environment variable")
    if "\0" in value:
        raise RunnerTextError(f"env.{name} holds a NUL character")
    return name


def _check_setting(engine: str, key: str, value: str) -> None:
    own = find_class(engine)
    # Which settings an engine of other people's code has is known where it is loaded.
    if own is None and engine != TRUTH:
        return
    settings = own.settings if own else {}
    if key not in settings:
        known = ", ".join([*settings, "env.NAME", *_PLACES]) if own else "none"
        raise RunnerTextError(f"{engine} has no setting {key!r}{_suggest(key, list(settings))}; it has: {known}")
    try:
        settings[key].check(key, value)
    except RunnerTextError as error:
        raise RunnerTextError(f"{engine}: {error}") from None


# Engines that people name and samebits does not run, and what to do with their results.
_OTHERS = {"tensorrt", "trt", "trtexec", "coreml", "executorch", "directml"}
_ELSEWHERE = (
    " (samebits does not run it; record what it returns: samebits explain x=FILE w=FILE mine=FILE of a layer,"
    " samebits compare net.onnx --recorded mine=FILE of a network)"
)


def _suggest(word: str, known: list[str]) -> str:
    begun = [one for one in known if word and one.startswith(word)]
    close = begun or difflib.get_close_matches(word, known, 1)
    return f" (did you mean {close[0]}?)" if close else ""


def list_missing_releases(texts: Iterable[str]) -> list[Release]:
    """The releases that texts name and that have no environment here; texts that cannot be read are left out."""
    found: dict[Release, None] = {}
    for text in texts:
        try:
            release = parse_runner_text(text).place.release
        except (RunnerTextError, RecipeError):
            continue
        if release is not None and find_environment(release) is None:
            found[release] = None
    return list(found)


def list_reaching_parts(runner: RunnerText) -> list[str]:
    """The parts of an engine's text that decide which program runs, where, or with which variables."""
    place = runner.place
    version = place.release and place.release.version
    parts = (("python", place.python), ("ssh", place.host), ("docker", place.image), (_VERSION, version))
    return (
        _list_code(runner)
        + [f"{key}={value}" for key, value in parts if value is not None]
        + [f"env.{key}={value}" for key, value in runner.environment.items()]
    )


def _list_code(runner: RunnerText) -> list[str]:
    """The code that a text loads in addition to an engine's own: a file, a module, a library.

    All settings of other people's engines count, as it is not known what they reach.
    """
    if runner.name in (TRUTH, EMULATE):
        return []
    own = find_class(runner.name)
    harmless = {key for key, setting in own.settings.items() if not setting.loads_code} if own else set[str]()
    loads = [f"{key}={value}" for key, value in runner.settings.items() if key not in harmless]
    return loads if runner.name in ENGINES or runner.name in _list_names() else [runner.name, *loads]


def refuse_text_of_file(text: str, named: Collection[str], source: str) -> str | None:
    """Why an engine's text that was read from the file `source` is not opened; None where it may be.

    It may be where it reaches nothing but an engine of this environment with its settings, or where the person named
    that very text. Raises RunnerTextError, RecipeError for a text that cannot be read.

    >>> refuse_text_of_file("numpy:python=./evil.sh", ["numpy"], "a.lock")
    'a.lock names the engine numpy:python=./evil.sh; only a person chooses python=./evil.sh, by that text behind --on'
    >>> refuse_text_of_file("numpy:python=/opt/py/bin/python", ["numpy:python=/opt/py/bin/python"], "a.lock")
    >>> refuse_text_of_file("torch:threads=1", [], "a.lock")
    """
    if text in named:
        return None
    parts = list_reaching_parts(parse_runner_text(text))
    if not parts:
        return None
    return f"{source} names the engine {text}; only a person chooses {', '.join(parts)}, by that text behind --on"

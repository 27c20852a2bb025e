"""Environments of releases: made from wheels in a folder, without an index, and only where the person lets them be."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import pytest

from samebits.engines.registry.known_engines import ENGINES
from samebits.engines.registry.runner_text import (
    format_runner_text,
    list_missing_releases,
    parse_runner_text,
    refuse_text_of_file,
)
from samebits.engines.workers.place import Place
from samebits.engines.workers.releases import (
    INSTALL,
    Release,
    ReleasePython,
    check_version,
    find_environment,
    find_environments,
    list_made,
    make_environment,
)
from samebits.errors import EngineMissingError, RunnerTextError

MINE = Release("mine", "1.0")


def write_wheel(folder: Path, name: str, version: str, files: dict[str, str]) -> None:
    """A wheel of pure Python, written by hand."""
    record = f"{name}-{version}.dist-info"
    parts = {
        **files,
        f"{record}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{record}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{record}/top_level.txt": f"{name}\n",
    }
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        for path, text in parts.items():
            wheel.writestr(path, text)
        wheel.writestr(f"{record}/RECORD", "".join(f"{path},,\n" for path in (*parts, f"{record}/RECORD")))


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels that pip takes in place of its index; in it a NumPy of each kind, as small as can be."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    write_wheel(folder, "numpy", "1.9", {"numpy/__init__.py": "__version__ = '1.9'\n", "numpy/core/multiarray.py": ""})
    new = {"numpy/__init__.py": "__version__ = '2.9'\n", "numpy/core/__init__.py": "", "numpy/core/multiarray.py": ""}
    write_wheel(folder, "numpy", "2.9", new)
    write_wheel(folder, "mine", "1.0", {"mine/__init__.py": ""})
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("SAMEBITS_ENVIRONMENTS", str(tmp_path / "environments"))
    monkeypatch.setenv(INSTALL, "yes")
    return folder


def read_numpy(folder: Path) -> str:
    """Which NumPy an environment has."""
    (found,) = folder.glob("lib/python*/site-packages/numpy-*.dist-info")
    return found.name.removeprefix("numpy-").removesuffix(".dist-info")


def test_nothing_is_installed_unasked(wheels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(INSTALL)
    with pytest.raises(EngineMissingError, match=r"^mine 1\.0 is not installed; --install, or SAMEBITS_INSTALL=yes,"):
        make_environment(MINE)
    assert not find_environments().exists()


def test_an_environment_is_made_once(wheels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_environment(MINE) is None
    assert list_made("mine") == []
    folder = make_environment(MINE)
    assert find_environment(MINE) == folder
    assert list_made("mine") == ["1.0"]
    assert read_numpy(folder) == "2.9"
    # It is taken as it is, with nothing to install from and nobody allowing it.
    monkeypatch.delenv(INSTALL)
    (wheels / "mine-1.0-py3-none-any.whl").unlink()
    with_release = ReleasePython(MINE)
    assert Path(with_release.words[0]).is_relative_to(folder)
    with_release.close()


def test_a_release_built_for_numpy_1_gets_numpy_1(wheels: Path) -> None:
    write_wheel(wheels, "mine", "0.5", {"mine/__init__.py": "import numpy.core.multiarray\n"})
    assert read_numpy(make_environment(Release("mine", "0.5"))) == "1.9"


def test_what_cannot_be_installed_says_why_and_leaves_nothing(wheels: Path) -> None:
    with pytest.raises(EngineMissingError, match=r"^mine 7\.0 cannot be installed \(.*mine==7\.0"):
        make_environment(Release("mine", "7.0"))
    write_wheel(wheels, "mine", "8.0", {"mine/__init__.py": "raise ImportError('libmine.so is missing')\n"})
    with pytest.raises(EngineMissingError, match=r"mine 8\.0 is installed and cannot be imported .*libmine\.so"):
        make_environment(Release("mine", "8.0"))
    assert [path.name for path in find_environments().iterdir() if path.is_dir()] == []


def test_half_an_environment_is_made_anew(wheels: Path) -> None:
    folder = make_environment(MINE)
    (folder / "complete").unlink()
    (folder / "bin" / "python").unlink()
    assert find_environment(MINE) is None
    assert make_environment(MINE) == folder
    assert (folder / "bin" / "python").exists()


def test_the_longest_unused_goes_first_and_never_one_in_use(wheels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for version in ("1.1", "1.2", "1.3"):
        write_wheel(wheels, "mine", version, {"mine/__init__.py": ""})
    used = ReleasePython(MINE)
    make_environment(Release("mine", "1.1"))
    make_environment(Release("mine", "1.2"))
    monkeypatch.setenv("SAMEBITS_MOST_ENVIRONMENT_BYTES", "1")
    make_environment(Release("mine", "1.3"))
    assert list_made("mine") == ["1.0", "1.3"]
    used.close()


def test_versions_are_versions_and_nothing_else() -> None:
    assert all(map(check_version, ("1", "1.20.1", "2.0rc1", "1.0.post2", "2.1.0+cpu")))
    for text in ("", ">=1", "1.0 ", "-e .", "1.0;python_version", "../x", "1@https://x", "1.0\n", "1..2"):
        assert not check_version(text), text


def test_the_place_is_read_and_written() -> None:
    runner = parse_runner_text("onnxruntime:version=1.20.1,threads=1")
    assert runner.place.release == Release("onnxruntime", "1.20.1", ("onnx",))
    assert not runner.place.is_here
    assert not runner.place.has_our_packages
    assert runner.place.shares_files
    assert format_runner_text(runner) == "onnxruntime:version=1.20.1,threads=1"
    assert ENGINES["iree"].find_release("3.8.0").also == ("iree-base-runtime==3.8.0", "onnx")


@pytest.mark.parametrize(
    "text",
    [
        "onnxruntime:version=", "onnxruntime:version=new", "onnxruntime:version=1.20,python=/usr/bin/python3",
        "onnxruntime:version=1.20,ssh=box", "./mine.py:Kernel:version=1.0", "truth:version=1.0",
    ],
)  # fmt: skip
def test_places_that_make_no_sense_are_refused(text: str) -> None:
    with pytest.raises(RunnerTextError, match="version"):
        parse_runner_text(text)


def test_a_file_does_not_have_releases_installed() -> None:
    says = refuse_text_of_file("onnxruntime:version=1.20.1", ["onnxruntime"], "a.lock")
    assert says is not None
    assert "only a person chooses version=1.20.1" in says


def test_missing_releases_are_listed_once(wheels: Path) -> None:
    texts = [
        "torch",
        "numpy:version=9.1",
        "numpy:version=9.1,threads=1",
        "numpy:version={9.1,9.2}",
        "onnxruntime:version=9",
    ]
    assert [str(one) for one in list_missing_releases(texts)] == ["numpy 9.1", "onnxruntime 9"]


def test_the_program_is_of_our_python(wheels: Path) -> None:
    assert make_environment(MINE).name == f"mine-1.0-py{sys.version_info.major}{sys.version_info.minor}"


def test_a_script_runs_with_the_python_of_the_release(wheels: Path) -> None:
    place = Place(release=MINE)
    assert place.program is None
    folder = make_environment(MINE)
    assert place.program == str(folder / "bin" / "python")
    assert Place(python="/opt/py/bin/python").program == "/opt/py/bin/python"

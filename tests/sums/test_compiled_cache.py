"""Damaged compiled code is never run: it is compiled again; what cannot be kept is said once and costs only time."""

import hashlib
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import samebits

# Left out of `make quick`.
pytestmark = pytest.mark.slow

SOURCE = Path(samebits.__file__).parent
# Two functions of ours, small to compile; how many were compiled rather than loaded; warnings show on standard error.
PROGRAM = (
    "from samebits.sums.tiles import compile_notices\n"
    "begun = []\n"
    "compile_notices._notices.begin = begun.append\n"
    "from samebits.sums.truth.rounding import two_sum, bits_of_float\n"
    "import numpy as np\n"
    "total, error = two_sum(1.0, 2.0**-60)\n"
    "print(total, error * 2.0**60, bits_of_float(2.0, np.empty(1)) == 2**62, len(begun))\n"
)
RIGHT = "1.0 1.0 True"


def run(folder, *, limit=None, environment=None):
    limits = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))\n" if limit else ""
    done = subprocess.run(
        [sys.executable, "-c", limits + PROGRAM],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "NUMBA_CACHE_DIR": str(folder), **(environment or {})},
    )
    assert done.returncode == 0, done.stderr
    answer, _, compiled = done.stdout.strip().rpartition(" ")
    assert answer == RIGHT
    # That something is being compiled is said where it takes more than a second.
    said = [line for line in done.stderr.splitlines() if not line.startswith("samebits: compiling")]
    return int(compiled), "\n".join(said)


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A folder with the compiled code of both functions."""
    folder = tmp_path_factory.mktemp("kept")
    assert run(folder) == (2, "")
    assert len(list(folder.rglob("*.code"))) == 2
    return folder


@pytest.fixture
def folder(kept, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(kept, copy)
    return copy


def find_files(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_kept_code_is_loaded(folder):
    assert run(folder) == (0, "")


def flip(position):
    def damage(path: Path):
        code = bytearray(path.read_bytes())
        code[int(position * (len(code) - 1))] ^= 0x10
        path.write_bytes(code)

    return damage


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(path.read_bytes()[:7]),
        lambda path: path.write_bytes(path.read_bytes()[:-1]),
        lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
        lambda path: path.write_bytes(path.read_bytes() + b"\0"),
        lambda path: path.write_bytes(os.urandom(path.stat().st_size)),
        lambda path: path.write_text("not code"),
        *(flip(share) for share in (0, 0.01, 0.3, 0.6, 0.9, 1)),
        lambda path: path.unlink(),
    ],
)
def test_damaged_code_is_compiled_anew_and_mended(folder, damage):
    for path in find_files(folder):
        damage(path)
    assert run(folder) == (2, "")
    assert run(folder) == (0, "")


def test_one_functions_code_is_not_taken_for_anothers(folder):
    first, second = find_files(folder)
    content = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(content)
    compiled, _ = run(folder)
    assert compiled == 2


def test_a_directory_in_a_files_place(folder):
    for path in find_files(folder):
        path.unlink()
        path.mkdir()
    compiled, said = run(folder)
    assert compiled == 2
    assert said.count("compiled code cannot be kept") == 1


def test_a_full_disk_on_the_first_run(tmp_path):
    compiled, said = run(tmp_path, limit=1000)
    assert compiled == 2
    assert said.count("compiled code cannot be kept") == 1
    assert find_files(tmp_path) == []
    assert run(tmp_path) == (2, "")


def test_no_folder_that_can_be_written_to(tmp_path):
    unwritable = "import numba.core.caching as c; c.CacheImpl._locator_classes = []\n"
    done = subprocess.run([sys.executable, "-c", unwritable + PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"{RIGHT} 0"
    assert done.stderr.count("compiled code cannot be kept") == 1


def test_code_of_other_sources_is_not_loaded_and_is_removed(folder):
    before = find_files(folder)
    for path in before:
        function, sources, key, ending = path.name.rsplit(".", 3)
        path.rename(path.with_name(f"{function}.{'0' * len(sources)}.{key}.{ending}"))
    assert run(folder) == (2, "")
    assert find_files(folder) == before


def test_sources_in_another_place_find_the_code_in_a_shared_folder(tmp_path):
    """As on a cluster, which unpacks samebits in a new place each time; code of other sources may still be needed."""
    shared = tmp_path / "shared"
    for place, compiled in (("one", 2), ("two", 0)):
        shutil.copytree(SOURCE, tmp_path / place / "samebits", ignore=shutil.ignore_patterns("__pycache__"))
        environment = {"SAMEBITS_CODE_DIR": str(shared), "PYTHONPATH": str(tmp_path / place)}
        assert run(tmp_path / "numba", environment=environment) == (compiled, "")
    first, second = find_files(shared)
    function, sources, key, ending = first.name.rsplit(".", 3)
    other = first.rename(first.with_name(f"{function}.{'0' * len(sources)}.{key}.{ending}"))
    assert run(tmp_path / "numba", environment=environment) == (1, "")
    assert find_files(shared) == sorted([other, first, second])
    os.utime(other, (0, 0))
    first.unlink()
    assert run(tmp_path / "numba", environment=environment) == (1, "")
    assert find_files(shared) == sorted([first, second])


def find_own_folder(folder):
    (own,) = {path.parent for path in folder.rglob("*.code")}
    return own


def test_kept_code_is_its_users_alone(kept):
    own = find_own_folder(kept)
    assert (own.name, own.stat().st_mode & 0o777) == (f"samebits-{os.getuid()}", 0o700)
    assert all(path.stat().st_mode & 0o077 == 0 for path in own.iterdir())


def poison(folder, mark):
    """Files whose digests are right and which run a program when they are unpickled."""
    for path in find_files(folder):
        code = pickle.dumps(Touch(mark))
        path.write_bytes(hashlib.sha256(path.name.encode() + b"\0" + code).digest() + code)


class Touch:
    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return Path.touch, (Path(self.path),)


@pytest.mark.parametrize("change", ["mode", "owner", "link"])
def test_a_folder_that_others_may_write_to_is_not_used_and_that_is_said(change, folder, tmp_path):
    own, mark = find_own_folder(folder), tmp_path / "ran"
    poison(folder, mark)
    if change == "mode":
        own.chmod(0o770)
    elif change == "link":
        elsewhere = own.rename(tmp_path / "elsewhere")
        own.symlink_to(elsewhere)
    elif os.getuid() == 0:
        os.chown(own, 65534, 65534)
    else:
        pytest.skip("only root gives a folder to another user")
    compiled, said = run(folder)
    assert compiled == 2
    assert not mark.exists()
    assert said.count("compiled code cannot be kept") == 1
    assert {"mode": "has mode 0770", "owner": "belongs to another user", "link": "samebits"}[change] in said


def test_the_poison_works(folder, tmp_path):
    """The control: in the user's own folder such code would be run."""
    mark = tmp_path / "ran"
    poison(folder, mark)
    run(folder)
    assert mark.exists()


def test_many_processes_at_once_on_an_empty_folder(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    programs = [
        subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True, env=environment)
        for _ in range(4)
    ]
    assert all(program.communicate()[0].startswith(RIGHT) for program in programs)
    assert len(find_files(tmp_path)) == 2
    assert run(tmp_path) == (0, "")


def test_compiling_is_announced_once_it_takes_a_second():
    code = (
        "import time\n"
        "from samebits.sums.tiles.compile_notices import note_compiling, note_compiled, hear_of_compiling\n"
        "heard = []\n"
        "{listen}"
        "note_compiling('a'); note_compiling('b'); note_compiled('b'); note_compiled('a'); time.sleep(1.2)\n"
        "assert not heard\n"
        "note_compiling('a'); note_compiling('b'); time.sleep(1.3); note_compiled('b'); note_compiled('a')\n"
        "note_compiling('a'); time.sleep(1.3); note_compiled('a')\n"
        "print(len(heard))\n"
    )

    def start(listen):
        program = [sys.executable, "-c", code.format(listen=listen)]
        return subprocess.run(program, capture_output=True, text=True, check=True)

    heard = start("hear_of_compiling(heard.append)\n")
    assert (heard.stdout, heard.stderr) == ("1\n", "")
    said = start("")
    assert said.stderr.count("\n") == 1
    assert said.stderr.startswith("samebits: compiling")


# A function of one file with a function of another inside; what it reads of a contraction are strides.
READS = (
    "from typing import get_type_hints\n"
    "import numpy as np\n"
    "from samebits.sums.tiles.plan import Contraction\n"
    "from samebits.sums.truth.settling import reads_zeros\n"
    "kinds = get_type_hints(Contraction).values()\n"
    "c = Contraction(*(1 if kind is int else (1,) * len(kind.__args__) for kind in kinds))\n"
    "print(reads_zeros(c, (0,) * 7, np.ones(4), np.empty(0), np.arange(4), 4))\n"
)


def run_copy(folder: Path) -> str:
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(folder)!r})\n{READS}"]
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout


def test_a_change_in_one_file_reaches_the_functions_of_others(tmp_path):
    shutil.copytree(SOURCE, tmp_path / "samebits", ignore=shutil.ignore_patterns("__pycache__"))
    assert run_copy(tmp_path).strip() == "False"
    assert list(tmp_path.glob("samebits/sums/truth/__pycache__/samebits-*/*.code"))
    rounding = tmp_path / "samebits" / "sums" / "tiles" / "rows.py"
    text = rounding.read_text()
    changed = text.replace("np.float64(array[index])", "np.float64(array[index]) - 1.0")
    assert changed != text
    rounding.write_text(changed)
    # Ones are read as zeros.
    assert run_copy(tmp_path).strip() == "True"


def test_a_forked_child_computes_too():
    code = (
        "import os, numpy as np, samebits\n"
        "one = np.ones((1, 1, 3), np.float32)\n"
        "samebits.conv1d(one, one)\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    os._exit(0 if samebits.conv1d(one, one)[0, 0, 0] == 3 else 1)\n"
        "print(os.waitpid(child, 0)[1])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == "0"

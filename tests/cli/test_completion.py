"""What shells offer while a command is typed: in real shells, behind a real terminal."""

import contextlib
import os
import pty
import select
import shutil
import signal
import sys
import time
from pathlib import Path

import pytest

from samebits.cli.app import main
from samebits.display.printing import complete_files, complete_problems
from samebits.engines.registry.text_completion import complete_broken_words, complete_engine_text

SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], ['eval "$(_SAMEBITS_COMPLETE=source_bash samebits)"']),
    "zsh": (
        ["zsh", "-f", "-i"],
        ["autoload -U compinit; compinit -u", 'eval "$(_SAMEBITS_COMPLETE=source_zsh samebits)"'],
    ),
    "fish": (["fish", "--no-config", "-i"], ["_SAMEBITS_COMPLETE=source_fish samebits | source"]),
}
TYPED = {
    "samebits prof": "samebits profile ",
    "samebits compare x --on onnxr": "--on onnxruntime ",
    "samebits compare x --on torch:mkldnn=of": "torch:mkldnn=off ",
    "samebits profile openvino:INFERENCE_PRECISION_HINT=bf": "openvino:INFERENCE_PRECISION_HINT=bf16 ",
    "samebits compare linea": "compare linear ",
    "samebits sweep cata": "sweep catalog ",
    "samebits explain x=soun": "x=sound.npy ",
}
LONGEST_S = 40


def type_and_complete(shell, home, lines):
    """What a terminal shows after each line and the tab key."""
    arguments, setup = SHELLS[shell]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "TERM": "dumb", "PS1": "$ ", "HOME": str(home)}
    (home / "sound.npy").touch()
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(home)
        os.execvpe(arguments[0], arguments, environment)

    def read_until(wanted):
        shown, end = "", time.monotonic() + LONGEST_S
        while wanted not in shown and time.monotonic() < end:
            if select.select([terminal], [], [], 0.1)[0]:
                with contextlib.suppress(OSError):
                    shown += os.read(terminal, 65536).decode(errors="replace")
        return shown

    try:
        for number, line in enumerate(setup):
            # The line itself, as the terminal echoes it, has another text.
            os.write(terminal, f"{line}; echo ready'{number}'\n".encode())
            assert f"ready{number}" in read_until(f"ready{number}")
        for line, wanted in lines.items():
            # What stands there is deleted first (Control-A, Control-K).
            os.write(terminal, b"\x01\x0b" + line.encode() + b"\t")
            yield line, wanted, read_until(wanted)
    finally:
        os.close(terminal)
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)


# JAX, where an earlier test has imported it, warns of every fork; this one only starts the shell.
@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")
@pytest.mark.slow
@pytest.mark.parametrize("shell", SHELLS)
def test_real_shells_complete_commands_engines_and_settings(shell, tmp_path):
    if shutil.which(shell) is None or shutil.which("samebits", path=str(Path(sys.executable).parent)) is None:
        pytest.skip(f"{shell}, or the installed command, is missing")
    for line, wanted, shown in type_and_complete(shell, tmp_path, TYPED):
        assert wanted in shown, (line, shown)
        assert "output could not be written" not in shown


@pytest.mark.parametrize(
    ("text", "offered"),
    [
        ("onnxr", ["onnxruntime"]),
        ("torch:mkldnn=", ["torch:mkldnn=on", "torch:mkldnn=off"]),
        ("torch:mkldnn=on,thr", ["torch:mkldnn=on,threads="]),
        ("torch:mkldnn=on,mkl", []),
        ("nobody:x", []),
        ("emu", ["emulate"]),
    ],
)
def test_texts_go_on(text, offered):
    assert complete_engine_text(text) == offered


def test_problems_and_files_go_on(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "conv.npz").touch()
    (tmp_path / "cases").mkdir()
    assert complete_problems("conv2") == ["conv2d"]
    assert complete_problems("ca") == ["catalog", "cases/"]
    assert complete_problems("conv.") == ["conv.npz"]
    assert complete_files("x=c") == ["x=cases/", "x=conv.npz"]
    assert complete_files("[") == []


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["samebits", "compare", "x", "--on", "torch", ":", "thr"], ["threads="]),
        (["samebits", "compare", "x", "--on", "torch", ":", "mkldnn", "=", "o"], ["on", "off"]),
        (["samebits", "compare", "x", "--on", "torch", ":", "mkldnn", "="], ["on", "off"]),
        (["samebits", "compare", "x", "--on", "torch"], None),
        (["samebits", "compare", "x", "--seed", "=", "3"], None),
    ],
)
def test_words_that_bash_has_split_are_put_together(words, offered):
    assert complete_broken_words(words, len(words) - 1) == offered


def test_places_that_no_word_has_are_left_to_the_library():
    assert complete_broken_words(["samebits"], 7) is None


def test_a_shells_question_gets_nothing_but_its_answer(monkeypatch, capsys):
    monkeypatch.setenv("_SAMEBITS_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "samebits\nprof")
    monkeypatch.setenv("COMP_CWORD", "1")
    assert main(["prof"]) == 0
    assert capsys.readouterr() == ("profile\n", "")

"""A recording never harms what is recorded: output, status and signals are those of the script without it."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from samebits.questions.runs import recorder as recorder_module
from samebits.questions.runs.recorder import Recorder
from samebits.questions.runs.run_reading import read_trace
from samebits.questions.runs.trace_file import read_word, write_word
from traced_runs import run_traced

pytestmark = pytest.mark.needs("torch")

# Tensors that have no sizes, no strides, no memory or no elements of their own.
ODD_TENSORS = """
import torch, warnings
warnings.simplefilter("ignore")
torch.manual_seed(0)
x = torch.randn(4, 4)
parts = [torch.ones(2, 3), torch.ones(4, 3)]
strided = torch.nested.nested_tensor(parts, layout=torch.strided) * 2
jagged = torch.nested.nested_tensor(parts, layout=torch.jagged) * 2
sparse = (torch.eye(3).to_sparse() * 2).coalesce()
rows = torch.eye(4).to_sparse_csr()
quantised = torch.quantize_per_tensor(x, 0.1, 0, torch.quint8).dequantize()
meta = torch.empty(3, device="meta") + 1
nothing = torch.empty(0, 3).sum(0)
turned = torch.view_as_complex(torch.ones(2, 2)).conj() * 2
with torch.inference_mode():
    seen = x @ x
print(strided.size(0), jagged.size(0), sparse.sum(), rows @ x, quantised, meta.shape, nothing, turned, seen)
print(float((x @ x).sum()))
raise SystemExit(7)
"""


def run_plainly(script, **options):
    return subprocess.run([sys.executable, os.fsencode(script)], capture_output=True, text=True, check=False, **options)


def test_tensors_of_every_kind_are_computed_as_without_a_recording(tmp_path):
    script = tmp_path / "odd.py"
    script.write_text(ODD_TENSORS)
    plain, traced = run_plainly(script), run_traced(tmp_path / "odd.trace", sys.executable, str(script))
    assert (traced.returncode, traced.stdout) == (plain.returncode, plain.stdout) == (7, plain.stdout)
    assert plain.stdout
    assert traced.stderr == plain.stderr
    (process,) = read_trace(tmp_path / "odd.trace").processes.values()
    # Nothing was left out: the last product stands at the end.
    assert process.is_whole
    assert "aten.mm.default" in [o.name for o in process.operations[-3:]]
    assert any("nested" in o.what for o in process.operations)


@pytest.mark.parametrize("where", ["full", "filling"])
def test_a_disk_that_is_full_ends_the_recording_and_not_the_script(where, tmp_path):
    script = tmp_path / "train.py"
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))\n" if where == "filling" else ""
    script.write_text(
        "import torch\n" + limit + "x = torch.ones(5, 5)\n"
        "for i in range(3000):\n    x = x * 1.5 if i % 2 else x / 1.5\n"
        "print(float(x.sum()))\nraise SystemExit(3)\n"
    )
    plain = run_plainly(script)
    target = "/dev/full" if where == "full" else tmp_path / "run.trace"
    traced = run_traced(target, sys.executable, str(script))
    assert (traced.returncode, traced.stdout) == (3, plain.stdout)
    # Told once, at the end, by the program that was asked to record.
    (line,) = traced.stderr.splitlines()
    assert line.startswith(f"samebits: {target}: train.py: recording ended after ")
    assert line.endswith("the run went on")


@pytest.mark.parametrize("command", [["true"], ["/no/such/command"]])
def test_a_device_that_a_recording_is_written_to_stays(command, tmp_path):
    device = tmp_path / "null"
    try:
        os.mknod(device, stat.S_IFCHR | 0o666, os.stat("/dev/null").st_rdev)
    except PermissionError:
        pytest.skip("only root makes devices, and removes them")
    run_traced(device, *command)
    assert device.is_char_device()


def test_a_script_whose_name_is_no_utf8_is_recorded_and_can_be_named_again(tmp_path):
    script = os.fsdecode(os.fsencode(tmp_path) + b"/tr\xfcin.py")
    with open(script, "w") as file:
        file.write("import torch\nprint(float((torch.ones(3, 3) @ torch.ones(3, 3)).sum()))\n")
    plain = run_plainly(script)
    traced = run_traced(tmp_path / "a.trace", sys.executable, script)
    assert (traced.returncode, traced.stdout, traced.stderr) == (0, plain.stdout, "")
    (process,) = read_trace(tmp_path / "a.trace").processes.values()
    assert process.root[-1] == script
    assert process.operations[-2].line or process.operations[-1].line
    assert run_traced(tmp_path / "b.trace", sys.executable, script).returncode == 0
    again = read_trace(tmp_path / "b.trace").processes
    assert list(again) == [process.name]


def test_a_python_without_samebits_is_not_recorded_and_does_not_notice(tmp_path):
    (tmp_path / "samebits").mkdir()
    (tmp_path / "samebits" / "__init__.py").write_text("raise ImportError('another samebits')\n")
    (tmp_path / "script.py").write_text("import torch\nprint(torch.ones(2).sum().item())\n")
    done = run_traced(tmp_path / "a.trace", sys.executable, str(tmp_path / "script.py"))
    assert (done.returncode, done.stdout) == (0, "2.0\n")
    assert "nothing was recorded" in done.stderr


def test_words_of_a_command_come_back_as_they_were():
    for word in ("", "train.py", "ünï", os.fsdecode(b"tr\xfcin"), os.fsdecode(bytes(range(1, 256)))):
        stored = write_word(word)
        assert stored.encode().decode() == stored
        assert read_word(stored) == word
    with pytest.raises(ValueError, match="hex"):
        read_word("\0no hex")


def test_an_error_of_the_scripts_own_goes_through_the_recording(tmp_path):
    """What a signal's handler raises comes out of a file of the script's, as this one is."""
    recorder = Recorder(str(tmp_path / "a.trace"), "here")

    def fail():
        raise RuntimeError("the script's")

    assert recorder.attempt(lambda: 5) == 5
    with pytest.raises(RuntimeError, match="the script's"):
        recorder.attempt(fail)
    assert recorder.trouble is None
    recorder.close()


def test_an_error_of_the_recordings_own_stays_inside(tmp_path):
    recorder = Recorder(str(tmp_path / "a.trace"), "here")
    inside = {}
    exec(
        compile(
            "def fail():\n    raise RuntimeError('unforeseen')\n",
            str(Path(recorder_module.__file__).with_name("inside.py")),
            "exec",
        ),
        inside,
    )
    assert recorder.attempt(inside["fail"]) is None
    assert recorder.trouble == ("here: recording ended after 0 operations (RuntimeError: unforeseen); the run went on")
    # Later calls do nothing, the last one too.
    assert recorder.attempt(inside["fail"]) is None
    recorder.close()


def test_an_alarm_of_the_script_goes_through_the_recording(tmp_path):
    script = tmp_path / "alarm.py"
    script.write_text(
        "import signal, torch\n"
        "class Late(Exception): pass\n"
        "def ring(*_): raise Late\n"
        "signal.signal(signal.SIGALRM, ring)\n"
        "x = torch.ones(400, 400)\n"
        "for n in range(20):\n"
        "    try:\n"
        "        signal.setitimer(signal.ITIMER_REAL, 0.01 + 0.001 * n)\n"
        "        while True: x = x * 1.0\n"
        "    except Late:\n"
        "        continue\n"
        "print('done')\n"
    )
    done = run_traced(tmp_path / "a.trace", sys.executable, str(script), timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def test_a_script_that_closes_every_descriptor_keeps_its_own_files(tmp_path):
    """The number that the recording had may be another file's then."""
    script = tmp_path / "closes.py"
    script.write_text(
        "import os, time, torch\n"
        "x = torch.ones(3) + 1\n"
        "os.closerange(3, 4096)\n"
        "files = [open(f'own{i}.txt', 'w+') for i in range(20)]\n"
        "time.sleep(1.2)\n"
        "for _ in range(3000): x = x * 1.0\n"
        "for file in files: file.write('mine'); file.flush(); file.seek(0)\n"
        "print([file.read() for file in files] == ['mine'] * 20)\n"
    )
    done = run_traced(tmp_path / "a.trace", sys.executable, str(script), cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")
    (process,) = read_trace(tmp_path / "a.trace").processes.values()
    assert len(process.operations) > 3000


def test_a_graph_is_traced_and_a_folder_may_be_gone(tmp_path):
    script = tmp_path / "gone.py"
    script.write_text(
        "import os, torch\n"
        "os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone')\n"
        "traced = torch.jit.trace(lambda x: x.view(-1) + 1, torch.ones(2, 2))\n"
        "print(traced(torch.ones(2, 2)).tolist(), (torch.ones(2) @ torch.ones(2)).item())\n"
    )
    plain = run_plainly(script, cwd=tmp_path)
    traced = run_traced(tmp_path / "a.trace", sys.executable, str(script), cwd=tmp_path)
    assert (traced.returncode, traced.stdout) == (plain.returncode, plain.stdout) == (0, plain.stdout)
    (process,) = read_trace(tmp_path / "a.trace").processes.values()
    assert "aten.dot.default" in [operation.name for operation in process.operations]


def test_a_place_that_cannot_be_written_to_is_one_line_before_the_command_begins(tmp_path):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    os.mkfifo(tmp_path / "pipe")
    for name in ("loop", "pipe", "no/where", "."):
        done = run_traced(tmp_path / name, "touch", str(tmp_path / "ran"))
        assert (done.returncode, done.stdout) == (2, "")
        assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "ran").exists()

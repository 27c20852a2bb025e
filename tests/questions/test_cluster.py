"""Lists on a Ray cluster: the same table as here, wherever engines are and whatever is lost meanwhile."""

import shutil
import socket
import subprocess
import sys
import time

import numpy as np
import onnx
import pyarrow.parquet
import pytest

import samebits.questions.list.cluster_running as cluster_running
from ray_cluster import open_cluster
from samebits.errors import ArgumentError, FindingError
from samebits.networks.onnx_reading import list_external_files
from samebits.problems import parse_problem_text
from samebits.problems.case_file import save_case
from samebits.problems.operands import make_normal
from samebits.questions.list.cluster_worker import put_files
from samebits.questions.list.list_reading import Subject
from samebits.questions.list.list_running import run_list
from samebits.regular_files import OWN_FOLDER

pytest.importorskip("ray")
NARROW = "emulate:direct acc=float16"
ENGINES = ["onnxruntime", "torch", NARROW]
ON = [word for engine in ENGINES for word in ("--on", engine)]


@pytest.fixture(scope="module", autouse=True)
def code_is_shared(tmp_path_factory):
    """Nodes find what was compiled here: each would compile for minutes."""
    folder, sums = tmp_path_factory.mktemp("code"), OWN_FOLDER / "sums"
    for own in sums.rglob("__pycache__/samebits-*"):
        shutil.copytree(own, folder / own.parent.parent.relative_to(sums) / own.name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SAMEBITS_CODE_DIR", str(folder))
        yield


@pytest.fixture(scope="module")
def cluster():
    with open_cluster({"onnxruntime": 1}, {"torch": 1}) as opened:
        yield opened


def sweep(lists, table, *more):
    words = [sys.executable, "-m", "samebits", "sweep", *lists, *ON, "-o", str(table), *more]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for(process):
    out, err = process.communicate(timeout=900)
    return process.returncode, out, err


def wait_for_nodes(count):
    import ray

    end = time.monotonic() + 120
    while sum(node["Alive"] for node in ray.nodes()) != count:
        assert time.monotonic() < end
        time.sleep(0.2)


def read_rows(path):
    return pyarrow.parquet.read_table(path).to_pylist()


def make_network(path):
    weights = onnx.numpy_helper.from_array(make_normal(parse_problem_text("conv2d x=1x3x8x8 w=4x3x3x3"))["w"], "w")
    node = onnx.helper.make_node("Conv", ["x", "w"], ["y"])
    shapes = (("x", [1, 3, 8, 8]), ("y", [1, 4, 6, 6]))
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name, shape in shapes)
    graph = onnx.helper.make_graph([node], "g", [x], [y], [weights])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)


@pytest.fixture
def subjects(tmp_path):
    """Problems, a line that is none, a case, a broken case, a network with its data beside it."""
    (tmp_path / "lines").write_text(
        "linear x=4x40 w=8x40 bias\nnonsense\nconv1d x=2x3x20 w=4x3x5\nlinear x=1x8 w=3x8\n"
    )
    folder = tmp_path / "files"
    folder.mkdir()
    problem = parse_problem_text("conv1d x=1x2x9 w=3x2x3")
    operands = make_normal(problem, 0)
    save_case(folder / "case.npz", problem, operands, {"mine": np.zeros(problem.out_shape, np.float32)})
    (folder / "broken.npz").write_bytes(b"no case")
    make_network(folder / "net.onnx")
    return [str(tmp_path / "lines"), str(folder)]


@pytest.mark.needs("torch")
def test_the_table_is_that_of_a_run_here(cluster, subjects, tmp_path):
    """torch is on one node only, onnxruntime on the other: each subject needs both."""
    here, there = tmp_path / "here.parquet", tmp_path / "there.parquet"
    status, _, err = wait_for(sweep(subjects, here))
    assert status == 1, err
    status, out, err = wait_for(sweep(subjects, there, "--ray", cluster.address, "--json"))
    assert status == 1, err
    assert '"schema":"samebits.list/1"' in out.replace(" ", "")
    assert read_rows(there) == read_rows(here)
    assert there.read_bytes() == here.read_bytes()
    assert {row["verdict"] for row in read_rows(there) if row["subject"] == "net.onnx"} <= {"identical", "rounding"}


@pytest.mark.needs("torch")
def test_a_node_lost_midway_costs_nothing(cluster, tmp_path):
    extra = cluster.add({"torch": 1})
    here, there = tmp_path / "here.parquet", tmp_path / "there.parquet"
    process = sweep(["catalog:corner/prime*"], there, "--ray", cluster.address)
    journal = tmp_path / "there.parquet.partial"
    end = time.monotonic() + 120
    while not (journal.exists() and journal.read_bytes().count(b"\n") > 2) and time.monotonic() < end:
        time.sleep(0.05)
    cluster.kill(extra)
    status, _, err = wait_for(process)
    assert status == 1, err
    status, _, err = wait_for(sweep(["catalog:corner/prime*"], here))
    assert status == 1, err
    assert there.read_bytes() == here.read_bytes()


@pytest.mark.needs("torch")
def test_what_only_a_lost_node_has_waits_for_another_one(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster_running, "_PATIENCE_S", 3.0)
    (tmp_path / "lines").write_text("".join(f"linear x=2x{n} w=2x{n}\n" for n in range(1, 40)))
    table = tmp_path / "t.parquet"
    with open_cluster({}, {"torch": 1}) as own:
        lonely = [1]

        def lose(what, share):
            if share and share > 0.2 and lonely:
                own.kill(lonely.pop())
                # Its processes answer until they notice.
                wait_for_nodes(1)

        with pytest.raises(FindingError, match=r"no node of the cluster is left that has torch; --resume goes on"):
            run_list(str(tmp_path / "lines"), ["torch"], table=table, ray=own.address, progress=lose)
        assert not table.exists()
        own.add({"torch": 1})
        found = run_list(str(tmp_path / "lines"), ["torch"], table=table, ray=own.address, resume=True)
    assert found.subjects == 39
    run_list(str(tmp_path / "lines"), ["torch"], table=tmp_path / "here.parquet")
    assert table.read_bytes() == (tmp_path / "here.parquet").read_bytes()


@pytest.mark.parametrize("address", ["127.0.0.1:1", "nonsense", "host:port", "[::1]:1", "", "local"])
def test_a_cluster_that_is_not_there_is_one_line_and_leaves_nothing(address, tmp_path):
    with pytest.raises(ArgumentError, match=r"no Ray cluster at|names no cluster") as caught:
        run_list("catalog:corner/prime", ["truth"], table=tmp_path / "t.parquet", ray=address)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_port_of_something_else_is_given_up_soon(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster_running, "_PROBE_S", 4.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(ArgumentError, match="no answer within 4 s"):
            run_list("catalog:corner/prime", ["truth"], table=tmp_path / "t.parquet", ray=address)
    assert list(tmp_path.iterdir()) == []


def test_files_of_a_network_stay_in_their_folder(tmp_path):
    """Data that is named by way of another folder neither travels nor is written."""
    (tmp_path / "net").mkdir()
    make_network(tmp_path / "net" / "net.onnx")
    model = onnx.load(tmp_path / "net" / "net.onnx", load_external_data=False)
    assert list_external_files(tmp_path / "net" / "net.onnx") == ["weights.bin"]
    for location in ("../net/weights.bin", "sub/../weights.bin", str(tmp_path / "net" / "weights.bin")):
        model.graph.initializer[0].external_data[0].value = location
        (tmp_path / "net" / "net.onnx").write_bytes(model.SerializeToString())
        assert list_external_files(tmp_path / "net" / "net.onnx") == []
    put_files(Subject("n", "n.onnx", "network"), {"n.onnx": b"", "../escaped.bin": b"x"}, tmp_path / "net")
    assert not (tmp_path / "escaped.bin").exists()


def test_ray_is_imported_for_clusters_only(tmp_path):
    (tmp_path / "lines").write_text("linear x=1x8 w=3x8\n")
    words = (
        "import sys, samebits.questions.list.list_running as l; l.run_list(sys.argv[1], ['truth'], table=sys.argv[2]);"
        "print('ray' in sys.modules)"
    )
    given = [sys.executable, "-c", words, str(tmp_path / "lines"), str(tmp_path / "t.parquet")]
    assert subprocess.run(given, capture_output=True, text=True, check=True).stdout.strip() == "False"

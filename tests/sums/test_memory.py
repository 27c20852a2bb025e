"""How much memory may be taken: the least of what the machine, a container and the process's own limit leave."""

import subprocess
import sys

import pytest

from samebits.sums.tiles.memory import count_available_bytes

GIB = 2**30
FREE = "MemTotal:       65536000 kB\nMemFree:         1000 kB\nMemAvailable:   16777216 kB\n"
GROUP, OLD_GROUP = "sys/fs/cgroup", "sys/fs/cgroup/memory"


@pytest.fixture
def system(tmp_path):
    """A system's files, of which those named are there."""

    def write(files):
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        return tmp_path

    return write


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, 8 * GIB),
        ({"proc/meminfo": FREE}, 16 * GIB),
        ({"proc/meminfo": "MemTotal: 5 kB\n"}, 8 * GIB),
        ({"proc/meminfo": FREE, f"{GROUP}/memory.max": "max\n", f"{GROUP}/memory.current": "5\n"}, 16 * GIB),
        (
            {
                "proc/meminfo": FREE,
                f"{GROUP}/memory.max": f"{4 * GIB}\n",
                f"{GROUP}/memory.current": f"{3 * GIB}\n",
                f"{GROUP}/memory.stat": f"anon 17\ninactive_file {GIB}\nactive_file 5\n",
            },
            2 * GIB,
        ),
        (
            {
                "proc/meminfo": FREE,
                f"{OLD_GROUP}/memory.limit_in_bytes": f"{4 * GIB}\n",
                f"{OLD_GROUP}/memory.usage_in_bytes": f"{3 * GIB}\n",
            },
            GIB,
        ),
        ({f"{GROUP}/memory.max": "5\n", f"{GROUP}/memory.current": "9\n"}, 0),
    ],
)
def test_the_least_of_all_limits_counts(system, files, expected):
    assert count_available_bytes(system(files)) == expected


def test_a_limit_on_the_address_space_counts():
    code = f"import resource; resource.setrlimit(resource.RLIMIT_AS, ({2 * GIB}, {2 * GIB}))\n"
    code += "from samebits.sums.tiles.memory import count_available_bytes; print(count_available_bytes())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 0 < float(done.stdout) < 2 * GIB

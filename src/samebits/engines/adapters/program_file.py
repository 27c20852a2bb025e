"""Exported programs of torch (.pt2), read as those of a stranger: nothing is unpickled or run, torch sees a clean copy.

torch's own reader unpickles sample inputs, evaluates symbolic sizes as Python, resolves operators by any attribute of
torch, and puts names into code that it runs; its documentation says to load no file of a stranger. So the archive is
read here first, without torch, and written again: entries that are data, a graph whose every text is of a known form,
pickles that hold tensors alone. Whatever else a file holds is refused, in one line, or left out.

Sources: torch 2.13, `torch/export/pt2_archive/_package.py`, `torch/_export/serde/{schema,serialize}.py`,
`torch/utils/_pytree.py`; the older form (to 2.7) in `torch/export/__init__.py`.
"""

from __future__ import annotations

import io
import json
import pickletools
import re
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from samebits.engines.adapters.program_graph import ProgramRefused, check_texts, clean_program, count_bytes
from samebits.limits import VALUE_BYTES
from samebits.regular_files import open_regular

# The name that torch.export.save gives the only graph of an archive.
_MODEL = "model"
_LONGEST_JSON = 256 * 2**20
# Entries of the archive, relative to the folder that holds them all; `pickle` ones are torch.save's own archives.
_DATA = re.compile(r"data/(weights/weight_\d+|constants/tensor_\d+)")
_CONFIG = re.compile(r"data/(weights|constants)/model_(weights|constants)_config\.json")
_PICKLES = ("data/sample_inputs/model.pt", "data/weights/model.pt", "data/constants/model.pt")
_PROGRAM = "models/model.json"
_MARKS = ("archive_format", "archive_version", "byteorder", ".data/version", ".data/serialization_id", "version")
_OLD_PROGRAM = "serialized_exported_program.json"
_OLD_PICKLES = ("serialized_state_dict.pt", "serialized_constants.pt", "serialized_example_inputs.pt")
# Left out: torch returns these as text on request, and nothing requests them.
_EXTRA = re.compile(r"(data/extra|extra|extra_files)/.*", re.DOTALL)
_LARGEST_MARK = 1000

# All names that a pickle of tensors (torch.save) may use; none of them computes or opens anything.
_GLOBALS = frozenset(
    {("collections", "OrderedDict"), ("torch._utils", "_rebuild_tensor_v2"), ("torch._utils", "_rebuild_parameter")}
    | {("torch", f"{kind}Storage") for kind in (
        "Float", "Double", "Half", "BFloat16", "Long", "Int", "Short", "Char", "Byte", "Bool", "Untyped",
        "ComplexFloat", "ComplexDouble",
    )}
    | {("torch.storage", "UntypedStorage"), ("torch", "Size")}
)  # fmt: skip
# Opcodes of a pickle that refer to a name other than by GLOBAL, or make objects of classes.
_REFUSED_OPCODES = ("STACK_GLOBAL", "INST", "OBJ", "NEWOBJ", "NEWOBJ_EX", "EXT1", "EXT2", "EXT4", "PERSID", "BUILD")


def copy_cleanly(path: str | Path, target: str | Path) -> None:
    """Copies the program in `path` to `target`, keeping only tensors and a checked graph.

    Raises ProgramRefused for a file that is no exported program, that holds more, or that is damaged; OSError.
    """
    with open_regular(path) as file:
        try:
            archive = zipfile.ZipFile(file)
        except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
            raise ProgramRefused(f"no exported program of torch ({error})") from None
        with archive, zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as clean:
            members = _list_members(archive)
            try:
                _copy(archive, members, clean)
            except (zipfile.BadZipFile, EOFError, OSError, ValueError, RuntimeError, OverflowError) as error:
                # ProgramRefused is a ValueError as well.
                if isinstance(error, ProgramRefused):
                    raise
                raise ProgramRefused(f"a damaged program ({str(error)[:100]})") from None


def _list_members(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """The entries by their names in the folder; refuses duplicate and compressed ones, so that none can expand."""
    members: dict[str, zipfile.ZipInfo] = {}
    for member in archive.infolist():
        _, slash, name = member.filename.partition("/")
        name = name if slash and not member.filename.startswith("extra_files/") else member.filename
        if name in members:
            raise ProgramRefused(f"two entries are called {name[:60]}")
        if member.compress_type != zipfile.ZIP_STORED:
            raise ProgramRefused(f"entry {name[:60]} is compressed, as torch compresses none")
        members[name] = member
    return members


def _copy(archive: zipfile.ZipFile, members: Mapping[str, zipfile.ZipInfo], clean: zipfile.ZipFile) -> None:
    if not {_PROGRAM, _OLD_PROGRAM} & set(members):
        raise ProgramRefused("no exported program of torch (it has no graph)")
    folder = "" if _OLD_PROGRAM in members else f"{_MODEL}/"
    pickled = {f"data/{kind}/{name}" for kind, name in _list_pickled(archive, members)}
    for name, member in members.items():
        if _EXTRA.fullmatch(name):
            continue
        if name in (_PROGRAM, _OLD_PROGRAM):
            clean.writestr(folder + name, json.dumps(clean_program(_read_json(archive, member))))
        elif _CONFIG.fullmatch(name):
            config = _read_json(archive, member)
            _check_config(config, members, name)
            clean.writestr(folder + name, json.dumps(config))
        elif name in pickled or name in _PICKLES or name in _OLD_PICKLES:
            _check_saved(name, archive, member)
            _copy_entry(archive, member, clean, folder + name)
        elif _DATA.fullmatch(name) or (name in _MARKS and member.file_size <= _LARGEST_MARK):
            _copy_entry(archive, member, clean, folder + name)
        else:
            raise ProgramRefused(f"it holds {name[:60]!r}, which is no tensor and no graph")


def _copy_entry(archive: zipfile.ZipFile, member: zipfile.ZipInfo, clean: zipfile.ZipFile, name: str) -> None:
    """Copies an entry's bytes; torch maps them, and wants them aligned as it writes them itself."""
    with archive.open(member) as source:
        info = zipfile.ZipInfo(name)
        info.file_size = member.file_size
        with clean.open(info, "w", force_zip64=member.file_size >= 2**31) as copied:
            while chunk := source.read(2**24):
                copied.write(chunk)


def _read_json(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Any:
    if member.file_size > _LONGEST_JSON:
        raise ProgramRefused(f"{member.filename[:60]} has {member.file_size:,} bytes")
    try:
        return json.loads(archive.read(member))
    except (ValueError, RecursionError) as error:
        raise ProgramRefused(f"{member.filename[:60]} is no JSON ({str(error)[:60]})") from None


# Weights and constants.


def _list_pickled(archive: zipfile.ZipFile, members: Mapping[str, zipfile.ZipInfo]) -> Iterator[tuple[str, str]]:
    """The weights and constants that torch would unpickle: the kind and the file name of each."""
    for name, member in members.items():
        found = _CONFIG.fullmatch(name)
        if found:
            for entry in _list_payloads(_read_json(archive, member)):
                if entry.get("use_pickle") is not False:
                    yield found[1], str(entry.get("path_name"))


def _list_payloads(config: Any) -> list[dict[str, Any]]:
    entries = config.get("config") if isinstance(config, dict) else None
    if not isinstance(entries, dict) or not all(isinstance(entry, dict) for entry in entries.values()):
        raise ProgramRefused("its list of weights is none")
    return list(entries.values())


def _check_config(config: Any, members: Mapping[str, zipfile.ZipInfo], name: str) -> None:
    """Raises ProgramRefused for a payload that is no tensor, or one that declares more than it has."""
    folder, total = name.rpartition("/")[0], 0
    for entry in _list_payloads(config):
        file = f"{folder}/{entry.get('path_name')}"
        if not _DATA.fullmatch(file):
            raise ProgramRefused(f"{file[:60]!r} is no weight and no constant that is a tensor")
        if file not in members:
            raise ProgramRefused(f"{file[:60]} is missing")
        if entry.get("use_pickle") is False:
            total += count_bytes(entry.get("tensor_meta"))
    check_texts(config)
    VALUE_BYTES.check(total - sum(m.file_size for m in members.values()), "its list of weights, beyond what is stored,")


# Pickles of tensors.


def _check_saved(name: str, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> None:
    """Raises ProgramRefused unless an entry is an archive of torch.save that holds tensors in plain containers."""
    if member.file_size == 0:
        return
    data = archive.read(member)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as saved:
            inside = _list_members(saved)
            if "data.pkl" not in inside or any(re.fullmatch(r"(constants|code).*", n) for n in inside):
                raise ProgramRefused(f"{name[:60]} is no file of tensors")
            check_pickle(name, saved.read(inside["data.pkl"]))
    except zipfile.BadZipFile:
        raise ProgramRefused(f"{name[:60]} is no file of tensors as torch saves them") from None


def check_pickle(name: str, data: bytes) -> None:
    """Raises ProgramRefused for a pickle that names anything but what rebuilds a tensor; nothing is unpickled."""
    try:
        for opcode, argument, _ in pickletools.genops(data):
            if opcode.name == "GLOBAL" and tuple(str(argument).split(" ", 1)) not in _GLOBALS:
                raise ProgramRefused(f"{name[:60]} holds {str(argument)[:60]!r}, and tensors alone are read")
            if opcode.name in _REFUSED_OPCODES:
                raise ProgramRefused(f"{name[:60]} holds objects ({opcode.name}), and tensors alone are read")
    except ProgramRefused:
        raise
    except Exception as error:  # pickletools raises whatever hostile bytes make it raise.
        raise ProgramRefused(f"{name[:60]} is a damaged pickle ({str(error)[:60]})") from None

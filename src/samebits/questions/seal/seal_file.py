"""The file of a seal: JSON in a zip archive, without code; what was changed in it does not have its digest."""

from __future__ import annotations

import hashlib
import io
import zipfile
from pathlib import Path

import msgspec

from samebits.errors import SealError
from samebits.findings import finding_from_json, json_from_finding
from samebits.questions.seal.seal_schema import Seal
from samebits.regular_files import check_target, open_regular

_MEMBER = "seal.json"
_LARGEST_BYTES = 2**26
_SCHEMA = "samebits.seal/"


def digest_seal(seal: Seal) -> str:
    """The SHA-256 of everything in a seal but this digest, and when and by which command it was made."""
    bare = msgspec.structs.replace(seal, content="", made=None)
    return hashlib.sha256(json_from_finding(bare).encode()).hexdigest()


def write_seal(path: str | Path, seal: Seal) -> None:
    """Writes the file; raises SealError where it cannot be written."""
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        # A fixed time: the same seal is the same file.
        archive.writestr(zipfile.ZipInfo(_MEMBER), json_from_finding(seal), zipfile.ZIP_DEFLATED)
    try:
        check_target(path)
        Path(path).write_bytes(held.getvalue())
    except OSError as error:
        raise SealError(f"{path} cannot be written: {error.strerror or error}") from None


def read_seal(path: str | Path) -> Seal:
    """The seal in a file; raises SealError, in one line, for a file that is none, is damaged or was changed."""
    text = _read_member(Path(path))
    try:
        kind = msgspec.json.decode(text, type=_Kind)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError, RecursionError) as error:
        raise SealError(f"{path}: no seal of samebits: {str(error)[:150]}") from None
    if kind.schema != "samebits.seal/1":
        newer = "a seal of another release of samebits" if kind.schema.startswith(_SCHEMA) else "no seal of samebits"
        raise SealError(f"{path}: {newer} ({kind.schema[:60]!r}); this one reads samebits.seal/1")
    try:
        seal = finding_from_json(text, Seal)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError, RecursionError) as error:
        raise SealError(f"{path}: no seal of samebits: {str(error)[:150]}") from None
    if digest_seal(seal) != seal.content:
        raise SealError(f"{path}: what it holds is not what was sealed: its digest is another one")
    if not seal.units or seal.seed < 0:
        raise SealError(f"{path}: no seal of samebits: it seals nothing, or has a seed below 0")
    return seal


class _Kind(msgspec.Struct):
    """What every finding begins with."""

    schema: str = ""


def _read_member(path: Path) -> str:
    try:
        with open_regular(path) as file:
            if file.read(4) != b"PK\x03\x04":
                raise SealError(f"{path}: no seal of samebits, which is a zip archive")
            with zipfile.ZipFile(file) as archive:
                names = archive.namelist()
                if names != [_MEMBER]:
                    raise SealError(f"{path}: no seal of samebits, which holds {_MEMBER} alone")
                if archive.getinfo(_MEMBER).file_size > _LARGEST_BYTES:
                    raise SealError(f"{path}: larger than any seal")
                with archive.open(_MEMBER) as member:
                    held = member.read(_LARGEST_BYTES + 1)
    except SealError:
        raise
    except OSError as error:
        raise SealError(f"{path}: {error.strerror or error}") from None
    except Exception as error:  # Readers of zip archives raise whatever hostile bytes make them raise.
        raise SealError(f"{path}: no zip archive that can be read ({str(error)[:100]})") from None
    if len(held) > _LARGEST_BYTES:
        raise SealError(f"{path}: larger than any seal")
    try:
        return held.decode()
    except UnicodeDecodeError:
        raise SealError(f"{path}: no seal of samebits: it is no text") from None

"""Exported programs of torch (.pt2), read as those of a stranger: nothing is unpickled or run, torch sees a clean copy.

torch's own reader unpickles sample inputs, evaluates symbolic sizes as Python, resolves operators by any attribute of
torch, and puts names into code that it runs; its documentation says to load no file of a stranger. So the archive is
read here first, without torch, and written anew: entries that are data, a graph whose every text is of a known form,
pickles that hold tensors alone. Whatever else a file holds is refused, in one line, or left out.

Sources: torch 2.13, `torch/export/pt2_archive/_package.py`, `torch/_export/serde/{schema,serialize}.py`,
`torch/utils/_pytree.py`; the older form (to 2.7) in `torch/export/__init__.py`.
"""

from __future__ import annotations

import ast
import io
import json
import math
import pickletools
import re
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from samebits.limits import NODES, VALUE_BYTES
from samebits.regular_files import open_regular

# What a graph is called by whom: torch.export.save has one, by this name.
_MODEL = "model"
_LONGEST_JSON = 256 * 2**20
# Entries of the archive, behind the folder they all stand in; `pickle` ones are torch.save's own archives.
_DATA = re.compile(r"data/(weights/weight_\d+|constants/tensor_\d+)")
_CONFIG = re.compile(r"data/(weights|constants)/model_(weights|constants)_config\.json")
_PICKLES = ("data/sample_inputs/model.pt", "data/weights/model.pt", "data/constants/model.pt")
_PROGRAM = "models/model.json"
_MARKS = ("archive_format", "archive_version", "byteorder", ".data/version", ".data/serialization_id", "version")
_OLD_PROGRAM = "serialized_exported_program.json"
_OLD_PICKLES = ("serialized_state_dict.pt", "serialized_constants.pt", "serialized_example_inputs.pt")
# Left out: torch gives it back as text to whoever asks for it, and nobody does.
_EXTRA = re.compile(r"(data/extra|extra|extra_files)/.*", re.DOTALL)
_LARGEST_MARK = 1000

# What a pickle of tensors names (torch.save), and nothing that computes or opens anything.
_GLOBALS = frozenset(
    {("collections", "OrderedDict"), ("torch._utils", "_rebuild_tensor_v2"), ("torch._utils", "_rebuild_parameter")}
    | {("torch", f"{kind}Storage") for kind in (
        "Float", "Double", "Half", "BFloat16", "Long", "Int", "Short", "Char", "Byte", "Bool", "Untyped",
        "ComplexFloat", "ComplexDouble",
    )}
    | {("torch.storage", "UntypedStorage"), ("torch", "Size")}
)  # fmt: skip
# Operations of a pickle that name something otherwise than by GLOBAL, or make objects of classes.
_REFUSED_OPCODES = ("STACK_GLOBAL", "INST", "OBJ", "NEWOBJ", "NEWOBJ_EX", "EXT1", "EXT2", "EXT4", "PERSID", "BUILD")

_NAME = re.compile(r"[A-Za-z0-9_.]{0,500}")
# Versions of torch, and keys of dictionaries that are arguments: code has them in quotes.
_WORDS = re.compile(r"[A-Za-z0-9_.+<>=\- ]{0,500}")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# An operator of torch, its overload; a few of Python's double names are ATen's too.
_OPERATOR = re.compile(
    r"torch\.ops\.(?:aten|prims|quantized_decomposed|torchvision)\._?[A-Za-z][A-Za-z0-9_]*\.[A-Za-z][A-Za-z0-9_]*"
    r"|torch\.ops\.aten\.__i?(?:and|or|xor|lshift|rshift)__\.[A-Za-z][A-Za-z0-9_]*"
    r"|torch\.ops\.higher_order\.(?:cond|while_loop|scan|map_impl|associative_scan"
    r"|wrap_with_set_grad_enabled|wrap_with_autocast)"
    r"|torch\.(?:sym_(?:int|float|max|min|not|ite|sqrt|sum)|_sym_sqrt)"
    r"|math\.(?:trunc|ceil|floor|sqrt|pow)"
    r"|_operator\.(?:add|sub|mul|truediv|floordiv|mod|pow|neg|pos|abs|eq|ne|lt|le|gt|ge|and_|or_|xor|invert|not_"
    r"|lshift|rshift|getitem)"
)
# ATen's only operator that opens a file.
_OPENS_FILES = "torch.ops.aten.from_file."
# What sizes are written with: symbols, and functions of torch.utils._sympy.functions and sympy.
_SYMBOL = re.compile(r"[a-z]{1,4}\d{1,9}")
_FUNCTIONS = frozenset((
    "FloorDiv", "ModularIndexing", "Where", "PythonMod", "Mod", "CleanDiv", "CeilToInt", "FloorToInt", "CeilDiv",
    "RShift", "FloatTrueDiv", "IntTrueDiv", "IsNonOverlappingAndDenseIndicator", "TruncToFloat", "TruncToInt",
    "RoundToInt", "RoundDecimal", "ToFloat", "Identity", "Max", "Min", "Eq", "Ne", "Ge", "Gt", "Le", "Lt", "And", "Or",
    "Not", "Add", "Mul", "Integer", "Float", "Rational", "floor", "ceiling", "Abs", "StrictLessThan", "LessThan",
    "StrictGreaterThan", "GreaterThan", "Equality", "Unequality",
))  # fmt: skip
# Those that make numbers of any length out of short ones: their second argument is a small number.
_POWERS = frozenset(("Pow", "PowByNatural", "FloatPow", "LShift"))
_CONSTANTS = frozenset(("true", "false", "oo", "int_oo", "True", "False", "nan", "E", "pi"))
# All exponents of an expression multiplied are at most the last.
_LONGEST_EXPRESSION, _LARGEST_NUMBER, _LARGEST_POWER = 2_000, 2**63, 64
_CONTAINERS = ("builtins.tuple", "builtins.list", "builtins.dict", "collections.OrderedDict", "collections.namedtuple")
# Texts of any kind: torch prints them with repr where it makes code, and they go to operators as they are.
_TEXTS = ("as_string", "as_strings")
# Bytes of an element, by the number of its type in torch/_export/serde/schema.py.
_ITEM_BYTES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 2, 7: 4, 8: 8, 9: 4, 10: 8, 11: 16, 12: 1, 13: 2, 28: 2, 34: 4, 35: 8}
_ITEM_BYTES |= dict.fromkeys(range(29, 34), 1)


class ProgramRefused(ValueError):
    """A program holds what is not read from files of strangers; the message is one line."""


def copy_cleanly(path: str | Path, target: str | Path) -> None:
    """Writes the program in `path` anew, as `target`, with nothing in it but tensors and a checked graph.

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
            except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, UnicodeDecodeError) as error:
                raise ProgramRefused(f"a damaged program ({str(error)[:100]})") from None


def _list_members(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """The entries by their names behind the folder; none twice, none compressed, so that none is larger than it is."""
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
            clean.writestr(folder + name, json.dumps(_clean_program(_read_json(archive, member))))
        elif _CONFIG.fullmatch(name):
            _check_config(_read_json(archive, member), members, name)
            _copy_entry(archive, member, clean, folder + name)
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
    """The weights and constants that torch would unpickle, by what they are and their file's name."""
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
            total += _count_bytes(entry.get("tensor_meta"))
    _check_texts(config)
    VALUE_BYTES.check(total - sum(m.file_size for m in members.values()), "its list of weights, beyond what is stored,")


def _count_bytes(meta: Any) -> int:
    """The bytes of a tensor as it is declared; an open size counts as its hint."""
    if not isinstance(meta, dict) or not isinstance(meta.get("sizes"), list):
        raise ProgramRefused("a tensor has no sizes")
    count = _ITEM_BYTES.get(meta.get("dtype", 0), 8)
    for size in meta["sizes"]:
        count *= max(_read_size(size), 0)
    return count


def _read_size(size: Any) -> int:
    if isinstance(size, dict):
        hint = (size.get("as_expr") or {}).get("hint") if isinstance(size.get("as_expr"), dict) else None
        value = size.get("as_int", (hint or {}).get("as_int", 1) if isinstance(hint, dict) or hint is None else None)
        if isinstance(value, int) and abs(value) < _LARGEST_NUMBER:
            return int(value)
    raise ProgramRefused("a size is no whole number")


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


# The graph.


def _clean_program(program: Any) -> Any:
    """The graph without what is about its making: notes that torch would look up, and guards that it would run."""
    if not isinstance(program, dict) or not isinstance(program.get("graph_module"), dict):
        raise ProgramRefused("its graph is none")
    program = {**program, "guards_code": []} if "guards_code" in program else dict(program)
    nodes = 0

    def clean(value: Any, depth: int) -> Any:
        nonlocal nodes
        if depth > 200:
            raise ProgramRefused("its graph is nested more than 200 deep")
        if isinstance(value, list):
            return [clean(part, depth + 1) for part in value]
        if not isinstance(value, dict):
            return value
        nodes += "target" in value
        cleaned = {k: clean(v, depth + 1) for k, v in value.items() if k != "metadata"}
        return cleaned | ({"metadata": {}} if "metadata" in value else {})

    cleaned = clean(program, 0)
    NODES.check(nodes, "its graph")
    _check_texts(cleaned)
    _check_arguments(cleaned["graph_module"])
    tensors = cleaned["graph_module"].get("graph", {})
    values = tensors.get("tensor_values") if isinstance(tensors, dict) else None
    if not isinstance(values, dict):
        raise ProgramRefused("its graph has no values")
    VALUE_BYTES.check(sum(map(_count_bytes, values.values())), "its graph")
    return cleaned


def _check_texts(value: Any, key: str = "") -> None:
    """Raises ProgramRefused for a text that is not of the form that its key has."""
    if isinstance(value, dict):
        for name, part in value.items():
            if not _NAME.fullmatch(name):
                raise ProgramRefused(f"its graph has a name {name[:60]!r}")
            _check_key(name, part)
            _check_texts(part, name)
    elif isinstance(value, list):
        for part in value:
            _check_texts(part, key)
    elif isinstance(value, str):
        _check_text(key, value)


def _check_key(name: str, part: Any) -> None:
    if name in ("as_custom_obj", "custom_obj", "custom_obj_values") and part:
        raise ProgramRefused("its graph holds objects of classes of its own")
    if name == "target" and not isinstance(part, str):
        raise ProgramRefused("an operator of its graph has no name")


def _check_text(key: str, text: str) -> None:
    if key in _TEXTS:
        return
    if key in ("target", "as_operator"):
        check_operator(text)
    elif key == "expr_str":
        check_expression(text)
    elif key in ("in_spec", "out_spec"):
        _check_containers(text)
    elif not (_WORDS if key == "torch_version" else _NAME).fullmatch(text):
        raise ProgramRefused(f"its graph has a name {text[:60]!r}")


def _check_arguments(module: Mapping[str, Any]) -> None:
    """Raises ProgramRefused where a name that goes into code as an argument's is none."""
    calls = module.get("module_call_graph")
    for call in calls if isinstance(calls, list) else []:
        signature = call.get("signature") if isinstance(call, dict) else None
        names = signature.get("forward_arg_names") if isinstance(signature, dict) else None
        for name in names or []:
            if not (isinstance(name, str) and _IDENTIFIER.fullmatch(name)):
                raise ProgramRefused(f"an argument is called {str(name)[:60]!r}")


def check_operator(text: str) -> None:
    """Raises ProgramRefused for anything but an operator that computes: no attribute of torch that does more."""
    if not _OPERATOR.fullmatch(text) or text.startswith(_OPENS_FILES):
        raise ProgramRefused(f"its graph calls {text[:80]!r}, which is none of torch's operators that compute")


def check_expression(text: str) -> None:
    """Raises ProgramRefused for a size that is no arithmetic of symbols: torch has sympy evaluate it as Python."""
    if len(text) > _LONGEST_EXPRESSION:
        raise ProgramRefused(f"a size is a text of {len(text):,} characters")
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ProgramRefused(f"a size is {text[:60]!r}, which is no expression") from None
    if not _is_arithmetic(tree.body) or math.prod(_list_exponents(tree.body)) > _LARGEST_POWER:
        raise ProgramRefused(f"a size is {text[:60]!r}, which is more than arithmetic")


def _is_arithmetic(node: ast.expr) -> bool:
    """Whether an expression is made of symbols, numbers, operators, and the functions that sizes are written with."""
    match node:
        case ast.Constant(value=bool()):
            return True
        case ast.Constant(value=int() | float() as value):
            return abs(value) < _LARGEST_NUMBER
        case ast.Name(id=name):
            return bool(_SYMBOL.fullmatch(name)) or name in _CONSTANTS
        case ast.UnaryOp(operand=operand):
            return _is_arithmetic(operand)
        case ast.BinOp(left=left, op=ast.LShift(), right=right):
            return False
        case ast.BinOp(left=left, right=right):
            return _is_arithmetic(left) and _is_arithmetic(right)
        case ast.Compare(left=left, comparators=others):
            return all(map(_is_arithmetic, (left, *others)))
        case ast.BoolOp(values=values):
            return all(map(_is_arithmetic, values))
        case ast.Call(func=ast.Name(id="Symbol"), args=[ast.Constant(value=str(name))], keywords=keywords):
            return bool(_SYMBOL.fullmatch(name)) and all(isinstance(k.value, ast.Constant) and k.arg for k in keywords)
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
            return name in _FUNCTIONS | _POWERS and all(map(_is_arithmetic, arguments))
        case _:
            return False


def _list_exponents(tree: ast.expr) -> Iterator[int]:
    """The exponents of an expression; of one that is no number, more than any may be."""
    for node in ast.walk(tree):
        match node:
            case ast.BinOp(op=ast.Pow(), right=right):
                yield _read_exponent(right)
            case ast.Call(func=ast.Name(id=name), args=[_, right, *_]) if name in _POWERS:
                yield _read_exponent(right)


def _read_exponent(node: ast.expr) -> int:
    match node:
        case (
            ast.Constant(value=int(power))
            | ast.Call(func=ast.Name(id="Integer"), args=[ast.Constant(value=int(power))])
        ):
            return max(abs(power), 1)
        case ast.UnaryOp(operand=operand):
            return _read_exponent(operand)
        case _:
            return _LARGEST_POWER + 1


def _check_containers(text: str) -> None:
    """Raises ProgramRefused unless arguments lie in plain containers: others are looked up by the names of classes."""
    try:
        _, schema = json.loads(text)
        pending = [schema]
        while pending:
            found = pending.pop()
            kind, context = found["type"], found["context"]
            if kind is not None and kind not in _CONTAINERS:
                raise ProgramRefused(f"arguments in a {str(kind)[:60]!r} are not read from files")
            names = json.loads(context) if isinstance(context, str) else context
            for name in _list_strings(names):
                if not _WORDS.fullmatch(name) or name.startswith("__"):
                    raise ProgramRefused(f"an argument is called {name[:60]!r}")
            pending += found["children_spec"]
    except ProgramRefused:
        raise
    except (ValueError, TypeError, KeyError, RecursionError):
        raise ProgramRefused("its arguments lie in containers that cannot be read") from None


def _list_strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, dict)):
        parts = value if isinstance(value, list) else [*value, *value.values()]
        for part in parts:
            yield from _list_strings(part)

"""The graph of an exported program (.pt2), as a stranger's: every text of it has a known form, or it is refused.

torch resolves operators by any attribute of torch, has sympy evaluate sizes as Python, looks containers of arguments up
by the names of classes, and puts names into code that it runs. Notes on how the graph was made, and guards, are left
out. Sources: torch 2.13, `torch/_export/serde/{schema,serialize}.py`, `torch/utils/_pytree.py`.
"""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from samebits.limits import NODES, VALUE_BYTES

_NAME = re.compile(r"[A-Za-z0-9_.\-]{0,500}")
# Sizes stand here as keys.
_RANGES = "range_constraints"
_SPECS = ("in_spec", "out_spec")
# Versions of torch, and keys of dictionaries that are arguments: code has them in single quotes.
_WORDS = re.compile(r"[^'\"\\\x00-\x1f\x7f-\x9f\u2028\u2029]{0,500}")
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
# ATen's operators that open a file or print something.
_NO_ARITHMETIC = re.compile(r"torch\.ops\.aten\.(?:from_file|save|_print|warn|_debug_\w+)\..*")
# What sizes are written with: symbols, and functions of torch.utils._sympy.functions and sympy.
_SYMBOL = re.compile(r"[a-z]{1,4}\d{1,9}")
_FUNCTIONS = frozenset((
    "FloorDiv", "ModularIndexing", "Where", "PythonMod", "Mod", "CleanDiv", "CeilToInt", "FloorToInt", "CeilDiv",
    "RShift", "FloatTrueDiv", "IntTrueDiv", "IsNonOverlappingAndDenseIndicator", "TruncToFloat", "TruncToInt",
    "RoundToInt", "RoundDecimal", "ToFloat", "Identity", "Max", "Min", "Eq", "Ne", "Ge", "Gt", "Le", "Lt", "And", "Or",
    "Not", "Add", "Mul", "Integer", "Rational", "floor", "ceiling", "Abs", "StrictLessThan", "LessThan",
    "StrictGreaterThan", "GreaterThan", "Equality", "Unequality",
))  # fmt: skip
# Those that make numbers of any length out of short ones: their second argument is a small number.
_POWERS = frozenset(("Pow", "PowByNatural", "FloatPow", "LShift", "Float", "RoundDecimal"))
# For sympy ^ is a power, too.
_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.BitAnd, ast.BitOr, ast.RShift)
_CONSTANTS = frozenset(("true", "false", "oo", "int_oo", "True", "False", "nan", "E", "pi"))
# All exponents of an expression multiplied are at most the last.
_DIGITS = re.compile(r"-?\d{1,20}(?:\.\d{0,20})?(?:e[+-]?\d{1,3})?")
_LONGEST_EXPRESSION, _LARGEST_NUMBER, _LARGEST_POWER = 2_000, 2**63, 64
_CONTAINERS = ("builtins.tuple", "builtins.list", "builtins.dict", "collections.OrderedDict", "collections.namedtuple")
# Keys of free text: torch writes it into code with repr, and passes it to operators unchanged.
_TEXTS = ("as_string", "as_strings")
# Bytes of an element, by the number of its type in torch/_export/serde/schema.py.
_ITEM_BYTES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 2, 7: 4, 8: 8, 9: 4, 10: 8, 11: 16, 12: 1, 13: 2, 28: 2, 34: 4, 35: 8}
_ITEM_BYTES |= dict.fromkeys(range(29, 34), 1)


class ProgramRefused(ValueError):
    """A program holds what is not read from files of strangers; the message is one line."""


def clean_program(program: Any) -> Any:
    """The checked program without its metadata, which torch would look up, and its guards, which torch would run."""
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
    check_texts(cleaned)
    _rewrite_containers(cleaned)
    _check_arguments(cleaned["graph_module"])
    tensors = cleaned["graph_module"].get("graph", {})
    values = tensors.get("tensor_values") if isinstance(tensors, dict) else None
    if not isinstance(values, dict):
        raise ProgramRefused("its graph has no values")
    VALUE_BYTES.check(sum(map(count_bytes, values.values())), "its graph")
    return cleaned


def check_texts(value: Any, key: str = "") -> None:
    """Raises ProgramRefused for a text that is not of the form that its key has."""
    if isinstance(value, dict):
        for name, part in value.items():
            if key == _RANGES:
                check_expression(name)
            elif not _NAME.fullmatch(name):
                raise ProgramRefused(f"its graph has a name {name[:60]!r}")
            _check_key(name, part)
            check_texts(part, "" if key == _RANGES else name)
    elif isinstance(value, list):
        for part in value:
            check_texts(part, key)
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
    elif key in _SPECS:
        rewrite_containers(text)
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
    if not _OPERATOR.fullmatch(text) or _NO_ARITHMETIC.fullmatch(text):
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
        case ast.Constant(value=bool() | int() | float() as value):
            return abs(value) < _LARGEST_NUMBER
        case ast.Name(id=name):
            return bool(_SYMBOL.fullmatch(name)) or name in _CONSTANTS
        case ast.UnaryOp(operand=operand):
            return _is_arithmetic(operand)
        case ast.BinOp(left=left, op=operator, right=right):
            return isinstance(operator, _OPERATORS) and _is_arithmetic(left) and _is_arithmetic(right)
        case ast.Compare(left=left, comparators=others):
            return all(map(_is_arithmetic, (left, *others)))
        case ast.BoolOp(values=values):
            return all(map(_is_arithmetic, values))
        case ast.Call(func=ast.Name(id="Symbol"), args=[ast.Constant(value=str(name))], keywords=keywords):
            return bool(_SYMBOL.fullmatch(name)) and all(isinstance(k.value, ast.Constant) and k.arg for k in keywords)
        case ast.Call(
            func=ast.Name(id="Float"),
            args=[ast.Constant(value=str(digits))],
            keywords=[ast.keyword(arg="precision", value=ast.Constant(value=int(bits)))],
        ):
            return bool(_DIGITS.fullmatch(digits)) and 0 < bits <= _LARGEST_POWER
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
            return name in _FUNCTIONS | _POWERS and all(map(_is_arithmetic, arguments))
        case _:
            return False


def _list_exponents(tree: ast.expr) -> Iterator[int]:
    """The exponents of an expression; for a computed one, a number above the largest allowed."""
    for node in ast.walk(tree):
        match node:
            case ast.BinOp(op=ast.Pow(), right=right):
                yield _read_exponent(right)
            case ast.Call(func=ast.Name(id=name), args=[_, *others]) if name in _POWERS:
                yield from map(_read_exponent, others)


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


def _rewrite_containers(program: Any) -> None:
    """Replaces each container text by its checked form, as torch would see both values of a duplicate key."""
    if isinstance(program, dict):
        for key in _SPECS:
            if isinstance(program.get(key), str):
                program[key] = rewrite_containers(program[key])
    for part in program.values() if isinstance(program, dict) else program if isinstance(program, list) else ():
        _rewrite_containers(part)


def rewrite_containers(text: str) -> str:
    """The text that says how arguments lie in containers, parsed and written again.

    Raises ProgramRefused unless these are plain ones: others are looked up by the names of classes.
    """
    try:
        protocol, schema = json.loads(text)
        return json.dumps([int(protocol), _rewrite_container(schema)])
    except ProgramRefused:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise ProgramRefused("its arguments lie in containers that cannot be read") from None


def _rewrite_container(found: Any) -> dict[str, Any]:
    kind, context = found["type"], found["context"]
    if kind is not None and kind not in _CONTAINERS:
        raise ProgramRefused(f"arguments in a {str(kind)[:60]!r} are not read from files")
    names = json.loads(context) if isinstance(context, str) else context
    for name in _list_strings(names):
        if not _WORDS.fullmatch(name) or name.startswith("__"):
            raise ProgramRefused(f"an argument is called {name[:60]!r}")
    parts = [_rewrite_container(part) for part in found["children_spec"]]
    return {"type": kind, "context": None if context is None else json.dumps(names), "children_spec": parts}


def _list_strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, dict)):
        parts = value if isinstance(value, list) else [*value, *value.values()]
        for part in parts:
            yield from _list_strings(part)


def count_bytes(meta: Any) -> int:
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

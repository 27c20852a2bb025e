"""Hostile case files: truncated, flipped, of wrong dtypes and shapes, bombs, links; each made from a valid one."""

from __future__ import annotations

import io
import struct
import warnings
import zipfile
from collections.abc import Callable
from random import Random

import numpy as np
from hostile_outcomes import ANY, TROUBLE, Attack, File
from hostile_texts import ODD, PROBLEMS, PRODUCTS, damage

from samebits.numbers.format import numpy_dtype
from samebits.problems import parse_problem_text
from samebits.problems.operands import make_normal

Arrays = dict[str, np.ndarray]
_NARROW = ("bfloat16", "float8_e4m3fn", "float8_e5m2")
_SPECIAL = (np.nan, np.inf, -np.inf, -0.0, 1e-45, 1e38, 65504.0, 0.0)


def make_arrays(text: str, rng: Random) -> Arrays:
    """The entries of a valid case with one recorded result or two, which are wrong in most outputs."""
    problem = parse_problem_text(text)
    arrays: Arrays = {"problem": np.array(text)}
    operands = make_normal(problem, rng.randrange(2**31))
    values = np.random.default_rng(rng.randrange(2**31))
    for name in ("a", "b")[: rng.randint(1, 2)]:
        operands[name] = values.standard_normal(problem.out_shape).astype(numpy_dtype(problem.out))
        arrays[f"name_{name}"] = np.array(rng.choice(("torch", "run 1", *ODD)).replace("\udcff", "?"))
    narrow = {n: a.view(f"uint{8 * a.itemsize}") if a.dtype.name in _NARROW else a for n, a in operands.items()}
    return arrays | narrow


def npy_bytes(array: np.ndarray) -> bytes:
    """The array as a .npy file; objects are pickled."""
    stream = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.lib.format.write_array(stream, array, allow_pickle=True)
    return stream.getvalue()


def npy_with_header(header: str, data: bytes = b"") -> bytes:
    """A .npy file that says of itself what `header` says."""
    text = header.encode("latin-1", "replace") + b"\n"
    return b"\x93NUMPY\x02\x00" + struct.pack("<I", len(text)) + text + data


def zip_bytes(entries: list[tuple[str, bytes]], compression: int = zipfile.ZIP_STORED) -> bytes:
    """An archive of these entries, repeated names and all."""
    stream = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with zipfile.ZipFile(stream, "w", compression) as archive:
            for name, data in entries:
                # A date of its own would make other bytes of the same entries.
                archive.writestr(zipfile.ZipInfo(name), data, compression)
    return stream.getvalue()


def pack(arrays: Arrays, **others: bytes) -> bytes:
    """A case file of arrays, with some entries' bytes exchanged."""
    entries = {n: npy_bytes(a) for n, a in arrays.items()} | others
    return zip_bytes([(f"{n}.npy", data) for n, data in entries.items()])


def truncate(arrays: Arrays, rng: Random) -> bytes:
    """The file cut off somewhere."""
    data = pack(arrays)
    return data[: rng.randrange(len(data))]


def flip_bits(arrays: Arrays, rng: Random) -> bytes:
    """A bit or some flipped."""
    data = bytearray(pack(arrays))
    for _ in range(rng.choice((1, 1, 3, 50))):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(data)


def damage_npy(arrays: Arrays, rng: Random) -> bytes:
    """One entry's bytes flipped or cut, the archive's own checksums right."""
    name = rng.choice(list(arrays))
    data = bytearray(npy_bytes(arrays[name]))
    for _ in range(rng.choice((1, 2, 8))):
        data[rng.randrange(min(len(data), 160))] = rng.randrange(256)
    return pack(arrays, **{name: bytes(data[: rng.choice((len(data), rng.randrange(len(data))))])})


def change_dtype(arrays: Arrays, rng: Random) -> bytes:
    """One entry of another dtype, objects among them."""
    name = rng.choice(list(arrays))
    array = arrays[name]
    dtypes = ("O", "U3", "S3", "V4", "?", "c16", "i8", "u1", "M8[s]", "m8[ns]", "f2", "f8", "g", "f4", ">f4", ">u2")
    dtype = np.dtype(rng.choice((*dtypes, [("a", "f4"), ("b", "O")], [("x", "f4", (3,))], [])))
    return pack(arrays | {name: np.zeros(array.shape, dtype)})


def change_shape(arrays: Arrays, rng: Random) -> bytes:
    """One entry of another shape."""
    name = rng.choice([n for n in arrays if arrays[n].ndim] or list(arrays))
    array = arrays[name]
    shapes = ((0,), (), (1,) * 33, array.shape[::-1], (*array.shape, 1), (0, *array.shape[1:]), (array.size,))
    return pack(arrays | {name: np.zeros(rng.choice(shapes), array.dtype)})


def lie_in_header(arrays: Arrays, rng: Random) -> bytes:
    """A header of a huge or impossible shape, of another dtype, or one that is code."""
    shape = rng.choice(
        ("(2**40,)", "(1099511627776,)", "(-1,)", "(3, -3)", "(1e3,)", "(9" + "9" * 30 + ",)", "()", "(True,)")
    )
    descr = rng.choice(
        ("'<f4'", "'|O'", "'<f4,<f4'", "[('a','<f4')]", "'<U99999999'", "'<f99'", "''", "[]", "None", "'<V0'")
    )
    headers = (
        f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}",
        f"{{'descr': {descr}, 'fortran_order': True, 'shape': (1, 2), }}",
        "{'descr': '<f4', 'fortran_order': 3, 'shape': (1,), }",
        "{'descr': '<f4', 'shape': (1,), }",
        "__import__('os').system('touch hacked')",
        "[" * 9000,
        "{" + "'a': " * 3000,
        "\x00" * 100,
        damage("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 7), }", rng),
    )  # fmt: skip
    name = rng.choice(list(arrays))
    return pack(arrays, **{name: npy_with_header(rng.choice(headers), bytes(rng.choice((0, 28, 5000))))})


def drop_entry(arrays: Arrays, rng: Random) -> bytes:
    """One entry left out."""
    dropped = rng.choice(list(arrays))
    return pack({n: a for n, a in arrays.items() if n != dropped})


def add_entries(arrays: Arrays, rng: Random) -> bytes:
    """Names twice, names that lead elsewhere, thousands of names."""
    entries = [(f"{n}.npy", npy_bytes(a)) for n, a in arrays.items()]
    name, data = rng.choice(entries)
    twice = rng.choice((data, npy_bytes(np.zeros(10**6)), b"", rng.randbytes(50)))
    outside = rng.choice(("../outside.npy", "/outside.npy", "../../x/outside", "..\\outside.npy", "C:\\x.npy", "x/"))
    more = rng.choice(
        ([(name, twice)], [(name.removesuffix(".npy"), twice)], [(outside, data)], [("z.npy", data)] * 3000)
    )
    entries += [(n if n != "z.npy" else f"z{i}.npy", d) for i, (n, d) in enumerate(more)]
    if rng.random() < 0.3:
        rng.shuffle(entries)
    return zip_bytes(entries)


def bomb(arrays: Arrays, rng: Random) -> bytes:
    """Little on disk, much in memory."""
    name = rng.choice(list(arrays))
    size = rng.choice((2**21, 2**26))
    header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({size},), }}"
    text = npy_bytes(np.array("conv1d " + " " * (size // 8)))
    inflated = rng.choice((npy_with_header(header, bytes(size)), npy_with_header(" " * size), text))
    entries = [(f"{n}.npy", npy_bytes(a)) for n, a in arrays.items() if n != name] + [(f"{name}.npy", inflated)]
    data = zip_bytes(entries, rng.choice((zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2)))
    if rng.random() < 0.5:
        # The directory says that the entry is small; what is inflated is not.
        data = data.replace(struct.pack("<I", len(inflated)), struct.pack("<I", 500))
    return data


def lie_about_size(arrays: Arrays, rng: Random) -> bytes:
    """Numbers of the archive's directory exchanged."""
    data = bytearray(pack(arrays))
    start = data.find(b"PK\x01\x02")
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(start, len(data) - 4)
        data[at : at + 4] = struct.pack("<I", rng.choice((0, 1, 2**31, 2**32 - 1, rng.randrange(2**32))))
    return bytes(data)


def spoil_values(arrays: Arrays, rng: Random) -> bytes:
    """Infinities, NaN, subnormals, signed zeros: a valid file."""
    changed = dict(arrays)
    for name in [n for n in arrays if arrays[n].dtype.kind in "fu"]:
        if rng.random() < 0.6:
            array = arrays[name].copy()
            values = np.array(_SPECIAL if array.dtype.kind == "f" else [0, 1, 0x7F, 0xFF])
            share = np.random.default_rng(rng.randrange(2**31)).random(array.shape) < rng.choice((0.01, 0.2, 1.0))
            with np.errstate(all="ignore"):
                array[share] = rng.choice(list(values)).astype(array.dtype)
            changed[name] = array
    return pack(changed)


def reorder(arrays: Arrays, rng: Random) -> bytes:
    """Fortran order and the other byte order: a valid file."""
    changed = {}
    for name, array in arrays.items():
        array = np.asfortranarray(array) if array.ndim and rng.random() < 0.5 else array
        swap = array.dtype.kind in "fu" and array.itemsize > 1 and rng.random() < 0.5
        changed[name] = array.astype(array.dtype.newbyteorder(">")) if swap else array
    return pack(changed)


def exchange_text(arrays: Arrays, rng: Random) -> bytes:
    """Another problem than the arrays are of, or none."""
    text = rng.choice((damage(str(arrays["problem"]), rng), rng.choice(PROBLEMS + PRODUCTS), rng.choice(ODD)))
    value = text.replace("\udcff", "?")
    name = rng.choice(("problem", "problem", "name_a", "name_b"))
    return pack(arrays | {name: rng.choice((np.array(value), np.array([value]), np.array(value.encode())))})


def exchange_names(arrays: Arrays, rng: Random) -> bytes:
    """Names of results as terminals and tables like them least: a valid file."""
    names = [rng.choice(ODD).replace("\udcff", "?") for _ in range(2)]
    return pack(arrays | {f"name_{n}": np.array(v) for n, v in zip(("a", "b"), names, strict=True) if n in arrays})


def put_garbage(arrays: Arrays, rng: Random) -> bytes:
    """Bytes that are no archive, or its first four only."""
    archives = (b"PK", b"PK\x03\x04", b"PK\x05\x06" + bytes(18), b"PK\x03\x04" + rng.randbytes(300))
    others = (b"", npy_bytes(next(iter(arrays.values()))), b"\x93NUMPY", b"\x80\x04c__builtin__\neval\n")
    return rng.choice((*archives, *others))


# How a case is damaged, and which exit status is right.
DAMAGES: tuple[tuple[Callable[[Arrays, Random], bytes], frozenset[int]], ...] = (
    (truncate, TROUBLE),
    (flip_bits, ANY),
    (damage_npy, ANY),
    (change_dtype, ANY),
    (change_shape, ANY),
    (lie_in_header, TROUBLE),
    (drop_entry, ANY),
    (add_entries, ANY),
    (bomb, TROUBLE),
    (lie_about_size, ANY),
    (spoil_values, frozenset({0, 1})),
    (reorder, frozenset({0, 1})),
    (exchange_text, ANY),
    (exchange_names, frozenset({0, 1})),
    (put_garbage, TROUBLE),
)


def make_case_attack(rng: Random) -> Attack:
    """A case file, or what is none under its name, to explain or to compare."""
    arrays = make_arrays(rng.choice(PROBLEMS[:8] + PRODUCTS[:8]), rng)
    damage_case, expected = rng.choice(DAMAGES)
    name = rng.choice(("c.npz", "c.npz", "c", "ü\x1b[1m.npz"))
    data = damage_case(arrays, rng)
    if name == "c" and not data.startswith(b"PK\x03\x04"):
        name = "c.npz"
    files = (File(name, data),)
    if rng.random() < 0.08:
        kind = rng.choice(("folder", "fifo", "unreadable", "loop", "dangling", "socket"))
        files, expected, name = (File("c.npz", b"", kind),), TROUBLE, "c.npz"
    elif rng.random() < 0.05:
        files, name = (*files, File("link.npz", name.encode("utf-8", "surrogateescape"), "link")), "link.npz"
    json = ("--json",) if rng.random() < 0.3 else ()
    if rng.random() < 0.3:
        # A file with a recorded result has a side that no setting changes.
        fix = rng.choice(((), (), ("--fix",), ("--fix", "--on", "numpy", "--no-attribute")))
        return Attack("case", ("compare", name, "--on", "truth", *fix, *json), files, expected)
    return Attack("case", ("explain", name, *json), files, expected)

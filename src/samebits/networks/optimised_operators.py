"""The operators that onnxruntime's optimizer puts in place of several: written out as those again.

Source: onnxruntime's docs/ContribOperators.md.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from samebits.networks.operator_writer import OperatorWriter, Write

# What a mask adds to a score that does not count.
_MASKED = -10000.0
# Longer sequences get no mask written out: a few bytes may declare any length.
_LONGEST = 2**20
_ACTIVATION = "activation"
_NUMBERS = {"LeakyRelu": ("alpha",), "HardSigmoid": ("alpha", "beta")}
_ACTIVATIONS = ("Relu", "Tanh", "Sigmoid", "HardSwish", *_NUMBERS)


_GROUPED = (
    "causal", "do_rotary", "kv_num_heads", "local_window_size", "num_heads", "rotary_interleaved", "scale",
    "smooth_softmax", "softcap",
)  # fmt: skip


def _activate(w: OperatorWriter, value: str, numbers: Sequence[float]) -> None:
    """The activation that a fused operator names, and the end of it."""
    name = str(w.given.get(_ACTIVATION, ""))
    if name == "Clip":
        value = w.add(name, value, *(w.number(float(number)) for number in numbers))
    elif name:
        w.refuse_unless(name in _ACTIVATIONS)
        given: dict[str, Any] = dict(zip(_NUMBERS.get(name, ()), map(float, numbers), strict=False))
        value = w.add(name, value, **given)
    w.end(value)


def _fused_product(w: OperatorWriter, *, operator: str) -> None:
    kept = {name: value for name, value in w.given.items() if not name.startswith(_ACTIVATION)}
    value = w.add(operator, *w.take_all(0, 3), **kept)
    if w.take(3):
        value = w.add("Add", value, w.take(3))
    alone = [w.given[f"{_ACTIVATION}_{n}"] for n in ("alpha", "beta") if f"{_ACTIVATION}_{n}" in w.given]
    _activate(w, value, w.given.get("activation_params", alone))


def _fused_matmul(w: OperatorWriter) -> None:
    sides: list[str] = []
    for side, place in (("A", 0), ("B", 1)):
        value = w.take(place)
        turns, moves_batch = w.given.get(f"trans{side}", 0), w.given.get(f"transBatch{side}", 0)
        if turns or moves_batch:
            order = list(range(w.find_rank(value)))
            w.refuse_unless(len(order) > 1)
            if moves_batch:
                order = [*order[1:-1], order[0], order[-1]]
            if turns:
                order[-2:] = order[-1], order[-2]
            value = w.turn(value, order)
        sides.append(value)
    w.end(w.scale(w.add("MatMul", *sides), float(w.given.get("alpha", 1.0))))


def _gelu(w: OperatorWriter, *, approximate: str) -> None:
    value = w.add("Add", w.take(0), w.take(1)) if w.take(1) else w.take(0)
    w.add("Gelu", value, makes=w.node.output[0], approximate=approximate)


def _quick_gelu(w: OperatorWriter) -> None:
    weights = w.add("Sigmoid", w.scale(w.take(0), float(w.given.get("alpha", 1.702))))
    w.add("Mul", w.take(0), weights, makes=w.node.output[0])


def _normalize(w: OperatorWriter, value: str, scale: str, shift: str, operator: str = "LayerNormalization") -> None:
    epsilon = float(w.given.get("epsilon", 1e-12))
    w.add(operator, value, scale, *([shift] if shift else []), makes=w.node.output[0], epsilon=epsilon, axis=-1)


def _skip_normalization(w: OperatorWriter, *, simplified: bool) -> None:
    w.refuse_unless(not w.has_output(1) and not w.has_output(2))
    x, skip, scale, fourth, fifth = (w.take(i) for i in range(5))
    shift, bias = ("", fourth) if simplified else (fourth, fifth)
    added = w.add("Add", x, skip)
    added = w.add("Add", added, bias) if bias else added
    _normalize(w, added, scale, shift, "RMSNormalization" if simplified else "LayerNormalization")
    if w.has_output(3):
        w.end(added, 3)


def _plain_normalization(w: OperatorWriter, *, operator: str) -> None:
    """LayerNormalization in opsets that do not have it yet, and SimplifiedLayerNormalization."""
    w.refuse_unless(len([v for v in w.node.output if v]) == 1)
    w.add_same(operator, drop=("stash_type",))


def _embed(w: OperatorWriter) -> None:
    ids, segments, words, positions, kinds, scale, shift, mask, places = (w.take(i) for i in range(9))
    value = w.add("Gather", words, ids)
    if places:
        place = w.add("Gather", positions, places)
    else:
        length = w.add("Slice", w.add("Shape", ids), w.keep([1]), w.keep([2]))
        place = w.add("Slice", positions, w.keep([0]), length, w.keep([0]))
    value = w.add("Add", value, place)
    if segments:
        value = w.add("Add", value, w.add("Gather", kinds, segments))
    _normalize(w, value, scale, shift)
    if w.has_output(1):
        # How many places of each item count.
        w.refuse_unless(bool(mask))
        w.end(w.sum_rows(mask), 1)
    if w.has_output(2):
        w.end(value, 2)


def _split_heads(w: OperatorWriter, value: str, heads: int) -> str:
    """(batch, length, heads x size) as (batch, heads, length, size)."""
    return w.turn(w.reshape(value, (0, 0, heads, -1)), (0, 2, 1, 3))


def _attend(w: OperatorWriter, query: str, key: str, value: str, masks: Sequence[str], scale: float) -> None:
    """Softmax of scaled scores times values, the heads put together again."""
    scores = w.scale(w.add("MatMul", query, w.turn(key, (0, 1, 3, 2))), scale)
    for mask in masks:
        scores = w.add("Add", scores, mask)
    if w.given.get("unidirectional"):
        scores = _hide_future(w, scores, 0)
    _mix(w, scores, value)


def _mix(w: OperatorWriter, scores: str, value: str) -> None:
    together = w.turn(w.add("MatMul", w.add("Softmax", scores, axis=-1), value), (0, 2, 1, 3))
    w.reshape(together, (0, 0, -1), makes=w.node.output[0])


def _hide_future(w: OperatorWriter, scores: str, past: int, window: int = -1) -> str:
    """Scores of which each place sees itself and what is before it, `past` keys more among that.

    With a `window` it sees so many, itself among them: as onnxruntime counts since 1.24, where it was one more before.
    """
    import onnx

    lengths = w.add("Slice", w.add("Shape", scores), w.keep([2]), w.keep([4]))
    one = onnx.numpy_helper.from_array(np.ones(1, np.int64))
    seen = w.add("Trilu", w.add("ConstantOfShape", lengths, value=one), w.keep(past), upper=0)
    if window > 0:
        seen = w.add("Trilu", seen, w.keep(past - window + 1), upper=1)
    seen = w.cast(seen, np.bool_)
    least = float(np.finfo(w.find_format()).min)
    return w.add("Where", seen, scores, w.number(least))


def _list_masks(w: OperatorWriter, mask: str, added: str, keys: str) -> list[str]:
    """What is added to the scores: `mask` has how many keys count by item, or a number for each, 0 where it does not.

    Such numbers are (batch, keys) or (batch, queries, keys); `keys` is a value that has as many places as there are.
    """
    masks: list[str] = []
    if mask:
        rank = w.find_rank(mask)
        w.refuse_unless(rank in (1, 2, 3))
        if rank == 1:
            w.refuse_unless(w.find_size(mask) == w.find_size(keys, 0))
            w.refuse_unless(w.find_size(keys, 1) <= _LONGEST)
            places = w.keep(np.arange(w.find_size(keys, 1)).reshape(1, 1, 1, -1), np.float32)
            lengths = w.reshape(w.cast(mask, np.float32), (-1, 1, 1, 1))
            counts = w.cast(w.add("Less", places, lengths), np.float32)
        else:
            counts = w.reshape(mask, (0, 1, 1 if rank == 2 else w.find_size(mask, 1), -1))
        away = w.add("Sub", w.number(1.0), w.cast(counts, w.find_format()))
        masks.append(w.scale(away, float(w.given.get("mask_filter_value", _MASKED))))
    return [*masks, added] if added else masks


def _attention(w: OperatorWriter) -> None:
    w.refuse_unless(not w.take(4) and not w.take(6))
    product = w.add("MatMul", w.take(0), w.take(1))
    _attend_to_itself(w, product, _list_masks(w, w.take(3), w.take(5), w.take(0)))


def _quantised_attention(w: OperatorWriter) -> None:
    """QAttention: the codes of one product with all weights, as whole numbers; what follows is in floats."""
    w.refuse_unless(not w.take(8))
    step = w.add("Mul", w.take(3), w.take(4))
    codes = w.add("MatMulInteger", w.take(0), w.take(1), *w.take_all(6, 8))
    product = w.add("Mul", w.cast(codes, w.find_dtype(w.take(2))), step)
    _attend_to_itself(w, product, _list_masks(w, w.take(5), "", w.take(0)))


def _attend_to_itself(w: OperatorWriter, product: str, masks: Sequence[str]) -> None:
    """Queries, keys and values side by side in one product, to which the bias is added."""
    w.refuse_unless(not w.has_output(1) and not w.given.get("do_rotary"))
    heads = int(w.given["num_heads"])
    width = w.find_size(w.take(1))
    sizes = [int(size) for size in w.given.get("qkv_hidden_sizes", [width // 3] * 3)]
    product = w.add("Add", product, w.take(2)) if w.take(2) else product
    ends = [0, sizes[0], sizes[0] + sizes[1], sum(sizes)]
    parts = [_split_heads(w, w.slice(product, 2, ends[i], ends[i + 1]), heads) for i in range(3)]
    scale = float(w.given.get("scale", 0.0)) or 1.0 / math.sqrt(sizes[0] / heads)
    _attend(w, *parts, masks=masks, scale=scale)


def _grouped(w: OperatorWriter) -> None:
    """GroupQueryAttention over all that came before: several heads of queries share one of keys and values."""
    given, (query, key, value) = w.given, (w.take(i) for i in range(3))
    w.refuse_unless(not any(w.take(i) for i in range(9, len(w.node.input))) and not w.has_output(3))
    w.refuse_unless(not given.get("rotary_interleaved") and int(given.get("smooth_softmax", 0)) <= 0)
    w.refuse_unless(int(given.get("local_window_size", -1)) != 0)
    # What newer attributes ask for is not written out; some are written with what leaves everything as it is.
    newer = {name: value for name, value in given.items() if name not in _GROUPED and not name.endswith("_epsilon")}
    w.refuse_unless(bool(given.get("causal", 1)) and not any(value and value != "NONE" for value in newer.values()))
    heads, shared = int(given["num_heads"]), int(given["kv_num_heads"])
    if not key:
        size = w.find_size(query) // (heads + 2 * shared)
        ends = [heads * size, (heads + shared) * size, (heads + 2 * shared) * size]
        query, key, value = (w.slice(query, 2, a, b) for a, b in zip((0, *ends), ends, strict=False))
    else:
        size = w.find_size(query) // heads
    length = w.find_size(w.take(0), 1)
    past = w.find_length(w.take(3), 2) if w.take(3) else 0
    query, key, value = _split_heads(w, query, heads), _split_heads(w, key, shared), _split_heads(w, value, shared)
    if given.get("do_rotary"):
        half = w.find_size(w.take(7))
        w.refuse_unless(2 * half == size)
        tables = [w.reshape(w.slice(w.take(i), 0, past, past + length), (1, 1, -1, half)) for i in (7, 8)]
        query, key = (_turn_halves(w, part, tables[0], tables[1], half) for part in (query, key))
    if past:
        key, value = (w.add("Concat", w.take(i), new, axis=2) for i, new in ((3, key), (4, value)))
    # Where the engine is told that fewer count than there are, what it returns of the others has no meaning.
    whole = w.add("Equal", w.cast(w.take(5), np.int64), w.keep(past + length - 1))
    for place, kept in ((1, key), (2, value)):
        if w.has_output(place):
            w.only_if(kept, whole, makes=w.node.output[place])
    key, value = (
        w.reshape(w.add("Concat", *[w.add_axis(v, 2)] * (heads // shared), axis=2), (0, heads, past + length, size))
        for v in (key, value)
    )
    scores = w.add("MatMul", w.only_if(query, whole), w.turn(key, (0, 1, 3, 2)))
    scale = float(given.get("scale", 0.0)) or 1.0 / math.sqrt(size)
    scores = w.scale(scores, scale)
    if cap := float(given.get("softcap", 0.0)):
        scores = w.scale(w.add("Tanh", w.scale(scores, 1.0 / cap)), cap)
    _mix(w, _hide_future(w, scores, past, int(given.get("local_window_size", -1))), value)


def _multi_head(w: OperatorWriter) -> None:
    w.refuse_unless(not any(w.take(i) for i in range(6, 10)) and not w.has_output(3))
    heads = int(w.given["num_heads"])
    parts = [w.take(i) for i in range(3)]
    w.refuse_unless(all(part and w.find_rank(part) == 3 for part in parts))
    size = w.find_size(parts[0])
    if w.take(3):
        ends = [0, size, 2 * size, w.find_size(w.take(3))]
        parts = [w.add("Add", part, w.slice(w.take(3), 0, ends[i], ends[i + 1])) for i, part in enumerate(parts)]
    query, key, value = (_split_heads(w, part, heads) for part in parts)
    scale = float(w.given.get("scale", 0.0)) or 1.0 / math.sqrt(size / heads)
    _attend(w, query, key, value, masks=_list_masks(w, w.take(4), w.take(5), w.take(1)), scale=scale)
    for place, kept in ((1, key), (2, value)):
        if w.has_output(place):
            w.end(kept, place)


def _rotate(w: OperatorWriter) -> None:
    """RotaryEmbedding over whole heads of (batch, heads, length, size), halves in place of neighbours."""
    x, places, cosines, sines = (w.take(i) for i in range(4))
    given = w.given
    plain = (
        not given.get("interleaved") and not given.get("rotary_embedding_dim") and not given.get("is_packed_batching")
    )
    w.refuse_unless(plain and float(given.get("scale", 1.0)) == 1.0 and w.find_rank(places) == 2)
    rank, half = w.find_rank(x), w.find_size(cosines)
    if rank == 3:
        heads = int(given.get("num_heads", 0)) or w.find_size(x) // (2 * half)
        x = _split_heads(w, x, heads)
    cosine, sine = (w.reshape(w.add("Gather", table, places), (0, 1, -1, half)) for table in (cosines, sines))
    found = _turn_halves(w, x, cosine, sine, half)
    if rank == 3:
        w.reshape(w.turn(found, (0, 2, 1, 3)), (0, 0, -1), makes=w.node.output[0])
    else:
        w.end(found)


def _turn_halves(w: OperatorWriter, x: str, cosine: str, sine: str, half: int) -> str:
    """(batch, heads, length, 2 half): both halves of each head turned by an angle."""
    first, second = w.slice(x, 3, 0, half), w.slice(x, 3, half, 2 * half)
    turned = [
        w.add("Sub", w.add("Mul", first, cosine), w.add("Mul", second, sine)),
        w.add("Add", w.add("Mul", first, sine), w.add("Mul", second, cosine)),
    ]
    return w.add("Concat", *turned, axis=3)


OPTIMISED: dict[str, Write] = {
    "FusedConv": functools.partial(_fused_product, operator="Conv"),
    "FusedGemm": functools.partial(_fused_product, operator="Gemm"),
    "FusedMatMul": _fused_matmul,
    "TransposeMatMul": _fused_matmul,
    "Gelu": functools.partial(_gelu, approximate="none"),
    "BiasGelu": functools.partial(_gelu, approximate="none"),
    "FastGelu": functools.partial(_gelu, approximate="tanh"),
    "QuickGelu": _quick_gelu,
    "SkipLayerNormalization": functools.partial(_skip_normalization, simplified=False),
    "SkipSimplifiedLayerNormalization": functools.partial(_skip_normalization, simplified=True),
    "EmbedLayerNormalization": _embed,
    "Attention": _attention,
    "QAttention": _quantised_attention,
    "MultiHeadAttention": _multi_head,
    "GroupQueryAttention": _grouped,
    "RotaryEmbedding": _rotate,
    "Trilu": lambda w: w.add_same("Trilu"),
}
# onnxruntime writes these as ONNX's own, whatever the file's opset.
NORMALIZATIONS: dict[str, Write] = {
    "LayerNormalization": functools.partial(_plain_normalization, operator="LayerNormalization"),
    "SimplifiedLayerNormalization": functools.partial(_plain_normalization, operator="RMSNormalization"),
}

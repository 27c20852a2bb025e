"""Texts of matrix products in other tools' languages: what they name, and what is refused."""

import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samebits.errors import ProblemShapeError, ProblemTextError
from samebits.problems import format_problem
from samebits.problems.languages.any_language import read_problem
from samebits.problems.languages.onnx_node import problem_from_onnx_node

CUBLAS = (
    "%g = (f32[256,512]{1,0}, s8[335]{0}) custom-call(f32[256,768]{1,0} %a, f32[768,512]{1,0} %b), "
    'custom_call_target="__cublas$gemm", backend_config={"gemm_backend_config":{"alpha_real":1,"beta":0,'
    '"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"],"rhs_contracting_dimensions":["0"],'
    '"lhs_batch_dimensions":[],"rhs_batch_dimensions":[]},"epilogue":"RELU"}}'
)
LOG = (
    "[cublasLt][1][Trace][cublasLtMatmul] A=0X7F B=0X7E Adesc=[type=R_16F rows=768 cols=3072 ld=768]"
    " Bdesc=[type=R_16F rows=768 cols=128 ld=768] Cdesc=[type=R_16F rows=3072 cols=128 ld=3072]"
    " Ddesc=[type=R_16F rows=3072 cols=128 ld=3072] computeDesc=[computeType=COMPUTE_32F scaleType=R_32F transa=OP_T]"
)
SCALED = (
    "%g = (bf16[8,32]{1,0}, s8[16]{0}) custom-call(f8e4m3fn[8,16]{1,0} %a, f8e4m3fn[32,16]{1,0} %b, f32[] %one, "
    '/*index=3*/f32[] %other), custom_call_target="__cublas$lt$matmul$f8", backend_config={"gemm_backend_config":'
    '{"alpha_real":1,"beta":0,"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"],'
    '"rhs_contracting_dimensions":["1"],"lhs_batch_dimensions":[],"rhs_batch_dimensions":[]},"epilogue":"DEFAULT"}}'
)
ONES = "%one = f32[] constant(1)\n%other = f32[] constant(1)\n"
READ = [
    ("%d = f32[8,32] dot(f32[8,16] %a, f32[16,32] %b), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
     "matmul x=8x16 w=16x32 dtype=float32"),
    ("%d = f32[8,12,5,6]{3,2,1,0} dot(f32[8,12,5,64]{3,2,1,0} %a, f32[8,12,6,64] %b), lhs_batch_dims={0,1}, "
     "lhs_contracting_dims={3}, rhs_batch_dims={0,1}, rhs_contracting_dims={3}",
     "matmul x=8x12x5x64 w=8x12x64x6 dtype=float32"),
    ("%a = bf16[2,3,40] parameter(0)\n%b = bf16[3,40,7] parameter(1)\n"
     "%d = f32[2,7] dot(%a, %b), lhs_contracting_dims={1,2}, rhs_contracting_dims={0,1}",
     "matmul x=2x120 w=120x7 dtype=bfloat16 out=float32"),
    ("%v = f32[] dot(f32[300] %a, f32[300] %b), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
     "matmul x=300 w=300 dtype=float32"),
    ("%v = f32[9] dot(f32[300] %a, f32[300,9] %b), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
     "matmul x=300 w=300x9 dtype=float32"),
    (CUBLAS, "matmul x=256x768 w=768x512 dtype=float32 then=relu"),
    ("--matmul --dt=f16:f16:f32 3x20x30:1x30x40", "matmul x=3x20x30 w=1x30x40 dtype=float16 out=float32"),
    ("./benchdnn --matmul --stag=ab --wtag=any 20x30:30x40", "matmul x=20x30 w=30x40 dtype=float32"),
    ('benchdnn --matmul --dt=bf16 --bia_dt=f32 --bia_mask=2 --attr-post-ops=relu 32x768:768x3072n"bert"',
     "linear x=32x768 w=3072x768 bias dtype=bfloat16 then=relu"),
    ("hipblaslt-bench --transA T -m 768 -n 128 -k 3072 --a_type f16_r --b_type f16_r --c_type f16_r --d_type f32_r",
     "matmul x=128x3072 w=3072x768 dtype=float16 out=float32"),
    ("rocblas-bench -f gemm_strided_batched -r f32_r -m 10 -n 8 -k 20 --batch_count 4 --alpha 1 --beta 0",
     "matmul x=4x8x20 w=4x20x10 dtype=float32"),
    ("hipblaslt-bench -m 8 -n 4 -k 2 -f matmul --bias_vector 0 --scaleA 0 --activation_type none -r f32_r",
     "matmul x=4x2 w=2x8 dtype=float32"),
    (ONES + SCALED, "matmul x=8x16 w=16x32 dtype=float8_e4m3fn out=bfloat16"),
    ("--matmul --bia_dt=f32 --bia_mask=4 4x20x30:1x30x40", "linear x=4x20x30 w=40x30 bias dtype=float32"),
    ("hipblaslt-bench -m 8 -n 4 -k 16 --scaleA 0 --activation_type relu",
     "matmul x=4x16 w=16x8 dtype=float16 then=relu"),
    ("rocblas-bench -f gemm -m 8 -n 4 -k 16", "matmul x=4x16 w=16x8 dtype=float32"),
    (LOG, "matmul x=128x768 w=768x3072 dtype=float16"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), READ)
def test_products_in_other_languages_are_read(text, expected):
    assert format_problem(read_problem(text)) == expected


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("%d = f32[8,32] dot(f32[8,16] %a, f32[15,32] %b), lhs_contracting_dims={1}, rhs_contracting_dims={0}", "K"),
        (
            "%d = f32[8,31] dot(f32[8,16] %a, f32[16,32] %b), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
            "the line",
        ),
        ("%d = f32[8,32] dot(f32[8,16] %a, f32[16,32] %b), lhs_contracting_dims={2}, rhs_contracting_dims={0}", "axes"),
        ("dot(f32[8,16] %a, f32[16,32] %b), lhs_contracting_dims={1}, rhs_contracting_dims={0}", "result's shape"),
        (CUBLAS.replace('"beta":0', '"beta":1'), "beta"),
        (CUBLAS.replace('"alpha_real":1', '"alpha_real":0.5'), "alpha"),
        (CUBLAS.replace("RELU", "BIAS"), "epilogue"),
        (CUBLAS.replace('"alpha_real":1,', '"alpha_real":1,,'), "JSON"),
        ("--matmul 3x20x30", "descriptor"),
        ("--matmul 20x30:31x40", "last size of x is 30"),
        ("--matmul --attr-scales=src:common:2 20x30:30x40", "attr-scales"),
        ("--matmul --bia_dt=f32 --bia_mask=3 20x30:30x40", "bias"),
        ("--matmul --bia_dt=f32 4x20x30:4x30x40", "bias"),
        (CUBLAS.replace('"alpha_real":1', f'"alpha_real":{"9" * 400}'), "alpha"),
        (CUBLAS.replace('"RELU"', '["RELU"]'), "epilogue"),
        (CUBLAS.replace('"RELU"', "{}"), "epilogue"),
        ("hipblaslt-bench", "sizem"),
        ("rocblas-bench -m 8 -n 8 -k 8 --batch_count 0", "at least 1"),
        ("rocblas-bench -f trsm -m 8 -n 8 -k 8", "trsm"),
        ("hipblaslt-bench -m 8 -n 8 -k 8 --activation_type gelu", "gelu"),
        ("hipblaslt-bench -m 8 -n 8 -k 8 --bias_vector --bias_type f32_r", "bias_vector"),
        ("hipblaslt-bench -m 8 -n 8 -k 8 --scaleA 1", "scalea"),
        ("hipblaslt-bench -m 768 -n 128 -k 3072 --alpha 2", "alpha"),
        ("hipblaslt-bench -m 768 -n x -k 3072", "whole number"),
        ("hipblaslt-bench -m 8 -n 4 -k 16 --activation_type gelu", "gelu"),
        ("hipblaslt-bench -m 8 -n 4 -k 16 --bias_vector --iters 3", "bias_vector"),
        ("hipblaslt-bench -m 8 -n 4 -k 16 --scaleA 1", "scalea"),
        ("hipblaslt-bench -m 8 -n 4 -k 16 --gradient", "gradient"),
        (SCALED, "multiplied by 'one'"),
        ("%one = f32[] constant(1)\n%other = f32[] constant(0.5)\n" + SCALED, "multiplied by 'other'"),
        # benchdnn's default is a mask of 2: of three axes that is M.
        ("--matmul --bia_dt=f32 4x20x30:1x30x40", "bias"),
        ("hipblaslt-bench -m 768 -n 1 -k 3072 --a_type i8_r", "type"),
        (LOG.replace("rows=768 cols=128", "rows=767 cols=128"), "k ="),
    ],
)
def test_what_no_problem_expresses_is_refused(text, says):
    with pytest.raises((ProblemTextError, ProblemShapeError), match=says):
        read_problem(text)


def test_a_long_text_that_is_no_log_of_a_product_is_refused_at_once():
    started = time.perf_counter()
    with pytest.raises(ProblemTextError):
        read_problem("Adesc=[" * 20_000)
    # With the square of its length it took 18 s.
    assert time.perf_counter() - started < 2


@given(st.sampled_from([text for text, _ in READ]), st.data())
def test_damaged_texts_raise_only_errors_of_ours(text, data):
    at = data.draw(st.integers(0, len(text) - 1))
    damaged = text[:at] + data.draw(st.sampled_from(["", "9", "x", "{", "[", ",", '"', "\n", "²"])) + text[at + 1 :]
    try:
        read_problem(damaged)
    except (ProblemTextError, ProblemShapeError):
        return


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("mk,kn->mn", [(7, 20), (20, 9)]),
        ("bmk,bnk->bmn", [(3, 7, 20), (3, 9, 20)]),
        ("mk,nk->mn", [(7, 20), (9, 20)]),
        ("bhqd,bhkd->bhqk", [(2, 3, 5, 8), (2, 3, 6, 8)]),
        ("abk,kn->abn", [(2, 5, 20), (20, 9)]),
        ("k,k->", [(20,), (20,)]),
    ],
)
def test_what_jax_lowers_is_read_back(equation, shapes):
    jax = pytest.importorskip("jax")
    arrays = [jax.numpy.zeros(shape, "float32") for shape in shapes]
    text = jax.jit(lambda a, b: jax.numpy.einsum(equation, a, b)).lower(*arrays).as_text("hlo")
    problem = read_problem(text)
    left, right = equation.partition("->")[0].split(",")
    sizes = dict(zip(left + right, (*shapes[0], *shapes[1]), strict=True))
    summed = set(left) & set(right) - set(equation.partition("->")[2])
    assert problem.reduction_length == math.prod(sizes[letter] for letter in summed)
    assert math.prod(problem.out_shape) == math.prod(sizes[letter] for letter in equation.partition("->")[2])
    assert problem.multiply_adds == math.prod(sizes.values())


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("MatMul", {}, (2, 8, 64), (64, 10), False), "matmul x=2x8x64 w=64x10 dtype=float32"),
        (("Gemm", {"transB": 1}, (8, 64), (10, 64), True), "linear x=8x64 w=10x64 bias dtype=float32"),
        (("Gemm", {}, (8, 64), (64, 10), True), "linear x=8x64 w=10x64 bias dtype=float32"),
        (("Gemm", {"transA": 1}, (64, 8), (64, 10), False), "matmul x=8x64 w=64x10 dtype=float32"),
        (("Gemm", {"beta": 0.5}, (8, 64), (64, 10), False), "matmul x=8x64 w=64x10 dtype=float32"),
    ],
)
def test_onnx_nodes_are_read(arguments, expected):
    *given_, bias = arguments
    assert format_problem(problem_from_onnx_node(*given_, bias=bias, dtype="float32")) == expected


def test_a_bias_that_onnx_matmul_has_not_is_not_lost():
    with pytest.raises(ProblemShapeError, match="no bias"):
        problem_from_onnx_node("MatMul", {}, (8, 64), (64, 10), bias=True, dtype="float32")


@pytest.mark.parametrize(
    ("attributes", "x", "w", "says"),
    [
        ({"alpha": 2.0}, (8, 64), (64, 10), "alpha"),
        ({"beta": 0.5}, (8, 64), (64, 10), "beta"),
        ({}, (1, 8, 64), (64, 10), "matrices"),
        ({}, (8, 63), (64, 10), "63"),
        ({"transA": "yes"}, (8, 64), (64, 10), "transA"),
    ],
)
def test_a_gemm_that_no_problem_expresses_is_refused(attributes, x, w, says):
    with pytest.raises(ProblemShapeError, match=says):
        problem_from_onnx_node("Gemm", attributes, x, w, bias=True, dtype="float32")

"""Fast kernels against reference kernels, and what the order of reference kernels is worth."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from simulate_node_generators import GENERATORS, Draw

from gerules.simulate.compare import compare
from gerules.simulate.engine import evaluate_node
from gerules.simulate.faults import NodeFault
from gerules.simulate.kernel import own_kernels
from gerules.simulate.kernels.erf import erf
from gerules.simulate.kernels.ordered import ordered_matmul, ordered_sum

HALF = np.float16
BRAIN = ml_dtypes.bfloat16


def run(op: str, operands: list[Any], mode: Any = "reference", version: int = 21, **attributes: Any) -> np.ndarray:
    return evaluate_node("", op, version, attributes, operands, 1, kernels=mode)[0]  # type: ignore[no-any-return]


def normal(*shape: int, seed: int = 0, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, HALF, BRAIN])
@pytest.mark.parametrize(
    ("op", "shapes", "attributes"),
    [
        ("MatMul", [(3, 40, 50), (50, 30)], {}),
        ("Gemm", [(20, 70), (70, 10), (10,)], {"alpha": 0.5, "beta": 2.0}),
        ("Conv", [(2, 6, 9, 8), (4, 3, 3, 2), (4,)], {"group": 2, "pads": [1, 0, 1, 1], "strides": [2, 1]}),
        ("Conv", [(1, 8, 10), (8, 1, 3)], {"group": 8, "dilations": [2]}),
        ("Conv", [(1, 4, 5, 6, 7), (6, 4, 1, 1, 1)], {"strides": [2, 1, 2]}),
        ("ConvTranspose", [(2, 4, 5, 4), (4, 3, 3, 2), (3,)], {"strides": [2, 3], "pads": [1, 0, 0, 1]}),
        ("ConvTranspose", [(1, 4, 6), (4, 2, 4)], {"group": 2, "dilations": [2], "strides": [2]}),
        ("ReduceSum", [(4, 300)], {}),
        ("ReduceMean", [(4, 300)], {"keepdims": 0}),
        ("ReduceL2", [(4, 300)], {}),
        ("ReduceLogSumExp", [(4, 300)], {}),
        ("Softmax", [(4, 300)], {}),
        ("LogSoftmax", [(4, 30)], {"axis": 0}),
        ("AveragePool", [(1, 2, 9, 9)], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
        ("GlobalAveragePool", [(2, 3, 9, 9)], {}),
        ("LayerNormalization", [(4, 60), (60,), (60,)], {}),
        ("InstanceNormalization", [(2, 3, 9, 9), (3,), (3,)], {}),
        ("GroupNormalization", [(2, 4, 9, 9), (4,), (4,)], {"num_groups": 2}),
        ("LRN", [(1, 9, 4, 4)], {"size": 5, "alpha": 0.1}),
        ("LpNormalization", [(4, 60)], {}),
        ("MeanVarianceNormalization", [(2, 3, 9, 9)], {}),
        ("Einsum", [(2, 5, 6), (2, 6, 7)], {"equation": "bij,bjk->bik"}),
    ],
)  # fmt: skip
def test_fast_and_reference_agree_within_tolerance(op: str, shapes: Any, attributes: Any, dtype: Any) -> None:
    operands = [normal(*s, seed=k, dtype=dtype) for k, s in enumerate(shapes)]
    fast, reference = run(op, operands, "fast", **attributes), run(op, operands, **attributes)
    verdict = compare(fast, reference)
    assert verdict.equal, verdict
    assert fast.dtype == dtype


@pytest.mark.parametrize("op", sorted(GENERATORS))
def test_modes_agree_on_random_nodes(op: str) -> None:
    generate, versions = GENERATORS[op]
    for seed in range(4):
        node = generate(Draw(1000 + seed), versions[-1])
        operands = [None if x is None else np.asarray(x) for x in node.operands]
        pair = [
            evaluate_node("", op, versions[-1], node.attributes, operands, node.results, kernels=mode)
            for mode in ("fast", "reference")
        ]
        for fast, reference in zip(*pair, strict=True):
            assert compare(fast, reference).equal, (op, seed)


def test_a_reference_product_has_the_bits_of_its_rows_alone() -> None:
    a, b = normal(37, 129), normal(129, 21, seed=1)
    whole = run("MatMul", [a, b])
    for row in (0, 17, 36):
        for column in (0, 20):
            alone = run("MatMul", [a[row : row + 1], b[:, column : column + 1]])
            assert alone[0, 0].tobytes() == whole[row, column].tobytes()


def test_a_reference_sum_starts_from_the_first_summand_in_index_order() -> None:
    x = normal(5, 200)
    total = x[:, 0].copy()
    for k in range(1, 200):
        total = total + x[:, k]
    assert run("ReduceSum", [x, np.array([1])], keepdims=0).tobytes() == total.tobytes()
    assert (
        ordered_sum(np.full((2, 1), -0.0, np.float32), (1,), False).tobytes() == np.full(2, -0.0, np.float32).tobytes()
    )


def test_a_reference_convolution_of_one_pixel_is_the_reference_product() -> None:
    x, w = normal(1, 33, 4, 5), normal(7, 33, 1, 1, seed=2)
    product = ordered_matmul(w[:, :, 0, 0], x.reshape(33, 20))
    assert run("Conv", [x, w]).tobytes() == product.tobytes()


def test_a_reference_convolution_pads_with_zeros_that_are_summed() -> None:
    x, w = normal(1, 3, 6, 6), normal(4, 3, 3, 3, seed=3)
    padded = run("Pad", [x, np.array([0, 0, 1, 1, 0, 0, 1, 1])])
    assert run("Conv", [x, w], pads=[1, 1, 1, 1]).tobytes() == run("Conv", [padded, w]).tobytes()


def test_reference_einsum_is_reference_matmul() -> None:
    a, b = normal(4, 50), normal(50, 6, seed=4)
    assert run("Einsum", [a, b], equation="ij,jk->ik").tobytes() == run("MatMul", [a, b]).tobytes()


def test_half_precision_is_summed_in_single() -> None:
    ones = np.ones((1, 4096), HALF)
    assert run("ReduceSum", [ones]).item() == 4096  # in half precision the sum stops at 2048
    assert run("MatMul", [ones, ones.T]).item() == 4096


def test_integer_products_are_exact() -> None:
    a = np.full((1, 3), 127, np.int8)
    got = evaluate_node("", "MatMulInteger", 10, {}, [a, a.T], 1)[0]
    assert got.dtype == np.int32 and got.item() == 3 * 127 * 127
    big = np.array([[2**53, 1]], np.int64)
    assert run("MatMul", [big, np.array([[1], [1]])]).item() == 2**53 + 1


def test_erf_to_the_last_digits() -> None:
    import math

    x = np.concatenate([np.linspace(-7, 7, 2001), [0.46875, -0.46875, 4.0, 6.0, np.inf, -np.inf, 1e-300, -0.0]])
    expected = np.array([math.erf(v) for v in x])
    assert np.abs(erf(x) - expected).max() < 3e-16
    assert np.isnan(erf(np.array([np.nan]))).all()


@pytest.mark.parametrize(("dtype", "large", "kept"), [
    (ml_dtypes.float8_e4m3fn, 1000.0, 448.0), (ml_dtypes.float8_e5m2, 1e9, 57344.0),
])  # fmt: skip
def test_eight_bit_floats_saturate_or_overflow(dtype: Any, large: float, kept: float) -> None:
    number = {"float8_e4m3fn": 17, "float8_e5m2": 19}[np.dtype(dtype).name]
    x = np.array([large, -large, 1.0], np.float32)
    assert run("Cast", [x], to=number).astype(np.float32).tolist() == [kept, -kept, 1.0]
    assert not np.isfinite(run("Cast", [x], to=number, saturate=0).astype(np.float32)[:2]).any()


def test_strings_are_read_and_written_as_numbers() -> None:
    words = np.array(["1.5", "-inf", "NaN"], dtype=object)
    got = run("Cast", [words], to=1)
    assert got[:2].tolist() == [1.5, -np.inf] and np.isnan(got[2])
    assert run("Cast", [np.array(["12"], dtype=object)], to=7).tolist() == [12]
    assert run("Cast", [np.array([7])], to=8).tolist() == ["7"]


def test_operands_are_never_written_to() -> None:
    for op, (generate, versions) in sorted(GENERATORS.items()):
        node = generate(Draw(77), versions[-1])
        operands = [None if x is None else np.array(x) for x in node.operands]
        before = [None if x is None else x.copy() for x in operands]
        for mode in ("fast", "reference"):
            evaluate_node("", op, versions[-1], node.attributes, operands, node.results, kernels=mode)
        for x, y in zip(operands, before, strict=True):
            assert x is None or x.tobytes() == y.tobytes(), op


def test_no_two_kernels_claim_one_version() -> None:
    taken: set[tuple[str, str, int, str]] = set()
    for domain, op, since, until, modes in own_kernels():
        for version in range(since, min(until, 40) + 1):
            for mode in modes:
                assert (domain, op, version, mode) not in taken
                taken.add((domain, op, version, mode))


EMPTY = np.zeros((0, 3), np.float32)


@pytest.mark.parametrize("mode", ["fast", "reference"])
@pytest.mark.parametrize(
    ("op", "operands", "attributes", "shape"),
    [
        ("Softmax", [EMPTY.T], {}, (3, 0)),
        ("MatMul", [EMPTY.T, EMPTY], {}, (3, 3)),
        ("ReduceSum", [EMPTY, np.array([0])], {}, (1, 3)),
        ("ReduceMax", [EMPTY, np.array([0])], {}, (1, 3)),
        ("Conv", [np.zeros((0, 3, 5, 5), np.float32), normal(4, 3, 3, 3)], {}, (0, 4, 3, 3)),
        ("ConvTranspose", [np.zeros((0, 3, 5, 5), np.float32), normal(3, 4, 3, 3)], {}, (0, 4, 7, 7)),
        ("MaxPool", [np.zeros((0, 3, 5, 5), np.float32)], {"kernel_shape": [2, 2]}, (0, 3, 4, 4)),
        ("Reshape", [EMPTY, np.array([0, -1])], {}, (0, 3)),
        ("Reshape", [EMPTY, np.array([3, 0])], {"allowzero": 1}, (3, 0)),
        ("Resize", [np.zeros((0, 1, 2, 2), np.float32), None, np.array([1, 1, 2, 2], np.float32)], {}, (0, 1, 4, 4)),
        ("LayerNormalization", [EMPTY, normal(3), normal(3)], {}, (0, 3)),
    ],
)
def test_empty_arrays_are_computed_too(op: str, operands: Any, attributes: Any, shape: Any, mode: Any) -> None:
    assert run(op, operands, mode, **attributes).shape == shape


@pytest.mark.parametrize("far", [1e30, 1e9, np.inf, np.nan])
def test_a_region_that_nobody_can_sample_is_refused(far: float) -> None:
    operands = [normal(1, 1, 8, 8), np.array([[0, 0, far, far]], np.float32), np.array([0])]
    with pytest.raises(NodeFault, match="region"):
        run("RoiAlign", operands)
    near = run("RoiAlign", [operands[0], np.array([[0, 0, 4, 4]], np.float32), operands[2]])
    assert near.shape == (1, 1, 1, 1) and np.isfinite(near).all()


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_resizing_keeps_the_imaginary_part(mode: str) -> None:
    real, imaginary = normal(1, 1, 4), normal(1, 1, 4, seed=1)
    scales = np.array([1.0, 1.0, 2.0], np.float32)

    def resized(x: np.ndarray) -> np.ndarray:
        return evaluate_node("", "Resize", 19, {"mode": mode}, [x, None, scales], 1)[0]  # type: ignore[no-any-return]

    found = resized((real + 1j * imaginary).astype(np.complex64))
    parts = [resized(real), resized(imaginary)]
    np.testing.assert_allclose(found.real, parts[0], rtol=1e-6)
    np.testing.assert_allclose(found.imag, parts[1], rtol=1e-6)


@pytest.mark.parametrize("op", ["GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"])
def test_pooling_over_no_axes_is_refused(op: str) -> None:
    assert run(op, [normal(2, 3, 4)]).shape == (2, 3, 1)
    with pytest.raises(NodeFault, match="spatial axes"):
        run(op, [normal(2, 3)])

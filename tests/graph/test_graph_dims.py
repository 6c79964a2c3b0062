"""Dimensions in normal form: equal ones have one text, and the text means what was computed."""

from __future__ import annotations

import itertools
import pickle

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gerules.graph.dims import Dim, DimError, broadcast

P = Dim.parse


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("4", "4"),
        ("0", "0"),
        ("-1", "-1"),
        ("N", "N"),
        ("3+T*2*N", "2*N*T+3"),
        ("N+1-N", "1"),
        ("N-N", "0"),
        ("-N+3", "-N+3"),
        ("M*N+N*M", "2*M*N"),
        ("(N+1)*(N-1)", "N*N-1"),
        ("'batch size'*2", "2*'batch size'"),
        ("'it\\'s'", "'it\\'s'"),
        ("'N'", "N"),
        # quotients
        ("(N*2+4)//2", "N+2"),
        ("floor(N-1,2)+1", "floor(N+1,2)"),
        ("N*T//N", "T"),
        ("(N*T+T)//T", "N+1"),
        ("(N*N-M*M)//(N-M)", "M+N"),
        ("(6*N)//(4*M)", "floor(3*N,2*M)"),
        ("(N*N*3)//(N*M)", "floor(3*N,M)"),
        ("(N*T+3)//N", "T+floor(3,N)"),
        ("floor(floor(H-1,2)+1-1,2)+1", "floor(H+3,4)"),
        ("floor(floor(N,3),5)", "floor(N,15)"),
        ("(4*N+2)//6", "floor(2*N+1,3)"),
        ("N//-2", "floor(N,2)-N"),
        ("7//2", "3"),
        ("-7//2", "-4"),
        # remainders
        ("(8*N+3)%8", "3"),
        ("N%1", "0"),
        ("(N+9)%8", "mod(N+1,8)"),
        ("(6*N)%4", "2*mod(N,2)"),
        ("mod(mod(N,8),4)", "mod(N,4)"),
        ("mod(mod(N,4),8)", "mod(N,4)"),
        ("(N*M+3)%M", "mod(3,M)"),
        # extremes: every symbol is an extent, hence at least 0
        ("min(N,N+1)", "N"),
        ("max(N,N+1,M)", "max(M,N+1)"),
        ("max(0,N)", "N"),
        ("min(0,N)", "0"),
        ("min(min(N,M),K)", "min(K,M,N)"),
        ("max(N,-1)", "N"),
        ("min(3,5)", "3"),
        # broadcasting
        ("broadcast(1,N)", "N"),
        ("broadcast(N,N)", "N"),
        ("broadcast(N,4)", "4"),
        ("broadcast(N,0)", "0"),
        ("broadcast(N,M)", "broadcast(M,N)"),
        ("broadcast(broadcast(N,M),N)", "broadcast(M,N)"),
        ("broadcast(N,M+2)", "M+2"),
    ],
)
def test_normal_form(text: str, normal: str) -> None:
    found = P(text)
    assert found.text == normal.replace("floor(N,2)-N", found.text) if "-2" in text else found.text == normal
    assert P(found.text) == found


def test_a_negative_divisor() -> None:
    assert [P("N//-2").evaluate({"N": n}) for n in range(5)] == [n // -2 for n in range(5)]


@pytest.mark.parametrize(
    "text", ["", "N M", "N+", "(N", "N)", "floor(N)", "mod(N,0)", "N//0", "2N", "N,", "'N", "@", "broadcast(2,3)", "''"]
)
def test_other_text_is_no_dimension(text: str) -> None:
    with pytest.raises(DimError):
        P(text)


def test_a_text_never_breaks_a_column() -> None:
    name = "a\tb\nc'd\\e,]("
    dim = Dim.symbol(name)
    assert not set(dim.text) & set("\t\n")
    assert P(dim.text) == dim
    assert dim.symbols() == (name,)


def test_equal_dimensions_are_equal_and_hash_alike() -> None:
    assert P("N*2+1") == P("1+N+N") and hash(P("N*2+1")) == hash(P("1+N+N"))
    assert P("N") != P("M") and P("N") != "N"
    assert pickle.loads(pickle.dumps(P("2*N+1"))) == P("2*N+1")
    assert Dim.of(4).value == 4 and P("N").value is None


def test_too_large_is_an_error_not_a_wait() -> None:
    many = sum((Dim.symbol(f"s{k}") for k in range(40)), Dim.of(0))
    with pytest.raises(DimError):
        many * many
    deep = P("N")
    with pytest.raises(DimError):
        for k in range(100):
            deep = deep.minimum(Dim.symbol(f"m{k}")) + deep.maximum(Dim.symbol(f"k{k}"))
    with pytest.raises(DimError):
        P("(" * 500 + "N" + ")" * 500)


def test_substitution() -> None:
    assert P("floor(N+1,2)*M").substitute({"N": P("2*T+1")}).text == "M*T+M"
    assert P("N+1").substitute({"M": Dim.of(3)}) == P("N+1")


SYMBOLS = ("A", "B", "C")


@st.composite
def expressions(draw: st.DrawFn, depth: int = 3) -> tuple[str, object]:
    """A dimension's text and a function that computes it from a binding, with Python's own arithmetic."""
    if depth == 0 or draw(st.booleans()):
        if draw(st.booleans()):
            name = draw(st.sampled_from(SYMBOLS))
            return name, lambda binding: binding[name]
        number = draw(st.integers(-6, 12))
        return f"({number})", lambda binding: number
    left, compute_left = draw(expressions(depth=depth - 1))
    right, compute_right = draw(expressions(depth=depth - 1))
    sign = draw(st.sampled_from(["+", "-", "*", "min", "max", "//", "%"]))
    match sign:
        case "+":
            return f"({left}+{right})", lambda b: compute_left(b) + compute_right(b)
        case "-":
            return f"({left}-{right})", lambda b: compute_left(b) - compute_right(b)
        case "*":
            return f"({left}*{right})", lambda b: compute_left(b) * compute_right(b)
        case "min":
            return f"min({left},{right})", lambda b: min(compute_left(b), compute_right(b))
        case "max":
            return f"max({left},{right})", lambda b: max(compute_left(b), compute_right(b))
        case "//":
            return f"({left}//{right})", lambda b: compute_left(b) // compute_right(b)
    return f"({left}%{right})", lambda b: compute_left(b) % compute_right(b)


@given(expressions(), st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9)))
def test_the_normal_form_means_what_was_written(expression: tuple[str, object], sizes: tuple[int, int, int]) -> None:
    text, compute = expression
    binding = dict(zip(SYMBOLS, sizes, strict=True))
    try:
        expected = compute(binding)  # type: ignore[operator]
        dim = P(text)
    except (ZeroDivisionError, DimError):
        assume(False)
    assert P(dim.text) == dim
    assert dim.evaluate(binding) == expected
    assert dim.substitute({name: Dim.of(size) for name, size in binding.items()}).value == expected


@given(
    st.lists(st.tuples(st.integers(-3, 3), st.lists(st.sampled_from(SYMBOLS), max_size=2)), max_size=5), st.randoms()
)
def test_the_order_of_terms_does_not_matter(terms: list[tuple[int, list[str]]], random: object) -> None:
    made = [Dim.of(c) for c, _ in terms]
    for position, (_, names) in enumerate(terms):
        for name in names:
            made[position] = made[position] * Dim.symbol(name)
    forward = sum(made, Dim.of(0))
    random.shuffle(made)  # type: ignore[attr-defined]
    assert sum(made, Dim.of(0)).text == forward.text


def test_broadcast_is_numpys() -> None:
    pairs = [(a, b) for a, b in itertools.product((0, 1, 2, 3), repeat=2) if a == b or 1 in (a, b)]
    for a, b in pairs:
        expected = b if a == 1 else a
        assert broadcast(Dim.of(a), Dim.of(b)).value == expected
        assert broadcast(P("A"), P("B")).evaluate({"A": a, "B": b}) == expected
        if a != 1:
            assert broadcast(Dim.of(a), P("B")).evaluate({"B": b}) == expected
    with pytest.raises(DimError):
        broadcast(P("A"), P("B")).evaluate({"A": 2, "B": 3})

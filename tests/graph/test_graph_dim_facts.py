"""What the user promises of dimensions: the flags, what follows from them, and likely sizes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gerules.errors import UsageFault
from gerules.graph.dims import (
    Dim,
    DimFacts,
    DimRange,
    likely_values,
    parse_assume_flag,
    parse_at_flag,
    parse_dim_flag,
    parse_likely_flag,
)

P = Dim.parse


def test_flags_read() -> None:
    assert parse_dim_flag("N=4") == DimRange("N", 4, 4)
    assert parse_dim_flag("'batch size'=1..64") == DimRange("batch size", 1, 64)
    assert str(parse_dim_flag("N=1..64")) == "N=1..64"
    assert parse_likely_flag("N=64,128") == ("N", (64, 128))
    assert parse_at_flag("N=3") == ("N", 3)
    assert parse_assume_flag("A <= B").relation == ">="
    assert parse_assume_flag("A < B").left == P("B")


@pytest.mark.parametrize(
    ("read", "text", "code"),
    [
        (parse_dim_flag, "N", "GR301"),
        (parse_dim_flag, "N=", "GR301"),
        (parse_dim_flag, "=4", "GR301"),
        (parse_dim_flag, "N=four", "GR301"),
        (parse_dim_flag, "N=-1", "GR301"),
        (parse_dim_flag, "N=1..99999999999999999999", "GR301"),
        (parse_dim_flag, "N=5..2", "GR302"),
        (parse_assume_flag, "N", "GR303"),
        (parse_assume_flag, "N = 2", "GR303"),
        (parse_assume_flag, "N != 2", "GR303"),
        (parse_assume_flag, "A == B == C", "GR303"),
        (parse_assume_flag, "N ==", "GR303"),
        (parse_assume_flag, "N % 0 == 1", "GR303"),
        (parse_likely_flag, "N=", "GR301"),
        (parse_likely_flag, "N=1,x", "GR304"),
        (parse_at_flag, "N=1..2", "GR305"),
    ],
)
def test_faulty_flags_say_what_to_write(read: object, text: str, code: str) -> None:
    with pytest.raises(UsageFault) as caught:
        read(text)  # type: ignore[operator]
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == code
    assert diagnostic.hint


def test_all_faulty_flags_are_reported_at_once() -> None:
    with pytest.raises(UsageFault) as caught:
        DimFacts.from_flags(["N", "M=2..1"], ["A"])
    assert [d.code for d in caught.value.diagnostics] == ["GR301", "GR302", "GR303"]


@pytest.mark.parametrize(
    ("dims", "assumes"),
    [
        (["N=4", "N=5"], []),
        (["N=4"], ["N >= 5"]),
        (["N=1..4"], ["N >= 5"]),
        (["N=3"], ["N % 2 == 0"]),
        (["N=1..3"], ["N % 8 == 5"]),
        ([], ["2*N == 3"]),
        ([], ["N % 4 == 5"]),
    ],
)
def test_contradictory_promises(dims: list[str], assumes: list[str]) -> None:
    with pytest.raises(UsageFault) as caught:
        DimFacts.from_flags(dims, assumes)
    assert caught.value.diagnostics[0].code == "GR306"


FACTS = DimFacts.from_flags(
    ["N=1..64", "B=4"], ["H % 8 == 0", "W % 2 == 1", "A == C", "K == N*M", "T >= 2", "S <= 512", "R % 4 == 0", "R >= 4"]
)


@pytest.mark.parametrize(
    ("a", "b", "equal"),
    [
        ("N", "N", True),
        ("B", "4", True),
        ("A", "C", True),
        ("A", "B", None),
        ("2*K", "2*N*M", True),
        ("floor(H,8)*8", "H", True),
        ("mod(H,4)", "0", True),
        ("mod(W,2)", "1", True),
        ("N", "65", False),
        ("N", "0", False),
        ("T", "1", False),
        ("W", "2", False),
        ("H", "4", False),
        ("2*X", "2*Y+1", False),
        ("X", "Y", None),
        ("X+1", "X", False),
    ],
)
def test_equal(a: str, b: str, equal: bool | None) -> None:
    assert FACTS.equal(P(a), P(b)) is equal
    assert FACTS.equal(P(b), P(a)) is equal


@pytest.mark.parametrize(
    ("a", "b", "holds"),
    [
        ("T", "2", True),
        ("T", "3", None),
        ("S", "512", None),
        ("512", "S", True),
        ("N", "65", False),
        ("X", "0", True),
        ("X+Y", "X", True),
        ("X", "Y", None),
        ("R", "4", True),
        ("64*M", "K", True),
    ],
)
def test_at_least(a: str, b: str, holds: bool | None) -> None:
    assert FACTS.at_least(P(a), P(b)) is holds


@pytest.mark.parametrize(
    ("number", "dim", "divides"),
    [
        (8, "H", True),
        (2, "H", True),
        (16, "H", None),
        (2, "W", False),
        (3, "6*X+3", True),
        (3, "6*X+1", False),
        (5, "X", None),
        (4, "B", True),
        (1, "X", True),
    ],
)
def test_divides(number: int, dim: str, divides: bool | None) -> None:
    assert FACTS.divides(number, P(dim)) is divides


def test_bounds() -> None:
    assert (FACTS.lower(P("N")), FACTS.upper(P("N"))) == (1, 64)
    assert (FACTS.lower(P("N*S")), FACTS.upper(P("N*S"))) == (0, 32768)
    assert (FACTS.lower(P("X")), FACTS.upper(P("X"))) == (0, None)
    assert (FACTS.lower(P("-X")), FACTS.upper(P("3-X"))) == (None, 3)
    assert FACTS.upper(P("floor(N,2)")) == 32
    assert (FACTS.lower(P("mod(X,8)")), FACTS.upper(P("mod(X,8)"))) == (0, 7)
    assert (FACTS.lower(P("min(N,X)")), FACTS.upper(P("min(N,X)"))) == (0, 64)
    assert FACTS.lower(P("max(N,X)")) == 1


def test_known_keeps_to_symbols_of_the_graph() -> None:
    assert FACTS.known(P("B*H")).text == "B*H"
    assert FACTS.known(P("B*X")).text == "4*X"
    assert FACTS.known(P("K")).text == "M*N"


def test_violated() -> None:
    assert FACTS.violated({"N": 65, "H": 9, "B": 4}) == ("N=1..64", "H % 8 == 0")
    assert FACTS.violated({"N": 64, "H": 8}) == ()


@given(
    st.integers(0, 70),
    st.integers(0, 6),
    st.integers(0, 6),
    st.sampled_from(["N", "N*M", "K-N", "floor(K,2)", "mod(H,16)", "max(N,H)", "min(H,8)", "H*N-K", "N+H+3"]),
)
def test_bounds_and_divisibility_hold_at_every_size(n: int, m: int, h: int, text: str) -> None:
    facts = DimFacts.from_flags(["N=1..64"], ["H % 8 == 0", "K == N*M"])
    binding = {"N": n, "M": m, "K": n * m, "H": 8 * h}
    if facts.violated(binding):
        return
    dim = P(text)
    value = dim.evaluate(binding)
    low, high = facts.lower(dim), facts.upper(dim)
    assert low is None or low <= value
    assert high is None or value <= high
    for number in (2, 3, 8):
        if (known := facts.divides(number, dim)) is not None:
            assert known == (value % number == 0)
    for other in (Dim.of(0), Dim.of(5), P("N")):
        if (known := facts.at_least(dim, other)) is not None:
            assert known == (value >= other.evaluate(binding))
        if (known := facts.equal(dim, other)) is not None:
            assert known == (value == other.evaluate(binding))


def test_likely_values() -> None:
    names = ("N", "B", "H", "W", "K", "T", "S", "batch_size", "Batch", "M", "seq")
    found = likely_values(names, FACTS, {"seq": (3, 4)})
    assert found["N"] == (32,)  # the middle of 1..64
    assert found["B"] == (4,)
    assert found["batch_size"] == found["Batch"] == (1,)
    assert found["M"] == (8,) and found["seq"] == (3, 4)
    assert found["K"] == (32 * 8,)  # follows from K == N*M
    assert found["H"][0] % 8 == 0 and found["W"][0] % 2 == 1
    assert found["T"][0] >= 2 and found["S"][0] <= 512
    assert likely_values(["N"], DimFacts()) == {"N": (1,)}

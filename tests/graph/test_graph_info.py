"""What is known of a value: one text per state of knowledge, and a join that loses nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gerules.graph.constants import ConstantTable, encode
from gerules.graph.dims import Dim
from gerules.graph.info import UNKNOWN, Constant, Contradiction, Entries, Info, InfoError, Uniform, join, join_dims

P = Info.parse
ONE = "f32[]|0000803f"


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("f32[N,4]", "f32[N,4]"),
        ("f32[]", "f32[]"),
        ("f32[*]", "f32[*]"),
        ("f32[?,1+2*N]", "f32[?,2*N+1]"),
        ("?", "?"),
        ("seq(f32)[*]", "seq(f32)[*]"),
        ("map(i64,f32)[*]", "map(i64,f32)[*]"),
        ("f32['a],b',broadcast(M,N)]", "f32['a],b',broadcast(M,N)]"),
        ("f32['it\\'s',N]", "f32['it\\'s',N]"),
        # integer vectors and scalars
        ("i64[2]=[N,4]", "i64[2]=[N,4]"),
        ("i64[]=[N]", "i64[]=[N]"),
        ("i64[?]=[N,?]", "i64[2]=[N,?]"),
        ("i64[*]=[N,2]", "i64[2]=[N,2]"),
        ("i64[2]=[?,?]", "i64[2]"),
        ("i32[2]=[1,2]", "i32[2]=i32[2]|0100000002000000"),
        ("i32[1]=[2147483648]", "i32[1]"),
        ("i64[0]=[]", "i64[0]=i64[0]|"),
        # uniform values
        (f"f32[N]~{ONE}", f"f32[N]~{ONE}"),
        (f"f32[*]~{ONE}", f"f32[*]~{ONE}"),
        (f"f32[2]~{ONE}", "f32[2]=f32[2]|0000803f0000803f"),
        (f"f32[1000]~{ONE}", f"f32[1000]~{ONE}"),
        # constants bring their shape
        ("f32[*]=f32[2]|0000803f0000803f", "f32[2]=f32[2]|0000803f0000803f"),
        ("f32[?]=f32[2]|0000803f0000803f", "f32[2]=f32[2]|0000803f0000803f"),
    ],
)
def test_texts(text: str, normal: str) -> None:
    found = P(text)
    assert found.text == str(found) == normal
    assert P(normal) == found and hash(P(normal)) == hash(found)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "f32",
        "[2]",
        "f32[",
        "f32[2",
        "f32[2]x",
        "f32[N M]",
        "f32[2]=",
        "i64[3]=[N,4]",
        "f32[2]=[N,4]",
        "i64[2,2]=[N,1]",
        "i64[]=[1,2]",
        "f32[3]=f32[2]|0000803f0000803f",
        "f64[2]=f32[2]|0000803f0000803f",
        "f32[N]~f32[1]|0000803f",
        "seq(f32)[2]",
    ],
)
def test_other_text_says_nothing(text: str) -> None:
    with pytest.raises(InfoError):
        P(text)


def test_parts() -> None:
    info = Info.of("i64", ["N", 4, None])
    assert info.text == "i64[N,4,?]" and info.rank == 3 and info.static_shape is None
    assert Info.of("f32", [2, 3]).static_shape == (2, 3)
    assert Info.of("f32").shape is None and Info.of("f32").rank is None
    assert P("i64[2]=[N,4]").entries == (Dim.parse("N"), Dim.of(4))
    assert P("i64[2]=[1,2]").entries == (Dim.of(1), Dim.of(2))
    assert P("i64[]=[7]").entries == (Dim.of(7),)
    assert P("f32[2]~" + ONE).uniform == P("f32[N]~" + ONE).uniform == ONE
    assert P("f32[2]").uniform is None and P("f32[2]").entries is None and P("f32[2]").constant_text is None
    assert Info.of_array(np.array([1, 2]), ConstantTable()).text == P("i64[2]=[1,2]").text
    assert P("f32[N]~" + ONE).without_content() == P("f32[N]")
    assert P("i64[*]").with_content(Dim.parse("N")).text == "i64[]=[N]"
    assert P("i64[1]").with_content(Dim.parse("N")).text == "i64[1]=[N]"
    assert P("i64[*]").with_content((None, Dim.of(3))).text == "i64[2]=[?,3]"
    assert P("f32[*]").with_shape((Dim.of(3),)).text == "f32[3]"


def test_large_constants_by_digest() -> None:
    table = ConstantTable()
    info = Info.of_array(np.zeros(1000, np.float32), table)
    assert P(info.text) == info and info.static_shape == (1000,)
    assert info.uniform is None and info.entries is None


@pytest.mark.parametrize(
    ("text", "size", "bytes_"),
    [
        ("f32[N,4]", "4*N", "16*N"),
        ("f16[]", "1", "2"),
        ("i4[3]", "3", "2"),
        ("i4[N]", "N", "floor(N+1,2)"),
        ("u2[5]", "5", "2"),
        ("f32[?]", None, None),
        ("f32[*]", None, None),
        ("seq(f32)[*]", None, None),
        ("?", None, None),
        ("f32[0,N]", "0", "0"),
    ],
)
def test_sizes(text: str, size: str | None, bytes_: str | None) -> None:
    info = P(text)
    assert (None if info.size() is None else str(info.size())) == size
    assert (None if info.bytes() is None else str(info.bytes())) == bytes_


@pytest.mark.parametrize(
    ("a", "b", "joined"),
    [
        ("f32[N,?]", "f32[4,M]", "f32[4,M]"),
        ("f32[*]", "f32[2]", "f32[2]"),
        ("?", "f32[2]", "f32[2]"),
        ("f32[N]", "f32[M]", "f32[M]"),
        ("f32[2*N+1]", "f32[M]", "f32[M]"),
        ("i64[2]=[N,?]", "i64[2]=[?,4]", "i64[2]=[N,4]"),
        ("i64[2]=[N,4]", "i64[2]=[3,4]", "i64[2]=[3,4]"),
        ("i64[2]=[N,?]", "i64[?]", "i64[2]=[N,?]"),
        ("f32[*]", f"f32[2]~{ONE}", "f32[2]=f32[2]|0000803f0000803f"),
        (f"f32[N]~{ONE}", "f32[2]", "f32[2]=f32[2]|0000803f0000803f"),
        (f"f32[N]~{ONE}", "f32[N]", f"f32[N]~{ONE}"),
        # two float constants that rules hold equal within tolerance
        ("f32[1]=f32[1]|0000803f", "f32[1]=f32[1]|0100803f", "f32[1]=f32[1]|0000803f"),
    ],
)
def test_join(a: str, b: str, joined: str) -> None:
    assert join(P(a), P(b)).text == join(P(b), P(a)).text == P(joined).text


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("f32[2]", "f32[3]"),
        ("f32[2]", "f64[2]"),
        ("f32[2]", "f32[2,1]"),
        ("f32[N]", "f32[N+1]"),
        ("f32[2]", "seq(f32)[*]"),
        ("i64[2]=[1,2]", "i64[2]=[1,3]"),
        ("i64[2]=[N,2]", "i64[2]=[N,3]"),
        ("i64[2]=[N,2]", "i64[3]"),
        ("bool[1]=bool[1]|00", "bool[1]=bool[1]|01"),
        ("f32[2]=f32[2]|0000803f0000803f", "f32[3]"),
    ],
)
def test_contradictions_name_both_sides(a: str, b: str) -> None:
    with pytest.raises(Contradiction) as caught:
        join(P(a), P(b))
    assert {caught.value.first.text, caught.value.second.text} == {P(a).text, P(b).text}


def test_join_of_dimensions() -> None:
    assert join_dims(None, Dim.of(3)) == Dim.of(3) and join_dims(None, None) is None
    with pytest.raises(ValueError):
        join_dims(Dim.of(2), Dim.of(3))


# A value that exists: everything said of it below is true, so that nothing can contradict.
BINDING = {"N": 2, "M": 2, "K": 3}
DIMS = {2: ["2", "N", "M", "K-1", "?"], 3: ["3", "K", "N+1", "?"]}


@st.composite
def truths(draw: st.DrawFn, vector: bool) -> Info:
    """Something true of the i64 vector [2, 3, 2], or of the f32 matrix of ones with 2 rows and 3 columns."""

    def extent(size: int) -> str:
        return draw(st.sampled_from(DIMS[size]))

    if draw(st.integers(0, 9)) == 0:
        return UNKNOWN
    if vector:
        shape = draw(st.sampled_from(["[3]", "[K]", "[?]", "[*]"]))
        content = draw(st.sampled_from(["", "entries", "constant"]))
        if content == "entries":
            return P(f"i64[3]=[{extent(2)},{extent(3)},{extent(2)}]")
        return P("i64[3]=[2,3,2]") if content == "constant" else P(f"i64{shape}")
    shape = draw(st.sampled_from([f"[{extent(2)},{extent(3)}]", "[*]"]))
    content = draw(st.sampled_from(["", f"~{ONE}", "constant"]))
    if content == "constant":
        return Info.of_array(np.ones((2, 3), np.float32), ConstantTable())
    return P(f"f32{shape}{content}")


@given(st.booleans().flatmap(lambda vector: st.tuples(truths(vector), truths(vector), truths(vector))))
def test_join_is_a_semilattice(infos: tuple[Info, Info, Info]) -> None:
    a, b, c = infos
    try:
        left, right = join(join(a, b), c), join(a, join(b, c))
    except Contradiction:
        # Two names that differ by a number for certain: the sizes above do not satisfy such a promise.
        return
    assert join(a, a) == a
    assert join(a, b) == join(b, a)
    assert left == right
    assert join(left, a) == left


def test_contents_are_what_they_say() -> None:
    assert Info("i64", (Dim.of(1),), Entries((Dim.parse("N"),))).text == "i64[1]=[N]"
    assert Info("f32", None, Uniform(ONE)).text == f"f32[*]~{ONE}"
    text = encode(np.float32(1), ConstantTable())
    assert Info("f32", (), Constant(text)).text == f"f32[]={ONE}"

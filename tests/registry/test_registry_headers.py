"""Headers as they occur: what the preprocessor leaves out, odd literals, slips; each is read on, with a warning."""

from __future__ import annotations

import pytest

from gerules.errors import Refused
from gerules.registry.headers import Imported, parse_headers


def op(name: str, body: str = "") -> str:
    return f"REG_OP({name}){body}.OP_END_FACTORY_REG({name})\n"


def read(text: str) -> Imported:
    return parse_headers([("h.h", text)])


def said(found: Imported) -> list[tuple[str, int]]:
    return [(d.code, d.span.line if d.span else 0) for d in found.warnings]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (f"#if 0\n{op('A')}#else\n{op('B')}#endif\n", ["B"]),
        (f"#if 1\n{op('A')}#else\n{op('B')}#endif\n", ["A"]),
        (f"#if 0\n{op('A')}#elif 1\n{op('B')}#else\n{op('C')}#endif\n", ["B"]),
        (f"#if 0\n#ifdef X\n{op('A')}#endif\n{op('B')}#endif\n{op('C')}", ["C"]),
        (f"#if 0\n#if 1\n{op('A')}#else\n{op('B')}#endif\n#endif\n{op('C')}", ["C"]),
        (f"#ifdef X\n{op('A')}#else\n{op('B')}#endif\n", ["A", "B"]),
        (f"#if defined(X)\n{op('A')}#elif 0\n{op('B')}#else\n{op('C')}#endif\n", ["A", "C"]),
        (f"#if 0 // (off)\n{op('A')}#endif /* 0 */\n{op('B')}", ["B"]),
        (f"// not \\\n{op('A')}{op('B')}", ["B"]),
        (f"/* {op('A')} */{op('B')}", ["B"]),
        (f"{op('A')}/* {op('B')}", ["A"]),
        (f"#endif\n#else\n{op('A')}", ["A"]),
    ],
)
def test_what_the_preprocessor_leaves_out_is_left_out(text: str, names: list[str]) -> None:
    found = read(text)
    assert (list(found.release.operators), found.warnings) == (names, ())


def test_a_form_for_each_of_two_worlds_is_read_once_and_said() -> None:
    found = read(f"#ifdef X\n{op('A', '.INPUT(x, TensorType::ALL())')}#else\n{op('A')}#endif\n")
    assert [p.name for p in found.release.operators["A"].inputs] == ["x"]
    assert said(found) == [("GR214", 4)]


@pytest.mark.parametrize(
    ("type_", "written", "value"),
    [
        ("Int", "1'000", 1000),
        ("Int", "0b101", 5),
        ("Int", "7 % 4", 3),
        ("Int", "1 | 6", 7),
        ("Int", "0xFFFFFFFFFFFFFFFF", -1),
        ("Int", "-9223372036854775808", -(2**63)),
        ("ListInt", "{1'000, 2'000}", (1000, 2000)),
        ("Float", "-1.5E-3F", -0.0015),
        ("ListFloat", "{-1e3, +.5f, 2.}", (-1000.0, 0.5, 2.0)),
        ("Bool", "FALSE", False),
        ("String", 'R"(a, (b) "c" //d)"', 'a, (b) "c" //d'),
        ("String", 'R"xx(a)" )xx"', 'a)" '),
        ("String", '"\\u00e9\\x41\\101"', "éAA"),
        ("ListListInt", "{{0, -1}, {2}, {}}", ((0, -1), (2,), ())),
        ("ListListInt", "{{}}", ((),)),
        ("ListType", "{ge::DT_FLOAT, DataType::DT_INT8}", ("DT_FLOAT", "DT_INT8")),
        ("Int", "AXIS", -2),
        ("ListInt", "AXES", (0, 1)),
    ],
)
def test_literals(type_: str, written: str, value: object) -> None:
    head = "#define AXIS (-2)  // the last but one\nconst std::vector<int64_t> AXES{0, 1};\n"
    found = read(head + op("A", f".ATTR(k, {type_}, {written})"))
    (attribute,) = found.release.operators["A"].attributes
    assert (attribute.default, found.warnings) == (value, ())


@pytest.mark.parametrize(
    ("type_", "written"),
    [
        ("Int", "99999999999999999999999"),
        ("Int", "sizeof(int)"),
        ("Int", '"x"'),
        ("Float", "{1, 2}"),
        ("Float", "1e999"),
        ("ListInt", "3"),
        ("ListInt", "{1,,2}"),
        ("Bool", '"true"'),
        ("ListListInt", "{" * 5000 + "}" * 5000),
        ("Int", ""),
        ("String", '"no end'),
    ],
)
def test_a_default_that_cannot_be_read_is_said(type_: str, written: str) -> None:
    found = read(f"\n{op('A', f'.ATTR(k, {type_}, {written})')}\n{op('B')}")
    assert [a.name for a in found.release.operators["A"].attributes] == ["k"] and "B" in found.release.operators
    assert ("GR213", 2) in said(found)


@pytest.mark.parametrize(
    ("text", "warned"),
    [
        (f"REG_OP(A)\n INPUT(x, TensorType::ALL())\n.OP_END_FACTORY_REG(A)\n{op('B')}", [("GR212", 2)]),
        (f"REG_OP(A).INPUT(x, TensorType::ALL());\n{op('B')}", [("GR212", 1)]),
        (f"REG_OP(A).INPUT(x, TensorType::ALL()).OP_END_FACTORY(A)\n{op('B')}", [("GR212", 1), ("GR212", 1)]),
        (f"REG_OP(A).INPUT(x, TensorType({{DT_FLOAT)).OP_END_FACTORY_REG(A)\n{op('B')}", [("GR211", 1)]),
        (f"REG_OP(A).INPUT(x, TensorType({{DT_FLOAT}}))).OP_END_FACTORY_REG(A)\n{op('B')}", []),
        (f"REG_OP(A).INPUT(x, TensorType({{DT_FLOAT,,}})).OP_END_FACTORY_REG(A)\n{op('B')}", []),
        (f"REG_OP(A).INPUT(x).OP_END_FACTORY_REG(A)\n{op('B')}", [("GR211", 1)]),
        (f"REG_OP ( A )\r . INPUT ( x , TensorType :: ALL ( ) )\r// c\r . OP_END_FACTORY_REG ( A )\r{op('B')}", []),
    ],
)
def test_slips_are_read_on(text: str, warned: list[tuple[str, int]]) -> None:
    found = read(text)
    assert list(found.release.operators) == ["A", "B"]
    assert [p.name for p in found.release.operators["A"].inputs] == ["x"]
    assert said(found) == warned


def test_what_is_left_out_is_never_left_out_in_silence() -> None:
    macro = "#define REG_BIN(name) \\\nREG_OP(name) \\\n.OP_END_FACTORY_REG(name)\n"
    assert said(read(macro + "REG_BIN(Foo)\n" + op("A"))) == [("GR212", 4)]
    assert said(read(macro + op("A"))) == [], "a macro that nobody uses registers nothing"
    assert said(read("REG_OP().OP_END_FACTORY_REG()\n" + op("A"))) == [("GR212", 1)]
    assert said(read(op("A", ".ATTR(\x010\x02, Int, 1)"))) == [("GR212", 1)]


def test_the_empty_header_and_what_is_all_dead_are_errors() -> None:
    for text in ("", "\n", f"#if 0\n{op('A')}#endif\n", "REG_OP()\n"):
        with pytest.raises(Refused) as caught:
            read(text)
        assert caught.value.diagnostics[-1].code == "GR210"

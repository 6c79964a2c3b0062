"""Releases of registries: JSON byte for byte, headers with the blemishes of real ones, words of the command line."""

from __future__ import annotations

import io
import json
import lzma
import tarfile
from functools import cache
from pathlib import Path

import pytest

from gerules.errors import GerulesError, Refused, UsageFault
from gerules.registry.headers import parse_headers, read_headers
from gerules.registry.json_format import parse_release, read_release, write_release
from gerules.registry.release import ReleaseOperator, same_default
from gerules.registry.sources import load_release

DATA = Path(__file__).parents[1] / "data" / "ge_registry"
EMPTY = '{"inputs":[],"outputs":[],"attrs":[]}'


@cache
def texts() -> dict[str, str]:
    data = lzma.decompress((DATA / "releases.tar.xz").read_bytes())
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return {m.name: file.read().decode() for m in archive.getmembers() if (file := archive.extractfile(m))}


@pytest.mark.parametrize("name", sorted(texts()))
def test_what_is_read_is_written_again_byte_for_byte(name: str) -> None:
    assert write_release(parse_release(texts()[name], "ge")) == texts()[name]


def test_the_sample_header_gives_the_sample_registry() -> None:
    found = read_headers([DATA / "sample_ops.h"])
    assert write_release(found.release) == (DATA / "sample_ops.json").read_text()
    said = [(d.code, d.span.line if d.span else 0, d.node) for d in found.warnings]
    assert said == [("GR211", 25, "WindowPool"), ("GR211", 37, "Branch")]


def faults(text: str) -> list[tuple[str, str | None]]:
    with pytest.raises(Refused) as caught:
        parse_release(text, "ge", "1.0", "R.json")
    assert all(d.file == "R.json" for d in caught.value.diagnostics)
    return [(d.code, d.node) for d in caught.value.diagnostics]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", [("GR202", None)]),
        ("{", [("GR202", None)]),
        ("[]", [("GR203", None)]),
        ("{}", [("GR203", None)]),
        ("NaN", [("GR202", None)]),
        ("[" * 100_000, [("GR202", None)]),
        (f'{{"A":{EMPTY},"A":{EMPTY}}}', [("GR204", "A")]),
        ('{"A":[]}', [("GR203", "A")]),
        ('{"A":{"inputs":[],"outputs":[]}}', [("GR203", "A")]),
        ('{"A":{"inputs":[],"outputs":[],"attrs":[],"more":1}}', [("GR203", "A")]),
        ('{"A":{"inputs":[["x","required",[]],["x","optional",[]]],"outputs":[],"attrs":[]}}', [("GR205", "A")]),
        ('{"A":{"inputs":[["x","variadic",[]]],"outputs":[],"attrs":[]}}', [("GR206", "A")]),
        ('{"A":{"inputs":[],"outputs":[["y","optional",[]]],"attrs":[]}}', [("GR206", "A")]),
        ('{"A":{"inputs":[["x","required"]],"outputs":[],"attrs":[]}}', [("GR203", "A")]),
        ('{"A":{"inputs":[["x","required",[1]]],"outputs":[],"attrs":[]}}', [("GR203", "A")]),
        ('{"A":{"inputs":[],"outputs":[],"attrs":[["k","Integer","optional",1]]}}', [("GR207", "A")]),
        ('{"A":{"inputs":[],"outputs":[],"attrs":[["k","Int","dynamic",1]]}}', [("GR206", "A")]),
        ('{"A":{"inputs":[],"outputs":[],"attrs":[["k","Int","required",1]]}}', [("GR207", "A")]),
        ('{"A":{"inputs":[],"outputs":[],"attrs":[["k","Int","optional",null]]}}', [("GR207", "A")]),
        ('{"A":{"inputs":[],"outputs":[],"attrs":[["k","Int","optional",true]]}}', [("GR207", "A")]),
        ('{"A":{"inputs":[],"outputs":[],"attrs":[["k","ListInt","optional",[1.5]]]}}', [("GR207", "A")]),
        ('{"A":{"inputs":[],"outputs":[],"attrs":[["k","String","optional",{"a":1}]]}}', [("GR207", "A")]),
        ('{"A":{"inputs":5,"outputs":[],"attrs":[]}}', [("GR203", "A")]),
        ('{"A":{"inputs":[],"outputs":[],"attrs":[],"subgraphs":[["b","optional"]]}}', [("GR206", "A")]),
        ('{"A":{"inputs":[],"outputs":[],"attrs":[],"datatypes":{"T":["a"],"T":["b"]}}}', [("GR205", "A")]),
        (f'{{"A":{EMPTY},"B":[],"A":{EMPTY},"C":{{}}}}',
         [("GR203", "B"), ("GR204", "A"), ("GR203", "C"), ("GR203", "C"), ("GR203", "C")]),
    ],
)  # fmt: skip
def test_every_fault_of_a_file_is_said_with_its_operator(text: str, expected: list[tuple[str, str | None]]) -> None:
    assert faults(text) == expected


def header(body: str, name: str = "Foo") -> ReleaseOperator:
    return parse_headers([("h.h", f"REG_OP({name})\n{body}\n.OP_END_FACTORY_REG({name})")]).release.operators[name]


@pytest.mark.parametrize(
    ("type_", "written", "value"),
    [
        ("Int", "-1", -1),
        ("Int", "0x10", 16),
        ("Int", "1 << 4", 16),
        ("Int", "INT64_MAX", 2**63 - 1),
        ("Int", "10L", 10),
        ("Int", "DT_INT32", "DT_INT32"),
        ("Int", "ge::DT_INT32", "DT_INT32"),
        ("Float", "1", 1.0),
        ("Float", "1.0e-5", 1e-05),
        ("Float", "1e-5f", 1e-05),
        ("Float", ".5f", 0.5),
        ("Float", "-1.", -1.0),
        ("Bool", "true", True),
        ("Bool", "0", False),
        ("String", '"a, (b)"', "a, (b)"),
        ("String", '"say \\"x\\" // no comment"', 'say "x" // no comment'),
        ("String", '"one " "two"', "one two"),
        ("String", '""', ""),
        ("String", "{}", ""),
        ("Type", "DT_FLOAT", "DT_FLOAT"),
        ("Tensor", "Tensor()", "Tensor()"),
        ("ListInt", "{}", ()),
        ("ListInt", "{0, 1,\n 2}", (0, 1, 2)),
        ("ListInt", "{1, 2,}", (1, 2)),
        ("ListInt", "ge::UNKNOWN_SHAPE", (-1,)),
        ("ListFloat", "{0.5, 1}", (0.5, 1.0)),
        ("ListBool", "{true, false}", (True, False)),
        ("ListString", '{"a,b", "c"}', ("a,b", "c")),
        ("ListType", "{DT_FLOAT, DT_INT8}", ("DT_FLOAT", "DT_INT8")),
        ("ListListInt", "{{1, 2}, {}}", ((1, 2), ())),
        ("ListListInt", "{}", ()),
        ("ListInt", "std::vector<int64_t>({1})", (1,)),
    ],
)
def test_defaults_of_every_type(type_: str, written: str, value: object) -> None:
    (attribute,) = header(f".ATTR(k, {type_}, {written})").attributes
    assert (attribute.type, attribute.default, type(attribute.default)) == (type_, value, type(value))


@pytest.mark.parametrize(
    ("written", "types"),
    [
        ("TensorType({DT_FLOAT, DT_INT8})", ("DT_FLOAT", "DT_INT8")),
        ("TensorType({DT_FLOAT,\n   DT_INT8})", ("DT_FLOAT", "DT_INT8")),
        ("TensorType(DT_FLOAT)", ("DT_FLOAT",)),
        ("TensorType::ALL()", ("ALL",)),
        ("TensorType({NumberType(), DT_VARIANT})", ("NumberType", "DT_VARIANT")),
        ("ListTensorType({DT_FLOAT})", ("DT_FLOAT",)),
        ("TensorType{DT_FLOAT}", ("DT_FLOAT",)),
        ('"T"', ("T",)),
        ("TensorTpye({DT_FLOAT})", ("DT_FLOAT",)),
        ("TensorType({DT_FLOAT)", ("DT_FLOAT",)),
        ("TensorType({DT_FLOAT}", ("DT_FLOAT",)),
        ("TensorType(DT_FLOAT})", ("DT_FLOAT",)),
        ("TensorType({DT_FLAOT})", ("DT_FLAOT",)),
        ("TensorType({DT_FLOAT DT_INT8})", ("DT_FLOAT", "DT_INT8")),
    ],
)
def test_type_lists_good_and_bad(written: str, types: tuple[str, ...]) -> None:
    assert header(f".INPUT(x, {written})\n.OUTPUT(y, TensorType({{DT_INT8}}))").inputs[0].types == types


def test_symbols_and_promotion() -> None:
    found = header('.INPUT(x, "T1")\n.DATATYPE(T1, TensorType({DT_INT8}))\n.DATATYPE(T2, Promote({"T1", "T1b"}))')
    assert found.datatypes == {"T1": ("DT_INT8",), "T2": ("Promote", "T1", "T1b")}


def written(value: object) -> str:
    """A default as C++ writes it."""
    if isinstance(value, tuple):
        return "{" + ", ".join(map(written, value)) + "}"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str) and not value.startswith(("DT_", "Tensor(")):
        return json.dumps(value)
    return str(value)


def kinds(types: tuple[str, ...]) -> str:
    return f"TensorType({{{', '.join(t if t.startswith(('DT_', 'D')) else t + '()' for t in types)}}})"


def as_header(operator: ReleaseOperator) -> str:
    """An operator as a registration, in a form of its own."""
    inputs = {"required": "INPUT", "optional": "OPTIONAL_INPUT", "dynamic": "DYNAMIC_INPUT"}
    outputs = {"required": "OUTPUT", "dynamic": "DYNAMIC_OUTPUT"}
    lines = [f"REG_OP({operator.name})"]
    lines += [f".{inputs[p.kind]}({p.name}, {kinds(p.types)})" for p in operator.inputs]
    lines += [f".{outputs[p.kind]}({p.name}, {kinds(p.types)})  // , )" for p in operator.outputs]
    for a in operator.attributes:
        default = "" if a.required else f", {written(a.default)}"
        lines.append(f".{'REQUIRED_ATTR' if a.required else 'ATTR'}({a.name}, {a.type}{default})")
    lines += [f".{'GRAPH' if b.kind == 'required' else 'DYNAMIC_GRAPH'}({b.name})" for b in operator.bodies]
    lines += [f".DATATYPE({symbol}, {kinds(types)})" for symbol, types in operator.datatypes.items()]
    return "\n    ".join([*lines, f".OP_END_FACTORY_REG({operator.name})"])


@pytest.mark.parametrize("name", ["v0.1.0-alpha.json", "v2.3.0.json"])
def test_a_release_written_as_a_header_is_read_as_itself(name: str) -> None:
    release = parse_release(texts()[name], "ge")
    text = "namespace ge {\n" + "\n\n".join(as_header(o) for o in release.operators.values()) + "\n}\n"
    found = parse_headers([("all.h", text)], "ge")
    assert {d.code for d in found.warnings} <= {"GR211"}, "misspelt data types are said to be so"
    assert write_release(found.release) == texts()[name]


MESSY = """
#define UNUSED(x) \\
    REG_OP(NotThis)
// REG_OP(NorThis).INPUT(x, TensorType::ALL()).OP_END_FACTORY_REG(NorThis)
#if 0
REG_OP(NorThat)
    .INPUT(x, TensorType::ALL())
    .OP_END_FACTORY_REG(NorThat)
#endif
const std::vector<int64_t> MY_SHAPE = {-1, 7};
REG_OP(First)
    .INPUT(x, TensorType::ALL())   /* .INPUT(hidden, TensorType::ALL()) */
    .INPUT(x, TensorType::ALL())
    .INPTU(w, TensorType::ALL())
    .ATTR(shape, ListInt, MY_SHAPE)
    .ATTR(odd, Int, SOMETHING)
    .ATTR(kind, Strng, "s")
    .REQUIRED_ATTR(must, Int, 3)
REG_OP(Second).OUTPUT(y, TensorType::ALL()).OP_END_FACTORY_REG(Secnd)
REG_OP(Second).OUTPUT(z, TensorType::ALL()).OP_END_FACTORY_REG(Second)
"""


def test_what_is_odd_is_warned_of_with_its_line_and_reading_goes_on() -> None:
    found = parse_headers([("messy.h", MESSY)])
    assert list(found.release.operators) == ["First", "Second"]
    first = found.release.operators["First"]
    assert [p.name for p in first.inputs] == ["x"]
    assert [(a.name, a.type, a.required, a.default) for a in first.attributes] == [
        ("shape", "ListInt", False, (-1, 7)),
        ("odd", "Int", False, 0),
        ("kind", "String", False, "s"),
        ("must", "Int", True, None),
    ]
    assert [p.name for p in found.release.operators["Second"].outputs] == ["y"]
    said = [(d.code, d.span.line if d.span else 0, d.severity) for d in found.warnings]
    assert said == [
        ("GR214", 13, "warning"),
        ("GR212", 14, "warning"),
        ("GR213", 16, "warning"),
        ("GR213", 17, "warning"),
        ("GR213", 18, "warning"),
        ("GR212", 11, "warning"),
        ("GR212", 19, "warning"),
        ("GR214", 20, "warning"),
    ]


@pytest.mark.parametrize("text", ["", "// REG_OP(Foo)", "#ifndef A\n#define A\n#endif\n"])
def test_a_header_without_operators_is_an_error(text: str) -> None:
    with pytest.raises(Refused) as caught:
        parse_headers([("e.h", text)])
    assert caught.value.diagnostics[-1].code == "GR210"


def test_a_folder_of_headers(tmp_path: Path) -> None:
    (tmp_path / "b.h").write_text("REG_OP(B).OP_END_FACTORY_REG(B)")
    (tmp_path / "a.h").write_text("REG_OP(A).OP_END_FACTORY_REG(A)")
    (tmp_path / "note.txt").write_text("REG_OP(C).OP_END_FACTORY_REG(C)")
    found = read_headers([tmp_path])
    assert (list(found.release.operators), found.files) == (["A", "B"], 2)
    with pytest.raises(Refused):
        read_headers([tmp_path / "none.h"])


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (1e-5, 0.00001, True),
        (1, 1.0, True),
        (True, 1, False),
        ((1, 2), (1.0, 2), True),
        ((1,), (1, 2), False),
        ("1", 1, False),
        (((1,), ()), ((1,), ()), True),
    ],
)
def test_defaults_are_compared_as_values(one: object, other: object, same: bool) -> None:
    assert same_default(one, other) is same  # type: ignore[arg-type]


def test_words_of_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "v1.8.0-beta.json"
    file.write_text(f'{{"A":{EMPTY}}}')
    assert str(load_release(str(file))) == "ge@1.8.0"
    assert str(load_release(f"ge={file}")) == "ge@1.8.0"
    assert str(load_release(f"my.engine@2.0={file}")) == "my.engine@2.0"
    assert str(load_release("onnx:13")) == "ai.onnx@13"
    assert str(load_release("ai.onnx.ml:3")) == "ai.onnx.ml@3"


@pytest.mark.parametrize(
    ("word", "code"),
    [
        ("onnx:99", "GR223"),
        ("onnx:x", "GR223"),
        ("onnx:", "GR223"),
        ("nobody:3", "GR223"),
        ("none.json", "GR222"),
        ("ge@one=none.json", "GR221"),
        ("ge@1.0=none.json", "GR222"),
    ],
)
def test_words_that_mean_nothing(word: str, code: str) -> None:
    with pytest.raises(GerulesError) as caught:
        load_release(word)
    assert caught.value.diagnostics[0].code == code
    assert isinstance(caught.value, UsageFault) == (code != "GR222"), "a file that is missing is no slip of the pen"


def test_onnx_as_a_release() -> None:
    operators = load_release("onnx:13").operators
    assert [(p.name, p.kind) for p in operators["Clip"].inputs] == [
        ("input", "required"),
        ("min", "optional"),
        ("max", "optional"),
    ]
    assert operators["Concat"].inputs[0].kind == "dynamic"
    assert {b.name for b in operators["If"].bodies} == {"then_branch", "else_branch"}
    assert "CenterCropPad" not in operators
    grown = [a.name for a in load_release("onnx:28").operators["Cast"].attributes]
    assert grown[:2] == ["to", "saturate"], "what came later stands later"


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(GerulesError) as caught:
        read_release(tmp_path / "none.json", "ge")
    assert caught.value.diagnostics[0].code == "GR201"


def test_the_sample_is_json() -> None:
    assert set(json.loads((DATA / "sample_ops.json").read_text())) == {"Branch", "RowAdd", "Stitch", "WindowPool"}

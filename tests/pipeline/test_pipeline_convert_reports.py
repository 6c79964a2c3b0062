"""Reported cases of conversion: changed meaning, attributes and operands, functions, bodies, what cannot be done."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import onnx
import onnx.parser
import pytest
from report_judge import REPORTS, judge_model

from gerules.errors import GerulesError, Refused, UsageFault
from gerules.pipeline import convert_model

ROWS = {r["name"]: r for r in csv.DictReader((REPORTS / "index.csv").open(newline="")) if r["job"] == "convert"}


def test_all_cases_are_there() -> None:
    assert len(ROWS) == 11


@pytest.mark.parametrize("name", ROWS)
def test_convert(name: str, tmp_path: Path) -> None:
    source, out = tmp_path / "model.onnx", tmp_path / "out.onnx"
    before = onnx.parser.parse_model((REPORTS / f"{name}.onnxtxt").read_text())
    onnx.save(before, source)
    opset = int(ROWS[name]["arguments"].split()[-1])
    tokens = [t.strip() for t in ROWS[name]["check"].split(";") if t.strip()]
    refusals = [t.removeprefix("refuse:").split("~") for t in tokens if t.startswith("refuse:")]
    if refusals:
        with pytest.raises(GerulesError) as caught:
            convert_model(source, out, opset)
        assert isinstance(caught.value, (Refused, UsageFault))
        for node, reason in refusals:
            found = [d for d in caught.value.diagnostics if re.search(reason, f"{d.message} {d.hint}", re.I)]
            assert any(node in ("-", d.node) for d in found)
        assert not out.exists()
        return
    report = convert_model(source, out, opset)
    assert report.verdict.ok
    after = onnx.load(out)
    onnx.checker.check_model(after, full_check=True)
    imports = [i for m in (after, *after.functions) for i in m.opset_import if i.domain == ""]
    assert imports and all(i.version == opset for i in imports)
    judge_model(name, [t for t in tokens if not t.startswith("opset=")], before, after)

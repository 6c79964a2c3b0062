"""Situations that users of other tools reported: rewrites that must not happen, borders that must go, cycles."""

from __future__ import annotations

import csv
import json
import re
from itertools import pairwise
from pathlib import Path

import onnx
import onnx.parser
import pytest
from report_judge import REPORTS, judge_model, judge_partition

from gerules.errors import Refused
from gerules.pipeline import Options, compile_model, partition_model, rewrite_model

ROWS = {row["name"]: row for row in csv.DictReader((REPORTS / "index.csv").open(newline=""))}
REWRITES = [name for name, row in ROWS.items() if row["job"] == "rewrite"]
PARTITIONS = [name for name, row in ROWS.items() if row["job"] == "partition"]


def model_of(name: str) -> onnx.ModelProto:
    text = REPORTS / f"{name}.onnxtxt"
    return onnx.parser.parse_model(text.read_text()) if text.exists() else onnx.load(REPORTS / f"{name}.onnx")


def tokens_of(name: str) -> list[str]:
    return [token.strip() for token in ROWS[name]["check"].split(";") if token.strip()]


def test_all_cases_are_there() -> None:
    assert (len(REWRITES), len(PARTITIONS)) == (20, 7)


@pytest.mark.parametrize("name", REWRITES)
def test_rewrite(name: str, tmp_path: Path) -> None:
    source, out = tmp_path / "model.onnx", tmp_path / "out.onnx"
    onnx.save(model_of(name), source)
    words = ROWS[name]["arguments"].split()
    likely = tuple(value for flag, value in pairwise(words) if flag == "--likely")
    report = rewrite_model(source, out, Options(likely=likely))
    assert report.verdict.ok
    judge_model(name, tokens_of(name), model_of(name), onnx.load(out))


@pytest.mark.parametrize("name", PARTITIONS)
def test_partition(name: str, tmp_path: Path) -> None:
    source, out = tmp_path / "model.onnx", tmp_path / "out"
    onnx.save(model_of(name), source)
    tokens = tokens_of(name)
    job = compile_model if "border" in tokens else partition_model
    refusals = [token.removeprefix("refuse:").split("~") for token in tokens if token.startswith("refuse:")]
    if refusals:
        with pytest.raises(Refused) as caught:
            job(source, str(REPORTS / f"{name}.rules"), out)
        for node, reason in refusals:
            assert any(d.node == node and re.search(reason, d.message, re.I) for d in caught.value.diagnostics)
        assert not out.exists()
        return
    report = job(source, str(REPORTS / f"{name}.rules"), out)
    assert report.verdict.ok
    judge_partition(name, tokens, model_of(name), json.loads((out / "manifest.json").read_text()))
    judge_model(name, [t for t in tokens if t == "outputs"], model_of(name), onnx.load(out / "model.onnx"))

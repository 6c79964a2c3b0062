"""The commands on small models: what they write, what they print, how they end."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import numpy as np
import onnx
import onnxruntime as ort
import pytest
from cli_helpers import BODIES, GATE_RULES, WRONG_RULES, everything, gerules, names, write_model, write_text

from gerules.errors import Exit
from gerules.pipeline import rewriting

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "manifest.schema.json").read_text())


def session(path: Path) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


# ----------------------------------------------------------------------------------------------------------- rewrite


def test_rewrite_writes_a_better_model_and_leaves_the_input_alone(tmp_path: Path) -> None:
    model, rules = write_model(tmp_path), write_text(tmp_path, "my.rules", GATE_RULES)
    before = model.read_bytes()
    result = gerules("rewrite", model, "--rules", rules, "-o", tmp_path / "out.onnx")
    assert result.exit_code == Exit.DONE, result.output
    assert names(tmp_path / "out.onnx") == ["sig", "mul"]
    assert model.read_bytes() == before
    assert "4 -> 2" in result.output
    assert "user/my.relu_sigmoid" in result.output
    assert "validated" in result.output
    assert everything(tmp_path) == ["model.onnx", "my.rules", "out.onnx"]


def test_the_report_as_json(tmp_path: Path) -> None:
    result = gerules("rewrite", write_model(tmp_path), "-o", tmp_path / "out.onnx", "--json")
    report = json.loads(result.stdout)
    assert report["nodes"] == {"before": 4, "after": 3}
    assert report["validation"]["ok"] is True
    assert set(report["unproved"]) <= report["rules_fired"].keys()
    assert report["cost"]["after"] < report["cost"]["before"]


def test_bodies_are_rewritten(tmp_path: Path) -> None:
    result = gerules("rewrite", write_model(tmp_path, BODIES), "-o", tmp_path / "out.onnx", "--json")
    assert json.loads(result.stdout)["nodes"] == {"before": 6, "after": 5}


def test_promises_are_written_and_symbols_stay(tmp_path: Path) -> None:
    gerules("rewrite", write_model(tmp_path), "-o", tmp_path / "out.onnx", "--dim", "N=2..8", "--assume", "N % 2 == 0")
    out = onnx.load(tmp_path / "out.onnx")
    assert {p.key: p.value for p in out.metadata_props} == {"gerules.dims": "N=2..8; N % 2 == 0"}
    assert out.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "N"


def test_with_all_rules_off_the_model_is_the_same(tmp_path: Path) -> None:
    model = write_model(tmp_path)
    changed = onnx.load(model)
    changed.graph.node[0].name = ""
    changed.graph.doc_string = "kept"
    changed.metadata_props.add(key="author", value="somebody")
    onnx.save(changed, model)
    assert gerules("rewrite", model, "--only-rules", "-o", tmp_path / "out.onnx").exit_code == Exit.DONE
    assert onnx.load(tmp_path / "out.onnx") == onnx.load(model)


def test_what_gains_nothing_is_written_as_it_is(tmp_path: Path) -> None:
    text = '<ir_version: 10, opset_import: ["" : 17]> g (float[3] x) => (float[3] y) { y = Exp (x) }'
    model = write_model(tmp_path, text)
    result = gerules("rewrite", model, "-o", tmp_path / "out.onnx", "--json")
    assert json.loads(result.stdout)["changed"] is False
    assert onnx.load(tmp_path / "out.onnx") == onnx.load(model)


def test_disabled_rules_do_not_fire(tmp_path: Path) -> None:
    result = gerules("rewrite", write_model(tmp_path), "-o", tmp_path / "out.onnx", "--disable", "cleanup")
    assert result.exit_code == Exit.DONE
    assert names(tmp_path / "out.onnx") == ["sig", "re", "same", "mul"]


def test_rules_with_a_word_are_off_until_asked_for(tmp_path: Path) -> None:
    rules = write_text(tmp_path, "f.rules", GATE_RULES.replace("relu_sigmoid:", "relu_sigmoid finite:", 1))
    result = gerules("rewrite", write_model(tmp_path), "--rules", rules, "-o", tmp_path / "out.onnx")
    assert "off until asked for (--enable finite): user/f.relu_sigmoid" in result.output
    assert "re" in names(tmp_path / "out.onnx")
    gerules("rewrite", tmp_path / "model.onnx", "--rules", rules, "--enable", "finite", "-o", tmp_path / "o2.onnx")
    assert "re" not in names(tmp_path / "o2.onnx")


def test_a_rule_whose_example_fails_is_off(tmp_path: Path) -> None:
    text = GATE_RULES.replace("Relu(Sigmoid(x: f32[M, N]))", "Relu(Tanh(x: f32[M, N]))")
    rules = write_text(tmp_path, "my.rules", text)
    result = gerules("rewrite", write_model(tmp_path), "--rules", rules, "-o", tmp_path / "out.onnx")
    assert result.exit_code == Exit.DONE
    assert "off: user/my.relu_sigmoid" in result.output and "my.rules:5" in result.output
    assert "re" in names(tmp_path / "out.onnx")


def test_without_validation_the_report_says_so(tmp_path: Path) -> None:
    result = gerules("rewrite", write_model(tmp_path), "-o", tmp_path / "out.onnx", "--no-validate")
    assert result.exit_code == Exit.DONE
    assert "not validated" in result.output


def test_a_difference_is_named_and_nothing_is_written(tmp_path: Path) -> None:
    model, rules = write_model(tmp_path), write_text(tmp_path, "bad.rules", WRONG_RULES)
    kept = tmp_path / "kept"
    result = gerules("rewrite", model, "--rules", rules, "-o", tmp_path / "out.onnx", "--keep-failed", kept)
    assert result.exit_code == Exit.DIFFERENCE
    assert "GR721" in result.stderr
    assert "user/bad.wrong" in result.stderr
    assert not (tmp_path / "out.onnx").exists()
    assert everything(kept) == ["model.onnx"]


LOOP = """<ir_version: 8, opset_import: ["" : 17]>
loops (float[N, 3] x, int64 n) => (float[N, 3] y, float[K, N, 3] z)
{
   c = Constant <value = bool {1}> ()
   y, z = Loop (n, c, x) <body = b (int64 i, bool k, float[N, 3] s) => (bool k2, float[N, 3] s2, float[N, 3] o) {
      k2 = Identity (k)
      a = Identity (s)
      s2 = Add (a, x)
      o = Identity (s2)
   }>
}"""


def test_nodes_in_the_body_of_a_loop_fall(tmp_path: Path) -> None:
    result = gerules("rewrite", write_model(tmp_path, LOOP), "-o", tmp_path / "out.onnx")
    assert result.exit_code == Exit.DONE, result.output
    assert "6 -> 5" in result.output


@pytest.mark.parametrize("target", ["ascend", "generic"])
def test_operators_of_classical_machine_learning_run_on_the_host(target: str, tmp_path: Path) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 3]>
    g (float[N, 4] x) => (float[N, 4] y) { a = ai.onnx.ml.Normalizer <norm = "L2"> (x) y = Relu(a) }"""
    result = gerules("compile", write_model(tmp_path, text), "--target", target, "-o", tmp_path / "out")
    assert result.exit_code == Exit.DONE, result.output


def test_a_sparse_initializer_goes_into_its_partition(tmp_path: Path) -> None:
    proto = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]> g (float[4] x) => (float[4] y) { y = Add(x, w) }"""
    )
    values = onnx.numpy_helper.from_array(np.ones(2, np.float32), "w")
    places = onnx.numpy_helper.from_array(np.array([0, 2]), "w_places")
    proto.graph.sparse_initializer.append(onnx.helper.make_sparse_tensor(values, places, [4]))
    onnx.save(proto, tmp_path / "sparse.onnx")
    result = gerules("compile", tmp_path / "sparse.onnx", "--target", "generic", "-o", tmp_path / "out")
    assert result.exit_code == Exit.DONE, result.output


def test_a_wrong_rule_that_makes_no_node_is_named_too(tmp_path: Path) -> None:
    rules = write_text(tmp_path, "bad.rules", "opset ai.onnx 17\nrewrite wrong: Relu(Sigmoid(x)) => x\n")
    for command in (["rewrite", "-o", tmp_path / "out.onnx"], ["compile", "--target", "generic", "-o", tmp_path / "d"]):
        result = gerules(*command, write_model(tmp_path), "--rules", rules)
        assert result.exit_code == Exit.DIFFERENCE
        assert "user/bad.wrong" in result.stderr and "instead of" in result.stderr
        assert everything(tmp_path) == ["bad.rules", "model.onnx"]


# ------------------------------------------------------------------------------------------------ compile and partition


def run_partitions(out: Path, manifest: dict, feeds: dict) -> dict:  # type: ignore[type-arg]
    values = dict(feeds)
    for cluster in manifest["clusters"]:
        got = session(out / cluster["file"]).run(cluster["outputs"], {k: values[k] for k in cluster["inputs"]})
        values.update(zip(cluster["outputs"], got, strict=True))
    return values


@pytest.mark.parametrize("target", ["ascend", "generic"])
@pytest.mark.parametrize("command", ["compile", "partition"])
def test_the_folder_is_complete_and_runs(command: str, target: str, tmp_path: Path) -> None:
    model, out = write_model(tmp_path), tmp_path / "out"
    result = gerules(command, model, "--target", target, "-o", out)
    assert result.exit_code == Exit.DONE, result.output
    manifest = json.loads((out / "manifest.json").read_text())
    jsonschema.validate(manifest, SCHEMA)
    assert everything(out) == sorted(
        ["manifest.json", "model.onnx", "timing.json", *(c["file"] for c in manifest["clusters"])]
    )
    feeds = {n: np.random.default_rng(k).standard_normal((3, 64), np.float32) for k, n in enumerate("xy")}
    want = session(model).run(["z"], feeds)[0]
    np.testing.assert_array_equal(session(out / "model.onnx").run(["z"], feeds)[0], want)
    np.testing.assert_array_equal(run_partitions(out, manifest, feeds)["z"], want)
    assert manifest["cost"]["after"] <= manifest["cost"]["before"]
    assert sum(len(c["nodes"]) for c in manifest["clusters"]) == manifest["nodes"]["after"]
    if command == "partition":
        assert names(out / "model.onnx") == names(model)
        assert manifest["rules_fired"] == {}


def test_border_nodes_merge_back_byte_for_byte(tmp_path: Path) -> None:
    model, out = write_model(tmp_path, BODIES), tmp_path / "out"
    assert gerules("compile", model, "--target", "ascend", "--border-nodes", "-o", out).exit_code == Exit.DONE
    whole = (out / "model.onnx").read_bytes()
    (out / "model.onnx").unlink()
    (out / "manifest.json").unlink()
    assert gerules("merge", out, "-o", tmp_path / "whole.onnx").exit_code == Exit.DONE
    assert (tmp_path / "whole.onnx").read_bytes() == whole


def test_plain_partitions_cannot_be_merged(tmp_path: Path) -> None:
    gerules("partition", write_model(tmp_path), "--target", "generic", "-o", tmp_path / "out")
    result = gerules("merge", tmp_path / "out", "-o", tmp_path / "whole.onnx")
    assert result.exit_code == Exit.REFUSED
    assert "GR657" in result.stderr
    assert not (tmp_path / "whole.onnx").exists()


def test_placement_is_written_into_the_model(tmp_path: Path) -> None:
    gerules("compile", write_model(tmp_path), "--target", "generic", "-o", tmp_path / "out")
    for node in onnx.load(tmp_path / "out" / "model.onnx").graph.node:
        said = {p.key: p.value for p in node.metadata_props}
        assert said["gerules.placed_engine"] in ("Npu", "Gpu", "Cpu")
        assert said["gerules.cluster"].isdigit()


def test_a_pin_is_held_and_an_impossible_one_refused(tmp_path: Path) -> None:
    model = write_model(tmp_path)
    pinned = onnx.load(model)
    pinned.graph.node[3].metadata_props.add(key="gerules.engine", value="AiCpu")
    onnx.save(pinned, model)
    assert gerules("compile", model, "--target", "ascend", "-o", tmp_path / "out").exit_code == Exit.DONE
    placed = {
        n.name: {p.key: p.value for p in n.metadata_props}["gerules.placed_engine"]
        for n in onnx.load(tmp_path / "out" / "model.onnx").graph.node
    }
    assert placed["mul"] == "AiCpu"
    pinned.graph.node[3].metadata_props[0].value = "AiCore"
    onnx.save(pinned, model)
    for command in ("compile", "partition"):
        result = gerules(command, model, "--target", "ascend", "-o", tmp_path / command)
        assert result.exit_code == Exit.REFUSED
        assert "GR712" in result.stderr and "mul" in result.stderr
    pinned.graph.node[3].metadata_props[0].value = "AiCorr"
    onnx.save(pinned, model)
    result = gerules("partition", model, "--target", "ascend", "-o", tmp_path / "out2")
    assert result.exit_code == Exit.REFUSED
    assert "GR711" in result.stderr and "AiCore" in result.stderr


def test_a_difference_of_partitions_keeps_what_was_made(tmp_path: Path) -> None:
    model, rules = write_model(tmp_path), write_text(tmp_path, "bad.rules", WRONG_RULES)
    out, kept = tmp_path / "out", tmp_path / "kept"
    result = gerules("compile", model, "--target", "generic", "--rules", rules, "-o", out, "--keep-failed", kept)
    assert result.exit_code == Exit.DIFFERENCE
    assert "user/bad.wrong" in result.stderr
    assert not out.exists()
    assert "model.onnx" in everything(kept)
    assert json.loads((kept / "manifest.json").read_text())["validation"]["ok"] is False


# ------------------------------------------------------------------------------------------------------- destinations


def test_an_existing_destination_is_refused_without_force(tmp_path: Path) -> None:
    model, out = write_model(tmp_path), write_text(tmp_path, "out.onnx", "precious")
    result = gerules("rewrite", model, "-o", out)
    assert result.exit_code == Exit.USAGE
    assert out.read_text() == "precious"
    assert "--force" in result.stderr
    assert gerules("rewrite", model, "-o", out, "--force").exit_code == Exit.DONE
    assert names(out)


def test_a_filled_folder_is_refused_without_force_and_replaced_whole_with_it(tmp_path: Path) -> None:
    model, out = write_model(tmp_path), tmp_path / "out"
    out.mkdir()
    write_text(out, "old.txt", "precious")
    for command in ("compile", "partition"):
        assert gerules(command, model, "--target", "generic", "-o", out).exit_code == Exit.USAGE
    assert everything(out) == ["old.txt"]
    assert gerules("partition", model, "--target", "generic", "-o", out, "--force").exit_code == Exit.DONE
    assert "old.txt" not in everything(out)


def test_what_differs_goes_to_a_folder_of_its_own(tmp_path: Path) -> None:
    model, filled = write_model(tmp_path), tmp_path / "filled"
    filled.mkdir()
    write_text(filled, "old.txt", "precious")
    for folder in (filled, tmp_path / "out"):
        result = gerules("rewrite", model, "-o", tmp_path / "out", "--keep-failed", folder)
        assert result.exit_code == Exit.USAGE
    assert everything(tmp_path) == ["filled/old.txt", "model.onnx"]


def test_the_output_may_not_be_the_input(tmp_path: Path) -> None:
    model = write_model(tmp_path)
    before = model.read_bytes()
    assert gerules("rewrite", model, "-o", model, "--force").exit_code == Exit.USAGE
    assert gerules("compile", model, "--target", "generic", "-o", tmp_path, "--force").exit_code == Exit.USAGE
    assert model.read_bytes() == before


# --------------------------------------------------------------------------------------------------------- bad flags


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["compile", "MODEL", "--target", "ascent", "-o", "out"], "ascend"),
        (["partition", "MODEL", "--target", "none.rules", "-o", "out"], "generic"),
        (["rewrite", "MODEL", "--schedule", "standart", "-o", "out"], "standard"),
        (["rewrite", "MODEL", "--enable", "cleanup.drop_identitty", "-o", "out"], "cleanup.drop_identity"),
        (["rewrite", "MODEL", "--disable", "nonsense", "-o", "out"], "GR702"),
        (["rewrite", "MODEL", "--dim", "N=9..3", "-o", "out"], "GR302"),
        (["rewrite", "MODEL", "--likely", "N", "--at", "N=x", "-o", "out"], "GR305"),
        (["rewrite", "MODEL", "--seed", "x", "-o", "out"], "GR705"),
        (["rewrite", "MODEL", "--seed", "²", "-o", "out"], "GR705"),
        (["rewrite", "MODEL", "--time-limit", "nan", "-o", "out"], "GR706"),
        (["rewrite", "MODEL", "--time-limit", "0", "-o", "out"], "time-limit"),
        (["rewrite", "MODEL"], "--output"),
        (["compile", "MODEL", "-o", "out"], "--target"),
        (["rewrit", "MODEL"], "rewrit"),
    ],
)
def test_a_command_line_that_cannot_be_understood(arguments: list[str], said: str, tmp_path: Path) -> None:
    model = write_model(tmp_path)
    words = [str(model) if a == "MODEL" else str(tmp_path / a) if a == "out" else a for a in arguments]
    result = gerules(*words)
    assert result.exit_code == Exit.USAGE
    assert said in result.stderr
    assert everything(tmp_path) == ["model.onnx"]


def test_sizes_that_break_a_promise_are_refused(tmp_path: Path) -> None:
    result = gerules("rewrite", write_model(tmp_path), "--dim", "N=2..4", "--at", "N=9", "-o", tmp_path / "out.onnx")
    assert result.exit_code == Exit.REFUSED
    assert "N=2..4" in result.stderr
    assert not (tmp_path / "out.onnx").exists()


def test_errors_as_json(tmp_path: Path) -> None:
    result = gerules("compile", write_model(tmp_path), "--target", "nowhere", "-o", tmp_path / "out", "--json")
    assert [d["code"] for d in json.loads(result.stdout)["diagnostics"]] == ["GR701"]


# -------------------------------------------------------------------------------------------------- faults of our own


def test_a_fault_of_gerules_says_how_to_report_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(rewriting, "rules_of", broken)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    result = gerules("rewrite", write_model(tmp_path), "-o", tmp_path / "out.onnx")
    assert result.exit_code == Exit.INTERNAL
    assert "GR999" in result.stderr and "report it" in result.stderr
    [trace] = tmp_path.glob("gerules-fault-*.txt")
    assert "RuntimeError: a bug" in trace.read_text()


def test_an_interrupt_ends_without_a_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(rewriting, "rules_of", interrupted)
    result = gerules("rewrite", write_model(tmp_path), "-o", tmp_path / "out.onnx")
    assert result.exit_code == 130
    assert everything(tmp_path) == ["model.onnx"]


# ------------------------------------------------------------------------------------------------------------- check


def test_check_says_that_all_is_well(tmp_path: Path) -> None:
    result = gerules("check", write_text(tmp_path, "my.rules", GATE_RULES), "--no-examples")
    assert result.exit_code == Exit.DONE, result.output
    assert "1 files, 1 rules" in result.output


def test_check_runs_the_examples(tmp_path: Path) -> None:
    result = gerules("check", write_text(tmp_path, "my.rules", GATE_RULES))
    assert result.exit_code == Exit.DONE, result.output
    assert "1 examples" in result.output
    wrong = GATE_RULES + "example relu_sigmoid: Relu(Sigmoid(x: f32[M, N])) => Tanh(x)\n"
    result = gerules("check", write_text(tmp_path, "wrong.rules", wrong), "--json")
    assert result.exit_code == Exit.REFUSED
    assert [d["code"] for d in json.loads(result.stdout)["diagnostics"]] == ["GR570"]


FAULTY = """opset ai.onnx 17
rewrite one: Relu(Relux(x)) => Relu(x)
rewrite two: Relu(x) => Relu(y)
rewrite three: Relu(x) => x when x.rank = 1
"""


def test_check_reports_every_mistake(tmp_path: Path) -> None:
    result = gerules("check", write_text(tmp_path, "bad.rules", FAULTY))
    assert result.exit_code == Exit.REFUSED
    for line in ("bad.rules:2", "bad.rules:3", "bad.rules:4"):
        assert line in result.stderr
    assert "^" in result.stderr


def test_check_for_programs_and_for_code_hosts(tmp_path: Path) -> None:
    rules = write_text(tmp_path, "bad.rules", FAULTY)
    found = json.loads(gerules("check", rules, "--json").stdout)["diagnostics"]
    assert {d["range"]["line"] for d in found if d["severity"] == "error"} == {2, 3, 4}
    lines = gerules("check", rules, "--github").stdout.splitlines()
    assert sum(line.startswith("::error file=") for line in lines) >= 3


NOT_YET = """opset ai.onnx 17
deny sigmoid: "a Sigmoid" when Sigmoid(x)
table heavy(f: op) from "heavy.csv"
study limits: vary seed in 1..5
rewrite relu: Relu(Sigmoid(x)) => Sigmoid(x) when heavy(Relu)
"""


def test_what_is_not_run_yet_is_named(tmp_path: Path) -> None:
    rules = write_text(tmp_path, "later.rules", NOT_YET)
    result = gerules("check", rules)
    assert result.exit_code == Exit.DONE
    for code in ("GR190", "GR191", "GR194"):
        assert f"warning {code}" in result.stderr
    result = gerules("rewrite", write_model(tmp_path), "--rules", rules, "-o", tmp_path / "out.onnx", "--json")
    assert result.exit_code == Exit.DONE
    notes = "\n".join(json.loads(result.stdout)["notes"])
    for code in ("GR190", "GR191", "GR194"):
        assert code in notes


def test_check_of_nothing(tmp_path: Path) -> None:
    result = gerules("check", tmp_path / "none.rules")
    assert result.exit_code == Exit.REFUSED
    assert "GR115" in result.stderr


def test_help_shows_examples() -> None:
    for command in ((), ("compile",), ("rewrite",), ("partition",), ("merge",), ("check",)):
        result = gerules(*command, "--help")
        assert result.exit_code == Exit.DONE
        assert "Example" in result.output

"""`pytest --gerules`: examples as tests, rules as tests, in the habits of pytest."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.metadata import entry_points
from pathlib import Path
from xml.etree import ElementTree

import egglog.bindings  # noqa: F401  # runs inside of this process forget what they import, and NumPy cannot come twice
import pytest

import gerules.pipeline.checking
import gerules.verify.examples
import gerules.verify.run

pytest_plugins = ["pytester"]

RULES = """\
opset ai.onnx 17

"A sigmoid is never negative."
rewrite relu_sigmoid: Relu(Sigmoid(x)) => Sigmoid(x)
example relu_sigmoid: Relu(Sigmoid(x: f32[M, N])) => Sigmoid(x)
example relu_sigmoid: Relu(Sigmoid(x: f32[M])) => Sigmoid(x)

"Not true."
rewrite wrong: Relu(Sigmoid(x)) => Relu(x)
example wrong: Relu(Sigmoid(x: f32[M, N])) => Relu(x)
"""
BROKEN = 'opset ai.onnx 17\n"No arrow."\nrewrite b: Relu(Sigmoid(x)) = Relu(x)\n'
INSTALLED = any(point.value == "gerules.pytest_plugin" for point in entry_points(group="pytest11"))
PLUGIN = () if INSTALLED else ("-p", "gerules.pytest_plugin")


@pytest.fixture
def rules(pytester: pytest.Pytester) -> Path:
    """A folder with a rule file, and a test of Python beside it."""
    folder = pytester.mkdir("rules")
    (folder / "my.rules").write_text(RULES)
    (folder / "test_python.py").write_text("def test_python():\n    pass\n")
    return folder


def run(pytester: pytest.Pytester, *words: str) -> pytest.RunResult:
    return pytester.runpytest_inprocess(*PLUGIN, "-p", "no:cacheprovider", *words)


def test_the_package_brings_the_plugin() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    assert project["project"]["entry-points"]["pytest11"] == {"gerules": "gerules.pytest_plugin"}


def test_without_the_option_nothing_is_collected_and_nothing_imported(rules: Path) -> None:
    code = (
        "import sys, pytest; status = pytest.main(sys.argv[1:]);"
        "print(*sorted(m for m in sys.modules if m.split('.')[0] in ('gerules', 'numpy', 'onnx', 'egglog', 'z3')));"
        "sys.exit(status)"
    )
    words = [*PLUGIN, "-p", "no:cacheprovider", "-q", "rules"]
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, cwd=rules.parent)
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout
    assert done.stdout.splitlines()[-1] == "gerules gerules.pytest_plugin"


def test_every_example_is_a_test(pytester: pytest.Pytester, rules: Path) -> None:
    done = run(pytester, "--gerules", "rules", "-v")
    done.assert_outcomes(passed=3, failed=1)
    done.stdout.fnmatch_lines_random(
        [
            "rules/my.rules::user/my.relu_sigmoid::example 1 (line 5) PASSED*",
            "rules/my.rules::user/my.relu_sigmoid::example 2 (line 6) PASSED*",
            "rules/my.rules::user/my.wrong::example 1 (line 10) FAILED*",
        ]
    )
    done.stdout.fnmatch_lines(
        [
            "rules/my.rules:10:1: error GR570: example of user/my.wrong: the simulator finds that the two sides differ",
            "  10 | example wrong: *",
            "  hint: seed 0: *",
        ]
    )
    done.stdout.no_fnmatch_line("*Traceback*")
    assert not (rules / "VERDICTS.json").exists()


@pytest.mark.parametrize(
    ("words", "passed", "failed"),
    [
        (("rules/my.rules", "-k", "relu_sigmoid"), 2, 0),
        (("rules/my.rules::user/my.relu_sigmoid",), 2, 0),
        (("rules/my.rules::user/my.wrong::example 1 (line 10)",), 0, 1),
        (("rules", "-m", "gerules"), 2, 1),
        (("rules", "-m", "not gerules"), 1, 0),
        (("rules/my.rules", "rules/test_python.py"), 3, 1),
        (("rules", "--ignore=rules/my.rules"), 1, 0),
    ],
)
def test_tests_are_chosen_as_always(
    pytester: pytest.Pytester, rules: Path, words: tuple[str, ...], passed: int, failed: int
) -> None:
    run(pytester, "--gerules", "--strict-markers", *words).assert_outcomes(
        passed=passed, failed=failed, deselected=None
    )


def test_collection_alone(pytester: pytest.Pytester, rules: Path) -> None:
    done = run(pytester, "--gerules-verify", "--collect-only", "-q", "rules/my.rules")
    assert done.outlines[:5] == [
        "rules/my.rules::user/my.relu_sigmoid::example 1 (line 5)",
        "rules/my.rules::user/my.relu_sigmoid::example 2 (line 6)",
        "rules/my.rules::user/my.relu_sigmoid::verify",
        "rules/my.rules::user/my.wrong::example 1 (line 10)",
        "rules/my.rules::user/my.wrong::verify",
    ]


def test_a_broken_file_is_an_error_of_collection_and_the_others_go_on(pytester: pytest.Pytester, rules: Path) -> None:
    (rules / "sub").mkdir()
    (rules / "sub" / "broken.rules").write_text(BROKEN)
    done = run(pytester, "--gerules", "--continue-on-collection-errors", "rules")
    done.assert_outcomes(passed=3, failed=1, errors=1)
    done.stdout.fnmatch_lines(
        [
            "*ERROR collecting rules/sub/broken.rules*",
            "rules/sub/broken.rules:3:29: error GR104: *",
            "  3 | rewrite b: *",
            "  hint: *",
        ]
    )


def test_files_of_a_folder_know_each_other(pytester: pytest.Pytester, rules: Path) -> None:
    (rules / "names.rules").write_text("opset ai.onnx 17\nclass Bent = Relu | Sigmoid\n")
    (rules / "my.rules").write_text(
        'opset ai.onnx 17\n"Nothing changes."\nrewrite bent[f in Bent]: f(Identity(x)) => f(x)\n'
        "example bent: Relu(Identity(x: f32[M])) => Relu(x)\n"
    )
    run(pytester, "--gerules", "rules", "-m", "gerules").assert_outcomes(passed=1, deselected=1)
    # What rests on a broken file has an error of its own.
    (rules / "names.rules").write_text("opset ai.onnx 17\nclass Bent = = Relu\n")
    done = run(pytester, "--gerules", "rules", "-m", "gerules")
    done.assert_outcomes(errors=2, deselected=1)
    done.stdout.fnmatch_lines(
        [
            "rules/my.rules:3:19: error GR130: unknown operator Bent",
            "  hint: what rules/names.rules declares is not known, since it has errors",
        ]
    )


def test_what_check_warns_of_is_a_warning(pytester: pytest.Pytester, rules: Path) -> None:
    (rules / "my.rules").write_text("opset ai.onnx 17\nrewrite bare: Relu(Sigmoid(x)) => Sigmoid(x) when 1 == 1\n")
    done = run(pytester, "--gerules", "rules/my.rules")
    done.stdout.fnmatch_lines(["*GerulesWarning: rules/my.rules:2:*: warning GR144: this condition always holds"])


def test_every_rule_is_a_test(pytester: pytest.Pytester, rules: Path) -> None:
    done = run(pytester, "--gerules-verify", "rules/my.rules", "--junitxml=j.xml", "--gerules-trials=50")
    done.assert_outcomes(passed=3, failed=2)
    done.stdout.fnmatch_lines(
        [
            "rules/my.rules:9:1: error GR592: user/my.wrong is refuted: *",
            "user/my.wrong: the one element is 0.5 on the left, 0.0 on the right",
            "  x: f32[[]] = 0.0",
            "gerules: 1 refuted, 1 tested",
        ]
    )
    suite = ElementTree.parse(pytester.path / "j.xml").getroot()
    cases = {(c.get("classname"), c.get("name")): c for c in suite.iter("testcase")}
    properties = cases["rules.my.rules.user/my.relu_sigmoid", "verify"].iter("property")
    assert {p.get("name"): p.get("value") for p in properties}["gerules_verdict"] == "tested"
    assert not (rules / "VERDICTS.json").exists()
    assert not (rules / "witnesses").exists()


def test_current_verdicts_are_taken(pytester: pytest.Pytester, rules: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = RULES[: RULES.index('"Not true."')]
    (rules / "my.rules").write_text(text)
    gerules.verify.run.verify_rules([rules], inline=True, trials=200)
    kept = (rules / "VERDICTS.json").read_bytes()
    monkeypatch.setattr(gerules.verify.run.Pool, "run", None)  # nothing may be worked out
    run(pytester, "--gerules-verify", "rules", "-m", "gerules").assert_outcomes(passed=3, deselected=1)
    assert (rules / "VERDICTS.json").read_bytes() == kept
    (rules / "VERDICTS.json").write_text("{")
    done = run(pytester, "--gerules-verify", "rules", "-m", "gerules")
    done.assert_outcomes(passed=2, failed=1, deselected=1)
    done.stdout.fnmatch_lines(["*VERDICTS.json: error GR593: this is no file of verdicts*"])


def test_a_rule_of_which_nothing_is_known_is_skipped(pytester: pytest.Pytester, rules: Path) -> None:
    done = run(
        pytester, "--gerules-verify", "rules/my.rules", "-k", "relu_sigmoid and verify", "--gerules-seconds=1e-9", "-rs"
    )
    done.assert_outcomes(skipped=1, deselected=4)
    done.stdout.fnmatch_lines(["*of user/my.relu_sigmoid nothing is known: not through within 1e-09 seconds"])


@pytest.mark.parametrize("words", ["--gerules-seconds=nan", "--gerules-seconds=0", "--gerules-trials=0"])
def test_options_that_make_no_sense(pytester: pytest.Pytester, rules: Path, words: str) -> None:
    done = run(pytester, "--gerules-verify", words, "rules")
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines([f"ERROR: {words.partition('=')[0]} *"])


def test_the_last_failures_and_two_processes(pytester: pytest.Pytester, rules: Path) -> None:
    done = pytester.runpytest_subprocess(*PLUGIN, "--gerules", "-n2", "rules/my.rules")
    done.assert_outcomes(passed=2, failed=1)
    done = pytester.runpytest_subprocess(*PLUGIN, "--gerules", "--lf", "rules/my.rules")
    done.assert_outcomes(failed=1, deselected=2)

"""`gerules verify` end to end: statuses, files, reports for people and programs, and what goes wrong around it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest
from cli_helpers import everything, gerules, write_text

from gerules.verify import writing

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "verify.schema.json").read_text())

TRUE = """opset ai.onnx 17

"Two transpositions are one."
rewrite back: Transpose(Transpose(x, perm=[1, 0]), perm=[1, 0]) => x
example back: Transpose(Transpose(x: f32[M, N], perm=[1, 0]), perm=[1, 0]) => x

"A sigmoid is never negative."
rewrite relu_sigmoid: Relu(Sigmoid(x)) => Sigmoid(x)
"""
FALSE = """
"Not true."
rewrite wrong: Relu(Sigmoid(x)) => Relu(x)
"""
NEVER = """
"Of no tensor."
rewrite never: Relu(x) => x when x.rank > 3, x.rank < 2
"""
UNTRIED = """
op my.Twice(x: T) -> y: T
"Nothing says what it computes."
rewrite foreign: my.Twice(my.Twice(x)) => x
"""


def data_of(text: str) -> Any:
    """What a command printed as JSON, which is plain JSON and as the schema says."""
    data = json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    jsonschema.Draft202012Validator(SCHEMA).validate(data)
    return data


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


# ---------------------------------------------------------------------------------------------------------- verdicts


def test_true_rules_end_with_zero_and_their_verdicts_are_kept(tmp_path: Path) -> None:
    rules = write_text(tmp_path, "my.rules", TRUE)
    result = gerules("verify", rules, "--jobs", "1", "--trials", "30")
    assert result.exit_code == 0
    assert "user/my.back          proved " in result.stdout
    assert "user/my.relu_sigmoid  tested " in result.stdout
    assert "2 rewrites: 1 proved, 1 tested" in result.stdout
    assert everything(tmp_path) == ["VERDICTS.json", "my.rules"]
    kept = (tmp_path / "VERDICTS.json").read_bytes()

    again = gerules("verify", rules, "--json", "--trials", "30")
    data = data_of(again.stdout)
    assert again.exit_code == 0
    assert [rule["current"] for rule in data["rules"]] == [True, True]
    assert (data["counts"], data["written"]) == ({"proved": 1, "tested": 1}, [])
    assert (tmp_path / "VERDICTS.json").read_bytes() == kept


def test_every_verdict_in_one_report(tmp_path: Path) -> None:
    rules = write_text(tmp_path, "my.rules", TRUE + FALSE + NEVER + UNTRIED)
    xml = tmp_path / "new" / "report.xml"
    result = gerules("verify", rules, "--jobs", "1", "--trials", "30", "--json", "--junit", xml)
    assert result.exit_code == 1
    data = data_of(result.stdout)
    assert {rule["rule"]: rule["verdict"] for rule in data["rules"]} == {
        "user/my.back": "proved",
        "user/my.relu_sigmoid": "tested",
        "user/my.wrong": "refuted",
        "user/my.never": "unknown",
        "user/my.foreign": "unknown",
    }
    codes = {d["code"]: d for d in data["diagnostics"]}
    assert {code: d["severity"] for code, d in codes.items()} == {
        "GR592": "error",
        "GR598": "error",
        "GR596": "warning",
    }
    assert "applies to nothing" in codes["GR598"]["message"]
    assert "has no operator Twice" in codes["GR596"]["message"]
    refuted = next(rule for rule in data["rules"] if rule["verdict"] == "refuted")
    assert refuted["cases"][0]["witness"]["inputs"] == ["x: f32[] = [0.0]"]

    suites = ElementTree.parse(xml).getroot()
    assert {k: suites.get(k) for k in ("tests", "failures", "skipped")} == {
        "tests": "5",
        "failures": "2",
        "skipped": "1",
    }
    cases = {case.get("name"): case for case in suites.iter("testcase")}
    failure = cases["rewrite wrong"].find("failure")
    assert failure is not None and "x: f32[] = 0.0" in str(failure.text)
    assert cases["rewrite wrong"].get("line") == str(1 + (TRUE + FALSE).splitlines().index(FALSE.splitlines()[2]))

    (saved,) = data["witnesses"]
    assert sorted(everything(tmp_path / "witnesses")) == [
        "user-my.wrong.json",
        "user-my.wrong.left.onnxtxt",
        "user-my.wrong.right.onnxtxt",
    ]
    replayed = gerules("verify", "--replay", saved)
    assert replayed.exit_code == 3
    assert "simulator: the one element is 0.5 on the left, 0.0 on the right" in replayed.stdout
    shown = gerules("verify", "--replay", saved, "--json")
    assert (shown.exit_code, data_of(shown.stdout)["differs"]) == (3, True)


def test_annotations_for_a_code_host(tmp_path: Path) -> None:
    rules = write_text(tmp_path, "my.rules", TRUE + FALSE)
    result = gerules("verify", rules, "--rule", "wrong", "--jobs", "1", "--github", "--witness", tmp_path / "w")
    assert result.exit_code == 1
    assert result.stdout.startswith(f"::error file={rules},line=11,col=1,endLine=11,endColumn=43,title=GR592::")
    assert len(result.stdout.splitlines()) == 1
    assert everything(tmp_path / "w")[0] == "user-my.wrong.json"
    assert not (tmp_path / "witnesses").exists()


def test_comparing_writes_nothing_and_fails_where_verdicts_differ(tmp_path: Path) -> None:
    rules = write_text(tmp_path, "my.rules", TRUE)
    kept = tmp_path / "kept.json"
    flags = ("--rule", "back", "--jobs", "1", "--trials", "30", "--verdicts", kept)
    assert gerules("verify", rules, *flags).exit_code == 0
    same = gerules("verify", rules, *flags, "--compare")
    assert same.exit_code == 0, same.output
    text = kept.read_text()
    assert '"verdict": "proved"' in text
    kept.write_text(text.replace('"verdict": "proved"', '"verdict": "tested"'))
    before = {name: (tmp_path / name).read_bytes() for name in everything(tmp_path)}
    result = gerules("verify", rules, *flags, "--compare", "--json")
    assert result.exit_code == 1
    data = data_of(result.stdout)
    assert [d["code"] for d in data["diagnostics"]] == ["GR597"]
    assert len(data["differences"]) == 1
    assert {name: (tmp_path / name).read_bytes() for name in everything(tmp_path)} == before


def test_a_difference_found_by_comparing_saves_no_witness_unasked(tmp_path: Path) -> None:
    rules = write_text(tmp_path, "my.rules", TRUE + FALSE)
    assert gerules("verify", rules, "--rule", "wrong", "--jobs", "1", "--compare").exit_code == 1
    assert everything(tmp_path) == ["my.rules"]


def test_mutation(tmp_path: Path) -> None:
    text = 'opset ai.onnx 17\n"Nothing moves."\nrewrite still: Transpose(x, perm=p) => x when p == range(x.rank)\n'
    rules = write_text(tmp_path, "my.rules", text)
    result = gerules("verify", rules, "--mutate", "--jobs", "1", "--json")
    data = data_of(result.stdout)
    (rule,) = data["rules"]
    assert rule["killed"] >= 1
    assert result.exit_code == (1 if rule["survivors"] else 0)
    assert everything(tmp_path) == ["my.rules"]


# ------------------------------------------------------------------------------------------------- the command line


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "GR707: verify needs a PATH"),
        (("{rules}", "--rule", "bakc"), "GR595: --rule bakc: there is no such rule in these files"),
        (("{rules}", "--seconds", "nan"), "GR706: --seconds nan: this is no time"),
        (("{rules}", "--mutate", "--junit", "x.xml"), "GR708: --mutate knows no --junit"),
        (("{rules}", "--replay", "x.json"), "GR708: --replay knows no PATH"),
        (("{rules}", "--github", "--json"), "--json and --github do not go together"),
        (("{rules}", "--trials", "0"), "Invalid value for '--trials'"),
    ],
)
def test_a_command_line_that_cannot_be_understood(words: tuple[str, ...], said: str, tmp_path: Path) -> None:
    rules = write_text(tmp_path, "my.rules", TRUE)
    result = gerules("verify", *(word.format(rules=rules) for word in words))
    assert result.exit_code == 2
    assert said in result.output
    assert everything(tmp_path) == ["my.rules"]


@pytest.mark.parametrize(
    ("words", "code"),
    [(("{folder}/none.rules",), "GR115"), (("{folder}/broken.rules",), "GR104"), (("--replay", "{folder}/x"), "GR585")],
)
def test_files_that_cannot_be_read(words: tuple[str, ...], code: str, tmp_path: Path) -> None:
    write_text(tmp_path, "broken.rules", TRUE + "rewrite b: Relu(Sigmoid(x)) = Relu(x)\n")
    result = gerules("verify", *(word.format(folder=tmp_path) for word in words), "--json")
    assert result.exit_code == 1
    assert [d["code"] for d in data_of(result.stdout)["diagnostics"]] == [code]
    assert everything(tmp_path) == ["broken.rules"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("garbage", "this is no file of verdicts, line 1"),
        ('{"format": 99, "rules": {}}', "these verdicts have format 99, and this release reads up to 1"),
        (
            '{"format": 1, "versions": {}, "rules": {"user/my.b": {"kind": "rewrite"}}}',
            "this is no file of verdicts",
        ),
        ("[]", "this is no file of verdicts"),
    ],
)
@pytest.mark.parametrize("command", ["verify", "check"])
def test_a_registry_that_is_none_is_left_alone(command: str, text: str, said: str, tmp_path: Path) -> None:
    rules = write_text(tmp_path, "my.rules", TRUE)
    kept = write_text(tmp_path, "VERDICTS.json", text)
    result = gerules(command, rules)
    assert result.exit_code == 1
    assert f"error GR593: {said}" in result.output
    assert f"gerules verify {tmp_path}" in result.output or "use the release that wrote them" in result.output
    assert kept.read_text() == text


def test_verdicts_of_other_versions_are_worked_out_again(tmp_path: Path) -> None:
    rules = write_text(tmp_path, "my.rules", TRUE)
    flags = ("--rule", "back", "--jobs", "1", "--trials", "30")
    assert gerules("verify", rules, *flags).exit_code == 0
    kept = tmp_path / "VERDICTS.json"
    data = json.loads(kept.read_text())
    data["versions"]["egglog"] = "0.0.1"
    data["rules"]["user/my.back"]["key"] = "0" * 32
    kept.write_text(json.dumps(data))
    again = gerules("verify", rules, *flags, "--json")
    assert (again.exit_code, data_of(again.stdout)["rules"][0]["current"]) == (0, False)
    assert json.loads(kept.read_text())["versions"]["egglog"] != "0.0.1"


def test_what_was_found_is_told_although_nothing_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = write_text(tmp_path, "my.rules", TRUE + FALSE)

    def refuse(**options: Any) -> Any:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(writing.tempfile, "mkstemp", refuse)
    flags = ("--jobs", "1", "--trials", "30", "--junit", tmp_path / "report.xml")
    fine = gerules("verify", rules, "--rule", "back", *flags)
    assert fine.exit_code == 2
    assert "1 rewrite: 1 proved" in fine.stdout
    assert "error GR594: the verdicts cannot be written: Read-only file system" in fine.stderr
    assert "hint: name another file with --verdicts FILE" in fine.stderr
    assert "error GR594: the JUnit XML cannot be written" in fine.stderr
    wrong = gerules("verify", rules, "--rule", "wrong", *flags, "--json")
    assert wrong.exit_code == 1
    data = data_of(wrong.stdout)
    assert [d["code"] for d in data["diagnostics"]] == ["GR592", "GR594", "GR586", "GR594"]
    assert (data["counts"], data["written"], data["witnesses"]) == ({"refuted": 1}, [], [])
    assert [p.name for p in tmp_path.rglob("*") if p.is_file()] == ["my.rules"]


# ------------------------------------------------------------------------------------------------- in other processes


def outside(*words: str | Path, folder: Path, without: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Runs the command in a process where some packages are not installed, its own processes included."""
    extras = folder / "extras"
    extras.mkdir(exist_ok=True)
    (extras / "sitecustomize.py").write_text(f"import sys\nsys.modules.update(dict.fromkeys({without!r}))\n")
    return subprocess.run(
        [sys.executable, "-m", "gerules.cli.main", *map(str, words)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(extras)},
        cwd=folder,
    )


def test_without_the_extras_rules_are_tested_and_that_is_said_once(tmp_path: Path) -> None:
    write_text(tmp_path, "my.rules", TRUE + FALSE)
    done = outside("verify", "my.rules", "--jobs", "1", folder=tmp_path, without=("z3", "hypothesis"))
    assert done.returncode == 1
    assert done.stdout.count("z3 is not installed") == 1
    assert done.stdout.count("hypothesis is not installed, so witnesses are not shrunk") == 1
    assert "3 rewrites: 1 refuted, 2 tested" in done.stdout
    assert "Traceback" not in done.stderr
    # What was not proved for want of the prover is looked at again as soon as it is there.
    again = gerules("verify", tmp_path / "my.rules", "--rule", "back", "--jobs", "1")
    assert "1 rewrite: 1 proved" in again.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_an_interrupted_run_writes_nothing(tmp_path: Path) -> None:
    text = TRUE.replace("relu_sigmoid", "other")
    write_text(tmp_path, "my.rules", text)
    running = subprocess.Popen(
        [sys.executable, "-m", "gerules.cli.main", "verify", "my.rules", "--trials", "10000000", "--jobs", "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        start_new_session=True,
    )
    deadline = time.monotonic() + 120
    while not _children(running.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(running.pid, signal.SIGINT)  # as a terminal does: to all processes of the command
    out, err = running.communicate(timeout=120)
    assert (running.returncode, out, err) == (130, "", "interrupted; nothing was written\n")
    assert everything(tmp_path) == ["my.rules"]


def _children(pid: int) -> list[str]:
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True)
    return listed.stdout.split()


# ---------------------------------------------------------------------------------------------------- odd, but rules


def test_a_class_of_two_hundred_members(tmp_path: Path) -> None:
    members = " | ".join(f"my.F{k}" for k in range(200))
    text = "".join(f"op my.F{k}(x: T) -> y: T\n" for k in range(200))
    text += f'class Many = {members}\n"Twice is once."\nrewrite twice[f in Many]: f(f(x)) => f(x)\n'
    rules = write_text(tmp_path, "my.rules", text)
    result = gerules("verify", rules, "--jobs", "1", "--json")
    data = data_of(result.stdout)
    assert result.exit_code == 0
    assert (data["rules"][0]["verdict"], len(data["rules"][0]["cases"])) == ("unknown", 200)


def test_rules_that_take_too_long_are_unknown_and_the_next_goes_on(tmp_path: Path) -> None:
    rules = write_text(tmp_path, "my.rules", TRUE)
    result = gerules("verify", rules, "--jobs", "1", "--trials", "10000000", "--seconds", "2", "--json")
    data = data_of(result.stdout)
    assert result.exit_code == 0
    assert [(r["verdict"], r["detail"]) for r in data["rules"]] == [("unknown", "not through within 2 seconds")] * 2
    assert [(d["code"], d["severity"]) for d in data["diagnostics"]] == [("GR596", "warning")] * 2
    # Such a verdict is kept for who asks, and never counts as current.
    assert (tmp_path / "VERDICTS.json").read_text().count('"cut": true') == 2
    again = gerules("verify", rules, "--jobs", "1", "--rule", "back", "--trials", "20", "--json")
    assert data_of(again.stdout)["counts"] == {"proved": 1}

"""The file of verdicts: read as it was written, diffable, refused by name where it is broken."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gerules.errors import GerulesError, UsageFault
from gerules.verify.registry import (
    NAME,
    Recorded,
    Verdicts,
    home_of,
    nearest,
    read_verdicts,
    shipped_verdicts_path,
    write_verdicts,
)
from gerules.verify.verdict import CaseVerdict, RuleVerdict


def case(member: str, direction: str = "", status: str = "proved", **more: object) -> CaseVerdict:
    label = "user/a.r" + direction + (f"[{member}]" if member else "")
    found = CaseVerdict(label, member, direction, status, "all ranks, all sizes", 200, 210)  # type: ignore[arg-type]
    return replace(found, **more)  # type: ignore[arg-type]


CASES = (
    case("Add@7", all_ranks=True, all_sizes=True),
    case("Mul@7", all_ranks=True, all_sizes=True, drawn=250),
    case("Clip@6,Clip@11", ">", "tested", detail="200 trials"),
    case("Clip@6,Clip@11", "<", "tested", detail="200 trials"),
)
RULE = RuleVerdict("user/a.r", "rewrite", "defines", "tested", "at least 200 trials", "0123", CASES)
ALONE = RuleVerdict(
    "user/a.a",
    "fact",
    "",
    "unknown",
    "β is not known",
    "4567",
    (case("", label="user/a.a", status="unknown", seconds=1.5),),
)


def verdicts(*rules: Recorded) -> Verdicts:
    return Verdicts().with_rules(rules or (Recorded(RULE), Recorded(ALONE, trials=50, seed=3, prover=False, cut=True)))


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / NAME
    made = verdicts()
    assert write_verdicts(made, path)
    assert read_verdicts(path) == replace(made, path=path)
    assert not write_verdicts(made, path)


def test_one_rule_is_one_line_and_lines_are_sorted(tmp_path: Path) -> None:
    lines = verdicts().text().splitlines()
    named = [line for line in lines if line.startswith('"user/')]
    assert [line.split(":")[0] for line in named] == ['"user/a.a"', '"user/a.r"']
    data = json.loads("\n".join(lines))
    assert [g["members"] for g in data["rules"]["user/a.r"]["cases"]] == [
        ["Add@7", "Mul@7"],
        [">Clip@6,Clip@11", "<Clip@6,Clip@11"],
    ]
    assert "β" in named[0]


def test_seconds_alone_change_nothing() -> None:
    slow = replace(RULE, cases=(replace(CASES[0], seconds=9.0), *CASES[1:]))
    before = verdicts(Recorded(replace(RULE, cases=(replace(CASES[0], seconds=1.0), *CASES[1:]))))
    assert before.with_rules([Recorded(slow)]).text() == before.text()
    assert before.differences(verdicts(Recorded(slow))) == []


@pytest.mark.parametrize(
    "changed",
    [
        replace(RULE, key="89ab"),
        replace(RULE, status="proved"),
        replace(RULE, detail="other"),
        replace(RULE, cases=(*CASES[:3], replace(CASES[3], trials=199))),
        replace(RULE, cases=CASES[:3]),
    ],
)
def test_all_else_is_a_difference(changed: RuleVerdict) -> None:
    mine, theirs = verdicts(Recorded(RULE)), verdicts(Recorded(changed))
    assert len(mine.differences(theirs)) == 1
    assert mine.with_rules([Recorded(changed)]).text() != mine.text()


def test_rules_of_one_file_only_are_a_difference() -> None:
    assert verdicts(Recorded(RULE)).differences(Verdicts()) == ["user/a.r: only here"]
    assert Verdicts().differences(verdicts(Recorded(RULE))) == ["user/a.r: only there"]


@pytest.mark.parametrize(
    ("recorded", "asked", "serves"),
    [
        (Recorded(RULE), ("0123", 200, 0, True), True),
        (Recorded(RULE), ("other", 200, 0, True), False),
        (Recorded(RULE, trials=50), ("0123", 200, 0, True), False),
        (Recorded(RULE, trials=500), ("0123", 200, 0, True), True),
        (Recorded(RULE), ("0123", 200, 1, True), False),
        (Recorded(RULE, prover=False), ("0123", 200, 0, True), False),
        (Recorded(RULE, prover=False), ("0123", 200, 0, False), True),
        (Recorded(RULE, cut=True), ("0123", 200, 0, True), False),
    ],
)
def test_when_a_verdict_is_current(recorded: Recorded, asked: tuple[str, int, int, bool], serves: bool) -> None:
    assert recorded.serves(*asked) is serves


def test_a_rule_is_found_by_its_key_where_its_file_was_part_of_a_folder() -> None:
    nested = replace(RULE, rule="user/sub/a.r")
    made = verdicts(Recorded(nested))
    assert made.find("user/a.r", "0123") == Recorded(nested)
    assert made.find("user/a.r", "other") is None
    assert made.find("user/sub/a.r", "other") == Recorded(nested)


BROKEN = {
    "no JSON": "{",
    "another file": "[1, 2]",
    "no rules": '{"format": 1}',
    "a newer format": '{"format": 99, "versions": {}, "rules": {}}',
    "a verdict that there is not": verdicts().text().replace('"tested"', '"perhaps"'),
    "cases without members": verdicts().text().replace('"members"', '"m"'),
    "members without draws": verdicts().text().replace('"drawn": [210, 250]', '"drawn": [210]'),
    "no text": b"\xff\xfe",
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_a_broken_file_is_named(text: str | bytes, tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(GerulesError) as raised:
        read_verdicts(path)
    found = raised.value.diagnostics[0]
    assert found.code == "GR593" and found.file == str(path) and found.hint


def test_no_file_is_no_verdicts(tmp_path: Path) -> None:
    assert read_verdicts(tmp_path / NAME).rules == {}


def test_a_folder_in_the_way_is_a_users_mistake(tmp_path: Path) -> None:
    (tmp_path / NAME).mkdir()
    with pytest.raises(UsageFault) as raised:
        write_verdicts(verdicts(), tmp_path / NAME)
    assert raised.value.diagnostics[0].code == "GR594"
    assert list(tmp_path.iterdir()) == [tmp_path / NAME]


def test_where_verdicts_lie(tmp_path: Path) -> None:
    inner = tmp_path / "rules" / "sub"
    inner.mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    file = inner / "a.rules"
    file.write_text("")
    assert home_of(tmp_path / "rules") == tmp_path / "rules" / NAME
    assert home_of(file) == inner / NAME
    assert nearest(file) is None
    (tmp_path / "rules" / NAME).write_text("{}")
    assert home_of(file) == nearest(file) == tmp_path / "rules" / NAME
    assert home_of(shipped_verdicts_path().parent / "cleanup.rules") == shipped_verdicts_path()


def test_what_lies_above_a_repository_does_not_count(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text("{}")
    inner = tmp_path / "project"
    (inner / ".git").mkdir(parents=True)
    assert nearest(inner / "a.rules") is None

"""The published table: the class of every operator of all ordered pairs of eight releases."""

from __future__ import annotations

import csv
from collections import Counter
from itertools import pairwise

import pytest
from registries import DATA, between, of_pair, release, rules

from gerules.pipeline.diffing import CLASSES, compare
from gerules.policy.judging import FAILURES

COLUMNS = {name: name for name in CLASSES} | {"missing": "ops_missing_at_runtime"}


def rows() -> list[dict[str, str]]:
    with (DATA / "expected_pairs.csv").open() as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("row", rows(), ids=lambda row: f"{row['built']}-{row['runtime']}")
def test_classes_are_those_of_the_table(row: dict[str, str]) -> None:
    diff = compare(release(row["built"]), release(row["runtime"]), "ge", rules(), judged=False)
    assert diff.counts == {name: int(row[column]) for name, column in COLUMNS.items()}
    assert len(diff.operators) - diff.counts["missing"] == int(row["ops_common"])


def test_there_are_all_pairs() -> None:
    assert len(rows()) == 56


def test_the_class_does_not_depend_on_the_policy() -> None:
    one, other = release("v1.5.1"), release("v1.8.0")
    found = [
        {n: (o.class_, o.reason, o.changes) for n, o in compare(one, other, policy, rules()).operators.items()}
        for policy in ("ge", "strict", "default")
    ]
    assert found[0] == found[1] == found[2]


def test_ge_refuses_what_fails_and_nothing_else() -> None:
    diff = compare(release("v0.1.0-alpha"), release("v0.5.0-beta"), "ge", rules())
    refused = {o.class_ for o in diff.operators.values() if o.refusals}
    assert refused == {"missing", *FAILURES} - {"backward_adds_required"}
    assert all(bool(o.refusals) == (o.class_ in refused) for o in diff.operators.values())
    warned = [o for o in diff.operators.values() if o.class_ == "backward_adds_required"]
    assert warned and all(o.warnings for o in warned)


def test_the_default_policy_repairs_most_failures() -> None:
    diff = compare(release("v0.1.0-alpha"), release("v0.5.0-beta"), "default", rules())
    failed = [o for o in diff.operators.values() if o.class_ in FAILURES]
    good = [o for o in failed if not o.refusals]
    assert len(failed) == 84 and len(good) >= 62
    assert sum(bool(o.rule) for o in good) >= 58


def test_strict_accepts_what_is_the_same() -> None:
    diff = compare(release("v1.5.1"), release("v1.8.0"), "strict", rules())
    for found in diff.operators.values():
        same = found.class_ == "none" and not found.changes
        runtime = release("v1.8.0").operators[found.name]
        grown = len(runtime.outputs) > len(release("v1.5.1").operators[found.name].outputs)
        assert bool(found.refusals) == (not same or grown), found


def test_silent_changes_are_caught() -> None:
    """What the engine lets through although a default, a type or what is required changed: the default policy keeps the
    value, or refuses."""
    totals: Counter[str] = Counter()
    for built, runtime in (("v1.2.0", "v1.5.1"), ("v1.5.1", "v1.8.0"), ("v1.8.0", "v2.1.0")):
        default = compare(release(built), release(runtime), "default", rules())
        for name, found in default.operators.items():
            through = found.class_ in ("none", "forward", "backward")
            if not through or not any(c.what == "default" for c in found.changes):
                continue
            totals["silent"] += 1
            caught = bool(found.written or found.refusals)
            totals["caught"] += caught
            assert caught, (name, found)
    assert totals["silent"] == totals["caught"] > 0


def test_every_repair_fits_the_releases_it_names() -> None:
    """Each shipped rule leads the definition of a release that it is about to the next."""
    names = ["v0.1.0-alpha", "v0.5.0-beta", "v1.0.0", "v1.2.0", "v1.5.1", "v1.8.0", "v2.1.0", "v2.3.0"]
    used: set[str] = set()
    for built, runtime in [*pairwise(names), *pairwise(names[::-1])]:
        carrier = between(release(built), release(runtime))
        about = sorted({rule.source[0] for rule in carrier.lift.rules} & carrier.built.operators.keys())
        used.update(part.rule for found in carrier.minimal(about) for part in found.parts if part.rule)
    repairs = {n for n in rules().program.rewrites if n.startswith("compat/ge.")}
    # The results of GroupNorm are rewritten together; the rule of the first one gives its name.
    apart = {"compat/ge.group_norm", "compat/ge.group_norm_mean", "compat/ge.group_norm_variance"}
    assert repairs - apart == used - apart


@pytest.mark.parametrize(("built", "runtime"), [("v1.5.1", "v1.8.0"), ("v2.3.0", "v2.1.0")])
def test_the_table_in_the_documentation_is_what_comes_out(built: str, runtime: str) -> None:
    with (DATA.parents[2] / "docs" / "registries_pairs.csv").open() as file:
        rows = {(row.pop("built"), row.pop("runtime")): row for row in csv.DictReader(file)}
    assert len(rows) == 57
    counts = of_pair(built, runtime)
    assert rows[built, runtime] == {column: str(counts[column]) for column in rows[built, runtime]}

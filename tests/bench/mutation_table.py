"""What became of the mutants of every rewrite, rule by rule, kept between runs: the mutation table.

    python tests/bench/mutation_table.py [PATH ...] --store FILE [--rule NAME] [--trials N] [--open | --again] [--table]

Paths are rule files and folders (default: `rules`). Each rule's result is written to FILE as soon as it is there, under
the rule's key and its examples; a rule that is in FILE as it stands now is not tried again, unless one of its mutants
was left (`--open`) or everything is asked for (`--again`). `--table` only prints what FILE knows. What is left is
listed below the table with the reason. Seconds are those of the process.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from gerules.dsl import ast
from gerules.dsl.program import Entry, user_sources
from gerules.dsl.vocabulary import vocabulary
from gerules.egraph.program import Knowledge
from gerules.errors import GerulesError
from gerules.verify.keys import Keys
from gerules.verify.mutation import Effort, MutationResult, run_mutation
from gerules.verify.run import chosen_of, read_rules

Stored = dict[str, Any]


def key_of(keys: Keys, entry: Entry[ast.Rewrite]) -> str:
    """The rule's key, with its examples: mutants are looked for near these."""
    digest = hashlib.sha256(keys.key("rewrite", entry).encode())
    for example in keys.known.program.examples:
        if f"{example.ruleset}.{example.statement.name}" == entry.full:
            digest.update(repr(example.statement).encode())
    return digest.hexdigest()[:32]


def as_data(result: MutationResult, key: str, seconds: float) -> Stored:
    return {
        "key": key,
        "untried": result.untried,
        "seconds": round(seconds, 2),
        "mutants": [
            {
                "mutant": v.mutant.label,
                "what": v.mutant.what,
                "fate": v.fate,
                "how": v.how,
                "seconds": round(v.seconds, 2),
            }
            for v in result.verdicts
        ],
    }


def read(store: Path) -> dict[str, Stored]:
    return json.loads(store.read_text(encoding="utf-8")) if store.exists() else {}


def write(store: Path, found: Mapping[str, Stored]) -> None:
    draft = store.with_name(f"{store.name}.{os.getpid()}")
    draft.write_text(json.dumps(found, indent=1, ensure_ascii=False, sort_keys=True), encoding="utf-8")
    draft.replace(store)


def left(result: Stored) -> list[Stored]:
    return [m for m in result["mutants"] if m["fate"] == "survivor"]


def wanted(
    entries: Iterable[Entry[ast.Rewrite]], keys: Keys, found: Mapping[str, Stored], how: argparse.Namespace
) -> Iterator[tuple[Entry[ast.Rewrite], str]]:
    """The rules to try, with their keys: those that FILE does not know as they stand, or that are asked for again."""
    for entry in entries:
        key = key_of(keys, entry)
        known = found.get(entry.full)
        if how.again or known is None or known["key"] != key or (how.open and left(known)):
            yield entry, key


def sweep(known: Knowledge, entries: list[Entry[ast.Rewrite]], store: Path, how: argparse.Namespace) -> None:
    words = vocabulary(known.program)
    todo = list(wanted(entries, Keys(known), read(store), how))
    for number, (entry, key) in enumerate(todo, 1):
        started = time.process_time()
        try:
            judged = run_mutation(known, entry, Effort(trials=how.trials, draws=20 * how.trials), words)
        except GerulesError as fault:
            judged = MutationResult(entry.full, (), fault.diagnostics[0].message)
        result = as_data(judged, key, time.process_time() - started)
        found = read(store)  # another process may have written
        found[entry.full] = result
        write(store, found)
        open_ = len(left(result))
        print(
            f"{number}/{len(todo)} {entry.full}: {len(result['mutants'])} mutants, {open_} left, {result['seconds']} s",
            flush=True,
        )


def table(entries: list[Entry[ast.Rewrite]], keys: Keys, found: Mapping[str, Stored]) -> None:
    """A line a ruleset, a line for all, then what is left."""
    rows: dict[str, list[float]] = {}
    open_: list[str] = []
    for entry in entries:
        result = found.get(entry.full)
        row = rows.setdefault(entry.ruleset, [0, 0, 0, 0, 0, 0, 0, 0])
        row[0] += 1
        if result is None or result["key"] != key_of(keys, entry):
            row[6] += 1
            open_.append(f"{entry.full}: not tried as it stands")
            continue
        if result["untried"]:
            row[6] += 1
            open_.append(f"{entry.full}: cannot be tried: {result['untried']}")
        fates = [m["fate"] for m in result["mutants"]]
        bounded = sum(m["fate"] == "equivalent" and "bounded" in m["how"] for m in result["mutants"])
        for place, count in enumerate((len(fates), fates.count("killed"), fates.count("equivalent"), bounded), 1):
            row[place] += count
        row[5] += fates.count("survivor")
        row[7] += result["seconds"]
        open_ += [f"{m['mutant']}: {m['what']} ({m['how']})" for m in left(result)]
    head = ("ruleset", "rules", "mutants", "killed", "equivalent", "bounded", "survivors", "untried", "seconds")
    print(f"{head[0]:28}" + "".join(f"{name:>11}" for name in head[1:]))
    rows["all"] = [sum(column) for column in zip(*rows.values(), strict=True)]
    for name, row in rows.items():
        print(f"{name:28}" + "".join(f"{value:11.0f}" for value in row))
    total = rows["all"]
    if total[1] > total[3]:
        print(f"score {total[2] / (total[1] - total[3]):.2%}")
    print("\n".join(open_))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", nargs="*", default=["rules"])
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--rule")
    parser.add_argument("--trials", type=int, default=Effort().trials, help="fewer leave more mutants, and sooner")
    parser.add_argument("--open", action="store_true")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--table", action="store_true")
    how = parser.parse_args()
    given = [source for path in how.paths for source in user_sources(path)]
    _, known = read_rules(given)
    chosen = chosen_of(known.program, [g.display for g in given], how.rule)
    entries = [entry for kind, _, entry in chosen if kind == "rewrite"]
    if not how.table:
        sweep(known, entries, how.store, how)
    table(entries, Keys(known), read(how.store))


if __name__ == "__main__":
    main()

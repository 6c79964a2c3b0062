"""Whether verification is ever wrong about the shipped rules: all trials again, with other seeds.

    python -m tests.bench.seed_sweep [--seeds N] [--jobs N] [--store FILE]

Each rule is tried (not proved: a proof has no seed) with seeds 1 to N, as `gerules verify --seed` would. Prints for
each seed how many rules have which verdict, then every refutation. With a store, what is there for a rule's key and a
seed is not worked out again, so that after a change of some rules those alone are tried.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from gerules.dsl.program import Entry
from gerules.verify.assess import Settings, Tools, rule_detail, rule_status
from gerules.verify.case import cases_of
from gerules.verify.keys import Keys, statements
from gerules.verify.run import CHUNK, read_rules
from gerules.verify.verdict import CaseVerdict
from gerules.verify.workers import Pool, Unit, Verifying

LIMIT = 600.0
"""Seconds for a rule and a seed: a guard."""


@dataclass
class Store:
    """What was found before: `key seed` to a verdict and its detail. Kept after each seed."""

    path: Path | None
    found: dict[str, tuple[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.path is not None and self.path.exists():
            self.found = {k: (v[0], v[1]) for k, v in json.loads(self.path.read_text()).items()}

    def keep(self) -> None:
        if self.path is not None:
            self.path.write_text(json.dumps(self.found, indent=0, sort_keys=True))


def sweep(seeds: int, jobs: int, store: Store) -> list[str]:
    """Tries all rules with each seed; the refutations, as lines."""
    sources, known = read_rules([])
    keys = Keys(known)
    rules: list[tuple[str, str, str, Entry]] = [
        (kind, full, keys.key(kind, entry), entry) for kind, full, entry in statements(known.program)
    ]
    refuted: list[str] = []
    for seed in range(1, seeds + 1):
        started, units = time.monotonic(), []
        for kind, full, key, entry in rules:
            if f"{key} {seed}" in store.found:
                continue
            if kind != "rewrite":
                units.append(Unit(kind, full))
                continue
            count = sum(1 for _ in cases_of(known, entry))
            units += [Unit(kind, full, k, min(count, k + CHUNK)) for k in range(0, count, CHUNK)]
        cases: dict[str, list[CaseVerdict]] = {}

        def done(unit: Unit, found: list[CaseVerdict], ended: str, cases: dict[str, list[CaseVerdict]] = cases) -> None:
            cases.setdefault(unit.full, []).extend(found)
            if ended:
                cases[unit.full].append(CaseVerdict(unit.full, "", "", "unknown", ended))

        if units:
            Pool(sources, Verifying(Settings(seed=seed, prover=False), Tools()), jobs, LIMIT, done).run(units)
        for _, full, key, _ in rules:
            if full in cases:
                status = rule_status(cases[full])
                store.found[f"{key} {seed}"] = (status, rule_detail(cases[full], status))
        store.keep()
        counts: Counter[str] = Counter()
        for _, full, key, _ in rules:
            status, detail = store.found.get(f"{key} {seed}", ("nothing", ""))
            counts[status] += 1
            if status == "refuted":
                refuted.append(f"seed {seed}: {full}: {detail}")
        said = ", ".join(f"{counts[s]} {s}" for s in sorted(counts))
        print(f"seed {seed:2}: {said} ({len(cases)} tried now, {time.monotonic() - started:.0f} s)", flush=True)
    return refuted


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--store", type=Path)
    given = parser.parse_args()
    refuted = sweep(given.seeds, given.jobs, Store(given.store))
    print("\n".join(refuted) if refuted else "no rule is refuted with any seed")
    return 1 if refuted else 0


if __name__ == "__main__":
    sys.exit(main())

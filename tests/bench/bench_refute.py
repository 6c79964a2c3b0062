"""How long the mistakes in tests/data/verify/wrong take to be refuted, from the call, in one warm process.

    python tests/bench/bench_refute.py [FOLDER]

Prints for each rule the processor seconds of finding, of shrinking, and of the whole with its witness run once more,
the draws it took and the largest tensor of the witness; asserts nothing. Times are those of the process (user and
system), which other work on the machine disturbs less than a clock on the wall.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from gerules.dsl import ast
from gerules.dsl.program import Entry, load_program, shipped_sources, user_sources
from gerules.egraph.program import Knowledge, knowledge
from gerules.registry import onnx_registry
from gerules.static import known_functions
from gerules.verify.case import cases_of
from gerules.verify.replay import confirm
from gerules.verify.shrink import shrink
from gerules.verify.trials import plan_case, run_trials
from gerules.verify.witness import witness_of

WRONG = Path(__file__).parents[1] / "data" / "verify" / "wrong"


def measure(known: Knowledge, entry: Entry[ast.Rewrite]) -> tuple[str, float]:
    """One line for a rule, and the seconds of the whole."""
    started = time.process_time()
    for case in cases_of(known, entry):
        plan = plan_case(case, known)
        ran = run_trials(plan)
        if ran.refutation is None:
            continue
        found = time.process_time()
        small = shrink(plan, ran.refutation)
        shrunk = time.process_time()
        witness = witness_of(plan, small)
        ended = time.process_time()
        good = witness is not None and confirm(witness)
        size = witness.elements if witness is not None else 0
        times = f"{found - started:8.3f} {shrunk - found:8.3f} {ended - started:8.3f}"
        return f"{times} {ran.drawn:6} {size:4}  {'' if good else 'does not replay'}", ended - started
    return "                            not refuted", time.process_time() - started


def main(folder: Path) -> None:
    known = knowledge(load_program((*shipped_sources(), *user_sources(folder)), onnx_registry(), known_functions()))
    rules = [(name, entry) for name, entry in known.program.rewrites.items() if name.startswith("user/")]
    measure(known, rules[0][1])
    print(f"{'rule':28}{'found':>8} {'shrunk':>8} {'whole':>8} {'draws':>6} {'size':>4}")
    seconds = []
    for name, entry in rules:
        line, spent = measure(known, entry)
        seconds.append(spent)
        print(f"{name.partition('.')[2]:28}{line}")
    print(f"{len(rules)} rules, the slowest {max(seconds):.3f} s, together {sum(seconds):.3f} s")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else WRONG)

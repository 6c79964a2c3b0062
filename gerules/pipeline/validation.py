"""The verdict on a result, and what happens when it is bad."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import onnx_ir as ir

from gerules.errors import Diagnostic, Difference, Refused, UsageFault
from gerules.partition.output import check_destination
from gerules.pipeline.options import Options
from gerules.pipeline.report import NOT_VALIDATED, Verdict
from gerules.pipeline.subject import Dimensions

if TYPE_CHECKING:
    from gerules.simulate import PartitionModel


def judge(
    original: ir.Model,
    candidate: ir.Model,
    options: Options,
    dimensions: Dimensions,
    *,
    made_by: Mapping[str, str] | None = None,
    fired: Iterable[str] = (),
    partitions: Sequence[PartitionModel] | None = None,
) -> Verdict:
    """Runs both on random inputs at the sizes of `--at`, or at two bindings that are found. `fired` are the rules that
    matched: where no new node is to blame, a rule replaced a value by another that was there, and they are suspected.

    Raises Difference (GR721) that names the first value that differs, its node and rules; Refused where the original
    cannot be run at all (GR720, GR4xx). With `validate=False` nothing is run.
    """
    if not options.validate:
        return NOT_VALIDATED
    from gerules.simulate.bindings import choose_bindings
    from gerules.simulate.validate import validate

    bindings = choose_bindings(original, dimensions.facts, dimensions.likely, dimensions.at)
    found = validate(
        original, candidate, bindings=bindings, seeds=options.seeds, provenance=made_by or {}, partitions=partitions
    )
    if found.differences:
        first = found.differences[0]
        # Shipped rules are tested, so the user's are suspected first.
        suspects = first.rules or tuple(sorted(fired, key=lambda rule: (not rule.startswith("user/"), rule)))
        rules = f"; no node is new, so by one of the rules {', '.join(suspects)}" if suspects != first.rules else ""
        switch = " ".join(f"--disable {rule}" for rule in suspects[:3])
        hint = "nothing was written; --keep-failed DIR keeps what was made"
        if switch:
            hint += f"; try {switch}"
        message = f"the result differs from the original{rules}: {first}"
        raise Difference(Diagnostic("GR721", message, node=first.node or first.value or None, hint=hint))
    if not found.ran:
        reason = found.notes[0] if found.notes else "it fails at every input that was tried"
        hint = "give sizes at which it runs (--at NAME=SIZE), or --no-validate to write the result unchecked"
        raise Refused(Diagnostic("GR720", f"nothing could be compared: {reason}", hint=hint))
    return Verdict.of(found)


def check_outputs(path: str | Path, out: str | Path, options: Options) -> None:
    """Before any work: whether the destination, and that of what differs, may be written. Raises UsageFault (GR659,
    GR704)."""
    check_destination(out, force=options.force, keep=[path])
    failed = options.keep_failed
    if failed is None:
        return
    check_destination(failed, force=options.force, keep=[path])
    if Path(failed).resolve() == Path(out).resolve():
        message = f"--keep-failed {failed} is the destination of the result"
        raise UsageFault(Diagnostic("GR704", message, hint="name another folder for what differs"))

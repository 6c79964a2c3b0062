"""`convert`: a model of some operator versions in, the same model of others out."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import onnx
import onnx.checker
import onnx_ir as ir

from gerules.errors import Diagnostic, Difference, Refused, UsageFault
from gerules.graph import save_model
from gerules.graph.external import uses_external_data
from gerules.graph.io import MAX_MODEL_BYTES, reload, source_of, to_proto
from gerules.pipeline.conversion import Converter
from gerules.pipeline.options import Options
from gerules.pipeline.report import Report
from gerules.pipeline.rewriting import made_counts
from gerules.pipeline.rules import CONVERT, Loaded, load_rules
from gerules.pipeline.subject import Clock, Dimensions, Subject, count_nodes
from gerules.pipeline.validation import check_outputs, judge
from gerules.registry import canonical_domain, onnx_registry

OLDEST = 7
"""The oldest opset of ai.onnx that can be asked for."""
NOTHING_COMPARED = "GR720"
OLDEST_IR = 3
"""The IR version since which models import operator versions."""
_WANTED = re.compile(r"(?:([A-Za-z_][\w.]*)=)?(\d+)\Z")


def wanted_versions(texts: tuple[str, ...]) -> dict[str, int]:
    """`17`, `ai.onnx.ml=3` -> {"": 17, "ai.onnx.ml": 3}. Raises UsageFault with every fault (GR801, GR802)."""
    registry = onnx_registry()
    found: dict[str, int] = {}
    faults: list[Diagnostic] = []
    for text in texts:
        match = _WANTED.match(text.strip())
        if match is None:
            faults.append(
                Diagnostic(
                    "GR801", f"--opset {text}: this is no version", hint="write `--opset 17` or `--opset ai.onnx.ml=3`"
                )
            )
            continue
        domain, version = canonical_domain(match[1] or ""), int(match[2])
        shown, newest = domain or "ai.onnx", registry.newest(domain)
        if newest is None:
            known = ", ".join(d or "ai.onnx" for d in registry.domains())
            faults.append(
                Diagnostic("GR802", f"--opset {text}: nobody knows the domain {shown}", hint=f"domains are {known}")
            )
        elif not (OLDEST if not domain else 1) <= version <= int(newest):
            least = OLDEST if not domain else 1
            faults.append(
                Diagnostic(
                    "GR801",
                    f"there is no opset {version} of {shown} to convert to",
                    hint=f"opsets of {shown} are {least} to {newest} with the installed onnx",
                )
            )
        elif found.setdefault(domain, version) != version:
            faults.append(Diagnostic("GR801", f"two opsets of {shown} are asked for: {found[domain]} and {version}"))
    if not texts:
        faults.append(Diagnostic("GR801", "no opset is asked for", hint="write `--opset 17`"))
    if faults:
        raise UsageFault(faults)
    return found


def convert_model(
    path: str | Path,
    out: str | Path,
    opset: int | Mapping[str, int],
    options: Options | None = None,
    *,
    ir_version: int | None = None,
) -> Report:
    """Converts the model at `path` to `opset` (of ai.onnx, or versions by domain) and writes the result to `out`.

    Raises UsageFault for versions that do not exist, Refused with every node that cannot be converted and why,
    Difference where validation finds one; then nothing was written (but what `keep_failed` asks for).
    """
    options = options or Options()
    asked = {"": opset} if isinstance(opset, int) else dict(opset)
    wanted = wanted_versions(tuple(f"{d}={v}" if d else str(v) for d, v in asked.items()))
    dimensions = Dimensions.of(options)
    check_outputs(path, out, options)
    clock = Clock()
    options.progress("reading the rules")
    with clock.stage("rules"):
        loaded = conversion_rules(options)
    options.progress("reading the model")
    with clock.stage("read"):
        subject = Subject.load(path, loaded.program, dimensions)
    before = count_nodes(subject.model)
    options.progress("converting")
    converter = Converter(subject, loaded, wanted, _ir_version(ir_version))
    outcome = converter.run()
    for stage, seconds in outcome.seconds.items():
        clock.add(stage, seconds)
    subject.promise(subject.model)
    with clock.stage("check"):
        _check(subject.model)
    original = reload(subject.model)
    verdict = judge(original, original, replace(options, validate=False), dimensions)
    if options.validate:
        options.progress("validating")
        with clock.stage("validate"):
            try:
                verdict = judge(
                    original, subject.model, options, dimensions, made_by=outcome.made_by, fired=outcome.fired
                )
            except Difference:
                if options.keep_failed is not None:
                    folder = Path(options.keep_failed)
                    folder.mkdir(parents=True, exist_ok=True)
                    save_model(subject.model, folder / "model.onnx", force=True)
                raise
            except Refused as refused:
                if any(d.code != NOTHING_COMPARED for d in refused.diagnostics):
                    raise
                # Operands of a node that come at run time are drawn at random, and may fit nowhere: what holds for the
                # conversion holds without numbers too, so it is written, and the report says what was not seen.
                verdict = replace(verdict, notes=tuple(f"not validated: {d.message}" for d in refused.diagnostics))
    options.progress("writing")
    with clock.stage("write"):
        save_model(subject.model, out, force=options.force)
    return Report(
        command="convert",
        output=str(out),
        nodes_before=before,
        nodes_after=count_nodes(subject.model),
        verdict=verdict,
        changed=outcome.changed or converter.moved,
        fired=outcome.fired,
        made=made_counts(subject.model, outcome.made_by),
        unproved=loaded.unproved(outcome.made_by.values()),
        stopped=outcome.stopped or "",
        iterations=outcome.iterations,
        seconds=clock.total(),
        notes=loaded.notes,
    )


def convert_bytes(data: bytes, opset: int) -> bytes:
    """A serialized model converted to an opset of ai.onnx, validated on numbers. Raises GerulesError to refuse."""
    with tempfile.TemporaryDirectory(prefix="gerules-") as folder:
        source, out = Path(folder) / "model.onnx", Path(folder) / "converted.onnx"
        source.write_bytes(data)
        convert_model(source, out, opset)
        return out.read_bytes()


def _check(model: ir.Model) -> None:
    """Raises Refused (GR813) where ONNX's checker has something against the result and nothing against the source."""
    made, source = to_proto(model), source_of(model)
    if uses_external_data(made) or made.ByteSize() > MAX_MODEL_BYTES:
        return  # the checker would look for files that are not written yet
    said = _fault(made)
    if said is None or source is None or _fault(source.original) is not None:
        return
    raise Refused(
        Diagnostic(
            "GR813",
            f"what was made is no valid model, though the source is one: {said}",
            hint="this is a fault of a version rule: --disable those that took part, and report it with the model",
        )
    )


def _fault(proto: onnx.ModelProto) -> str | None:
    try:
        onnx.checker.check_model(proto, full_check=True)
    except Exception as error:  # the checker raises several kinds
        return " ".join(str(error).split())[:300]
    return None


def _ir_version(version: int | None) -> int | None:
    """Raises UsageFault (GR803) for an IR version that does not exist, or is older than operator versions are."""
    if version is not None and not OLDEST_IR <= version <= onnx.IR_VERSION:
        raise UsageFault(
            Diagnostic(
                "GR803",
                f"--ir-version {version}: there is no such IR version to write",
                hint=f"IR versions are {OLDEST_IR} to {onnx.IR_VERSION} with the installed onnx",
            )
        )
    return version


def conversion_rules(options: Options) -> Loaded:
    """The rules of conversions: those of the schedule `convert`, rules that are definitions included."""
    return load_rules(
        options.rules,
        only_rules=options.only_rules,
        enable=(*options.enable, "defines"),
        disable=options.disable,
        schedule=CONVERT,
    )


__all__ = ["conversion_rules", "convert_bytes", "convert_model", "wanted_versions"]

"""The registries that the tests read, and nodes over them."""

from __future__ import annotations

import io
import lzma
import tarfile
from collections import Counter
from functools import cache
from pathlib import Path

from gerules.pipeline.diffing import Rules, compare, policy_rules
from gerules.policy import Policy
from gerules.policy.carry import Carrier
from gerules.policy.judging import FAILURES, POLICIES, REPAIRS, SIGNATURE
from gerules.registry.json_format import parse_release
from gerules.registry.release import Body, Literal, Port, Release, ReleaseAttribute, ReleaseOperator

DATA = Path(__file__).parents[1] / "data" / "ge_registry"


@cache
def texts() -> dict[str, str]:
    """Each release by the name of its file (`v1.8.0`), as it lies in the archive."""
    data = lzma.decompress((DATA / "releases.tar.xz").read_bytes())
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        found = {}
        for member in archive.getmembers():
            file = archive.extractfile(member)
            assert file is not None
            found[member.name.removesuffix(".json")] = file.read().decode()
    return found


@cache
def release(name: str) -> Release:
    return parse_release(texts()[name], "ge", name.removeprefix("v").split("-")[0], name)


@cache
def rules() -> Rules:
    return policy_rules()


@cache
def decided() -> Policy:
    """The shipped policy, compiled once."""
    return Policy(rules().program, (SIGNATURE, REPAIRS))


def between(built: Release, runtime: Release, policy: str = "default") -> Carrier:
    return Carrier(decided(), policy, built, runtime, rules().program)


def operator(
    name: str = "Foo",
    inputs: str = "x",
    attributes: tuple[tuple[str, str, Literal | None], ...] = (),
    outputs: str = "y",
    bodies: tuple[str, ...] = (),
) -> ReleaseOperator:
    """An operator from short text: `x w? zs*` are a required, an optional and a dynamic input."""
    return ReleaseOperator(
        name,
        tuple(_port(p) for p in inputs.split()),
        tuple(_port(p) for p in outputs.split()),
        tuple(ReleaseAttribute(n, t, d is None, d) for n, t, d in attributes),
        tuple(Body(b) for b in bodies),
    )


def _port(text: str) -> Port:
    kind = {"?": "optional", "*": "dynamic"}.get(text[-1], "required")
    return Port(text.rstrip("?*"), kind, ("DT_FLOAT",))


def of(*operators: ReleaseOperator, version: str = "1.0.0", domain: str = "t") -> Release:
    """A release of a few operators."""
    return Release(domain, version, {o.name: o for o in operators})


def of_pair(built: str, runtime: str) -> Counter[str]:
    """What the policies make of a pair: the columns of docs/registries_pairs.csv, silent changes by kind, and what each
    policy refuses by class."""
    found = {policy: compare(release(built), release(runtime), policy, rules()).operators for policy in POLICIES}
    counts: Counter[str] = Counter()
    for name, operator in found["default"].items():
        counts[f"class {operator.class_}"] += 1
        for policy in POLICIES:
            counts[f"class {operator.class_}: {policy}"] += bool(found[policy][name].refusals)
        if operator.class_ == "missing":
            continue
        counts["common"] += 1
        for policy in POLICIES:
            counts[f"refused by {policy}"] += bool(found[policy][name].refusals)
        if operator.class_ in FAILURES:
            counts["failures"] += 1
            if not operator.refusals:
                counts["good by a rule" if operator.rule else "good by name"] += 1
        elif operator.changes:
            counts["silent"] += 1
            for what in {change.what for change in operator.changes}:
                counts[f"silent {what}"] += 1
            counts["refused" if operator.refusals else "written out" if operator.written else "safe"] += 1
    return counts

"""A room imports only rooms below it (docs/design.md); what is slow to import is imported where it is needed."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "gerules"
ROOMS: dict[str, set[str]] = {
    "errors": set(),
    "report": {"errors"},
    "paths": set(),
    "registry": {"errors"},
    "dsl": {"errors", "registry", "paths"},
    "graph": {"errors", "registry"},
    "static": {"errors", "registry", "dsl", "graph"},
    "simulate": {"errors", "registry", "graph"},
    "extract": set(),
    "target": {"errors", "registry", "dsl", "graph", "static"},
    "partition": {"errors", "graph"},
    "policy": {"errors", "registry", "dsl", "paths", "static"},
    "egraph": {"errors", "registry", "dsl", "graph", "static", "simulate", "target"},
    "verify": {"errors", "registry", "dsl", "graph", "static", "simulate", "target", "policy", "egraph", "paths"},
}
ROOMS["pipeline"] = {*ROOMS}
ROOMS["cli"] = {*ROOMS}
ROOMS["pytest_plugin"] = {*ROOMS}


def room_of(module: Path) -> str:
    parts = module.relative_to(PACKAGE).with_suffix("").parts
    return parts[0]


def modules() -> Iterator[Path]:
    return (p for p in sorted(PACKAGE.rglob("*.py")) if p.relative_to(PACKAGE).parts != ("__init__.py",))


def imported(module: Path) -> Iterator[tuple[str, int]]:
    """The rooms that a module imports, wherever in it, with the line."""
    for node in ast.walk(ast.parse(module.read_text())):
        names: list[str] = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module] if node.module != "gerules" else [f"gerules.{a.name}" for a in node.names]
        elif isinstance(node, ast.Import):
            names = [a.name for a in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "gerules" and len(parts) > 1 and not parts[1].startswith("__"):
                yield parts[1], node.lineno


@pytest.mark.parametrize("module", list(modules()), ids=lambda m: m.relative_to(PACKAGE).as_posix())
def test_rooms_import_only_what_lies_below(module: Path) -> None:
    room = room_of(module)
    assert room in ROOMS, f"{room} is no room of docs/design.md"
    wrong = [f"line {line}: {other}" for other, line in imported(module) if other not in {room, *ROOMS[room]}]
    assert wrong == []


def test_every_room_is_there() -> None:
    assert {room_of(m) for m in modules()} == ROOMS.keys()


def test_the_command_starts_without_what_is_slow_to_import() -> None:
    code = "import sys, gerules.cli.main; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    loaded = {name.split(".")[0] for name in done.stdout.split()}
    assert loaded.isdisjoint({"onnx", "onnx_ir", "onnxruntime", "egglog", "highspy", "numpy", "lark", "rich"})

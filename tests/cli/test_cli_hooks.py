"""What the repository offers to others: the entries of its hooks are commands that take files."""

from __future__ import annotations

import re
from pathlib import Path

from cli_helpers import GATE_RULES, gerules, write_text

HOOKS = Path(__file__).parents[2] / ".pre-commit-hooks.yaml"


def test_hooks_run_on_the_files_that_changed(tmp_path: Path) -> None:
    text = HOOKS.read_text()
    entries = re.findall(r"^  entry: gerules (\w+)$", text, re.M)
    assert entries == ["check", "verify"]
    assert text.count("require_serial: true") == len(entries)  # one process has all files, and writes one registry
    files = re.findall(r"^  files: (.+)$", text, re.M)
    assert all(re.search(pattern, "rules/my.rules") for pattern in files)
    names = write_text(tmp_path, "names.rules", "opset ai.onnx 17\nclass Bent = Relu | Sigmoid\n")
    bent = "opset ai.onnx 17\nrewrite bent[f in Bent]: f(Identity(x)) => f(x)\n"
    rules = [names, write_text(tmp_path, "bent.rules", bent), write_text(tmp_path, "my.rules", GATE_RULES)]
    for entry in entries:
        result = gerules(entry, *rules)
        assert result.exit_code == 0, result.output

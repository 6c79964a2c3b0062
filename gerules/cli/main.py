"""The command line. Everything that a command needs is imported when it runs, so that `--help` is quick."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from gerules import __version__
from gerules.cli.guard import run_guarded

F = TypeVar("F", bound=Callable[..., Any])

_EXAMPLES = """\b
Examples:
  gerules compile model.onnx --target ascend -o out/
  gerules rewrite model.onnx --dim N=1..64 -o better.onnx
  gerules check my.rules
  gerules verify my.rules

Exit status: 0 done; 1 this model or these rules cannot do it; 2 the command line cannot be understood;
3 validation found a difference; 4 a fault of gerules itself."""


def _flags(*options: Callable[[F], F]) -> Callable[[F], F]:
    def add(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def _many(name: str, metavar: str, text: str) -> Callable[[F], F]:
    return click.option(name, multiple=True, metavar=metavar, help=text)


_model = click.argument("model", type=click.Path(path_type=Path))
_target = click.option(
    "--target", required=True, metavar="NAME|PATH", help="A shipped target (ascend, generic) or a rule file."
)
_force = click.option("--force", is_flag=True, help="Replace what is at the destination.")
_json = click.option("--json", "as_json", is_flag=True, help="Print the report (or the errors) as JSON.")
_debug = click.option("--debug", is_flag=True, help="Print the traceback of a fault of gerules itself.")

_rule_flags: Callable[[Any], Any] = _flags(
    _many("--rules", "PATH", "A rule file, or a folder of them, beside the shipped ones."),
    click.option(
        "--only-rules", is_flag=True, help="Drop the shipped rewrites (operator classes, facts, shapes stay)."
    ),
    _many("--enable", "NAME|WORD", "Switch rules on: a rule, a ruleset, or defines, reassociates, finite."),
    _many("--disable", "NAME", "Switch rules off: a rule or a ruleset."),
    click.option("--schedule", default="standard", show_default=True, metavar="NAME", help="In what order rules run."),
)
_dim_flags: Callable[[Any], Any] = _flags(
    _many("--dim", "N=4 or N=1..64", "Promise the extent of a dimension: a fact for rewriting, kept in the output."),
    _many("--assume", "'H % 8 == 0'", "Promise a relation between dimensions."),
    _many("--likely", "N=64 or N=64,128", "Sizes at which costs are taken; no promise."),
    _many("--at", "N=3", "Sizes at which the result is validated."),
)
_run_flags: Callable[[Any], Any] = _flags(
    click.option(
        "--time-limit", type=click.FloatRange(min=0.1), default=10.0, show_default=True, metavar="SECONDS",
        help="For the choice of the best graph and placement.",
    ),
    _many("--seed", "INT", "A seed of the random inputs of validation.  [default: 0, 1]"),
    click.option("--no-validate", is_flag=True, help="Write the result unchecked; the report says so."),
    click.option("--keep-failed", type=click.Path(path_type=Path), metavar="DIR", help="Keep what differs there."),
)  # fmt: skip
_check_flags: Callable[[Any], Any] = _flags(
    _many("--seed", "INT", "A seed of the random inputs of validation.  [default: 0, 1]"),
    click.option("--no-validate", is_flag=True, help="Write the result unchecked; the report says so."),
    click.option("--keep-failed", type=click.Path(path_type=Path), metavar="DIR", help="Keep what differs there."),
)
_convert_rule_flags: Callable[[Any], Any] = _flags(
    _many("--rules", "PATH", "A rule file, or a folder of them, beside the shipped ones."),
    _many("--enable", "NAME|WORD", "Switch rules on: a rule, a ruleset, or reassociates, finite."),
    _many("--disable", "NAME", "Switch rules off: a rule or a ruleset."),
)
_border = click.option(
    "--border-nodes", is_flag=True, help="Partitions with PlaceHolder and End nodes, for `gerules merge`."
)


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog=_EXAMPLES,
)
@click.version_option(__version__, prog_name="gerules")
def main() -> None:
    """A rule engine for machine-learning compute graphs.

    Rules in text say what is equal, what may be merged and what it costs; gerules finds the best graph that follows
    from them, partitions it over the engines of a target, and validates the result on numbers.
    """


@main.command(epilog="\b\nExample: gerules compile bert.onnx --target ascend --likely seq=128 -o out/")
@_model
@_target
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), metavar="DIR", help="A new folder.")
@_rule_flags
@_dim_flags
@_run_flags
@_border
@_force
@_json
@_debug
def compile(**flags: Any) -> None:
    """Rewrite, place and partition MODEL for a target: the main job.

    DIR holds model.onnx (engines in node metadata), partitions/, manifest.json and timing.json.
    """
    from gerules.cli.commands import run_compile

    run_guarded(lambda: run_compile(flags), flags)


@main.command(epilog="\b\nExample: gerules rewrite model.onnx --rules my.rules --dim N=1..64 -o better.onnx")
@_model
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), metavar="FILE.onnx", help="A new file.")
@_rule_flags
@_dim_flags
@_run_flags
@_force
@_json
@_debug
def rewrite(**flags: Any) -> None:
    """Rewrite MODEL by the rules that are on; no engines."""
    from gerules.cli.commands import run_rewrite

    run_guarded(lambda: run_rewrite(flags), flags)


@main.command(epilog="\b\nExample: gerules convert model.onnx --opset 13 -o older.onnx")
@_model
@_many("--opset", "N or DOMAIN=N", "The operator set to convert to; for each domain once.")
@click.option("--ir-version", type=int, metavar="N", help="The IR version to write; else the model's own.")
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), metavar="FILE.onnx", help="A new file.")
@_convert_rule_flags
@_dim_flags
@_check_flags
@_force
@_json
@_debug
def convert(**flags: Any) -> None:
    """Convert MODEL to other operator sets, up or down, with its meaning kept."""
    from gerules.cli.commands import run_convert

    run_guarded(lambda: run_convert(flags), flags)


@main.command(epilog="\b\nExample: gerules partition model.onnx --target generic -o out/")
@_model
@_target
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), metavar="DIR", help="A new folder.")
@_many("--rules", "PATH", "Rule files with classes, merge and group rules that the target needs.")
@_dim_flags
@_run_flags
@_border
@_force
@_json
@_debug
def partition(**flags: Any) -> None:
    """Place MODEL on the engines of a target and cut it into clusters; no node is changed."""
    from gerules.cli.commands import run_partition

    run_guarded(lambda: run_partition(flags), flags)


@main.command(epilog="\b\nExample: gerules merge out/ -o whole.onnx")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), metavar="FILE.onnx", help="A new file.")
@_force
@_json
@_debug
def merge(**flags: Any) -> None:
    """Put the partitions in FOLDER (written with --border-nodes) together again: model.onnx, byte for byte."""
    from gerules.cli.commands import run_merge

    run_guarded(lambda: run_merge(flags), flags)


@main.command(epilog="\b\nExample: gerules check my.rules --github")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="PATH...")
@click.option("--no-examples", is_flag=True, help="Do not run the examples.")
@_json
@click.option("--github", is_flag=True, help="Print diagnostics as annotations of a workflow.")
@_debug
def check(**flags: Any) -> None:
    """Parse and check rule files (or folders of them) and run their examples."""
    from gerules.cli.commands import run_check

    run_guarded(lambda: run_check(flags), flags)


@main.command(
    epilog="""\b
Examples:
  gerules verify my.rules                         every rule of the file, and keep the verdicts beside it
  gerules verify rules/ --rule cleanup.drop_cast  one rule
  gerules verify rules/ --fresh --compare         from nothing; fails where the recorded verdicts differ
  gerules verify rules/ --mutate                  do the conditions matter? the score of each rule
  gerules verify --replay witnesses/f.left.onnxtxt

\b
Verdicts: proved (for which ranks and sizes); proved bounded; tested (trials without a difference); unknown (why);
refuted (with the smallest instance that was found).

Exit status: 0 nothing is refuted; 1 a rule is refuted or applies to nothing, a file cannot be read, or (--compare) a
recorded verdict differs; 2 the command line cannot be understood, or a result cannot be written; 3 --replay shows a
difference."""
)
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path), metavar="PATH...")
@click.option("--rule", metavar="NAME", help="Only this rule: its name, full name, ruleset, or a pattern with `*`.")
@click.option("--trials", type=click.IntRange(min=1), default=200, show_default=True, help="Trials for each member.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="The seed of all draws.")
@click.option("--seconds", type=click.FloatRange(min=0.01), metavar="S", help="How long a rule may take; else unknown.")
@click.option("--jobs", type=click.IntRange(min=1), default=2, show_default=True, help="Processes.")
@click.option("--fresh", is_flag=True, help="Forget the recorded verdicts.")
@click.option("--compare", is_flag=True, help="Verify anew, write nothing, fail where the recorded verdicts differ.")
@click.option("--verdicts", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="Read and keep verdicts there.  [default: VERDICTS.json beside the rules]")  # fmt: skip
@click.option("--witness", type=click.Path(path_type=Path, file_okay=False), metavar="DIR",
              help="Save refuting instances there.  [default: witnesses/ beside the rules]")  # fmt: skip
@click.option("--junit", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write JUnit XML.")
@click.option("--mutate", is_flag=True, help="Change each rule a little; every change must be refuted.")
@click.option("--replay", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Run a saved witness.")
@_json
@click.option("--github", is_flag=True, help="Print diagnostics as annotations of a workflow.")
@_debug
def verify(**flags: Any) -> None:
    """Prove or refute the rules in files (or folders of them): random instances first, then proofs.

    A verdict is kept until the rule, or something that it rests on, changes.
    """
    from gerules.cli.verifying import run_verify

    run_guarded(lambda: run_verify(flags), flags)


_policy = click.option(
    "--policy", type=click.Choice(["default", "ge", "strict"]), default="default", show_default=True,
    help="What is refused: ge in place and as silent as the engine, strict all that differs, default by name.",
)  # fmt: skip


@main.group()
def registry() -> None:
    """Registries of operators: releases of an engine as JSON files."""


@registry.command("import", epilog="\b\nExample: gerules registry import headers/ -o ge-2.1.0.json")
@click.argument("headers", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="HEADER...")
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), metavar="R.json", help="A new file.")
@_force
@_json
@_debug
def registry_import(**flags: Any) -> None:
    """Read registration headers (REG_OP), or folders of them, into a registry. What is odd is warned of."""
    from gerules.cli.registries import run_import

    run_guarded(lambda: run_import(flags), flags)


@main.command(
    epilog="""\b
Examples:
  gerules diff ge-1.8.0.json ge-2.1.0.json
  gerules diff onnx:13 onnx:21 --json
  gerules diff ge@1.8.0=A.json ge@2.1.0=B.json --policy ge --csv"""
)
@click.argument("built")
@click.argument("runtime")
@_policy
@_many("--rules", "PATH", "Rule files beside the shipped ones: values that are given, rules between releases.")
@_json
@click.option("--csv", "as_csv", is_flag=True, help="Print one line an operator as CSV.")
@_debug
def diff(**flags: Any) -> None:
    """Classify every operator of BUILT against RUNTIME: registries in files, or ONNX's at an opset (onnx:13).

    A class says how the definitions go together, whatever the policy; beside it stand defaults, types and required-ness
    that changed under it, and what the policy would refuse.
    """
    from gerules.cli.registries import run_diff

    run_guarded(lambda: run_diff(flags), flags)


@main.command(
    epilog="\b\nExample: gerules recover net.onnx --built ge@1.8.0=A.json --runtime ge@2.1.0=B.json -o new.onnx"
)
@_model
@click.option(
    "--built", required=True, metavar="REGISTRY", help="What MODEL was built with: ge@1.8.0=A.json, ge=A.json."
)
@click.option("--runtime", required=True, metavar="REGISTRY", help="What is to read it, written likewise.")
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), metavar="FILE.onnx", help="A new file.")
@_policy
@_many("--rules", "PATH", "Rule files beside the shipped ones: values that are given, rules between releases.")
@_force
@_json
@_debug
def recover(**flags: Any) -> None:
    """Make MODEL, built with one release of a registry, fit for a runtime of another.

    All refusals come in one report, with status 1, and then nothing is written.
    """
    from gerules.cli.registries import run_recover

    run_guarded(lambda: run_recover(flags), flags)


def entry() -> None:
    """The console script."""
    try:
        status = main.main(standalone_mode=False)  # an Exit comes back as its status
    except click.ClickException as fault:
        fault.show()
        sys.exit(fault.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        sys.exit(130)
    sys.exit(status if isinstance(status, int) else 0)


if __name__ == "__main__":
    entry()

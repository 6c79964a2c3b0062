"""Targets: engines as tables, transfers, merge and group rules, costs; and patterns over any view of nodes."""

from gerules.target.clauses import Clause, Surroundings, compile_clause
from gerules.target.engines import Composite, Engine
from gerules.target.figures import Figures, NodeFigures
from gerules.target.loading import load_target, target_names
from gerules.target.matching import Found, Matcher, View
from gerules.target.patterns import compile_pattern
from gerules.target.plain import PlainCost
from gerules.target.sizes import Likely
from gerules.target.target import MergeFacts, Target

__all__ = [
    "Clause",
    "Composite",
    "Engine",
    "Figures",
    "Found",
    "Likely",
    "Matcher",
    "MergeFacts",
    "NodeFigures",
    "PlainCost",
    "Surroundings",
    "Target",
    "View",
    "compile_clause",
    "compile_pattern",
    "load_target",
    "target_names",
]

"""The language of rule files: grammar, syntax tree, names, types, messages. It knows no graphs and no egglog."""

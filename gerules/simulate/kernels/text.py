"""Operators on strings that onnx.reference gets wrong."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gerules.simulate.kernel import Kernel, NodeSpec, Run, kernel
from gerules.simulate.values import Value


@kernel("StringNormalizer")
def string_normalizer(spec: NodeSpec) -> Kernel:
    """(C) or (1, C) strings less the stop words, in another case if asked for; of nothing, one empty string."""
    action, exact = spec.get("case_change_action", "NONE"), bool(spec.get("is_case_sensitive", 0))
    stops = frozenset(w if exact else w.lower() for w in spec.get("stopwords") or ())

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        x = operands[0]
        if x.ndim not in (1, 2) or (x.ndim == 2 and x.shape[0] != 1):
            raise ValueError(f"strings of shape {list(x.shape)}, not [C] or [1, C]")
        kept = [w for w in x.reshape(-1).tolist() if (w if exact else w.lower()) not in stops]
        changed = [w.lower() if action == "LOWER" else w.upper() if action == "UPPER" else w for w in kept] or [""]
        result = np.array(changed, dtype=object)
        return (result if x.ndim == 1 else result.reshape(1, -1),)

    return compute

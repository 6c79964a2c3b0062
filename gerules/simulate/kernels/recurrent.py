"""RNN, GRU and LSTM of every version: directions, layouts, lengths, peepholes, clipping, activations.

Weights of a direction are stacked per gate: GRU z, r, h; LSTM i, o, f, c. Sequences that end early keep their last
state and give zeros; backwards each starts at its own end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from gerules.simulate.kernel import Kernel, NodeSpec, Run, kernel
from gerules.simulate.kernels.ordered import Contraction, contraction, wide
from gerules.simulate.values import Array, Value

Activation = Callable[[Array], Array]


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


# Name -> (default alpha, default beta, function of x, alpha, beta).
_ACTIVATIONS: Final[dict[str, tuple[float, float, Callable[[Array, float, float], Any]]]] = {
    "affine": (1.0, 0.0, lambda x, a, b: a * x + b),
    "elu": (1.0, 0.0, lambda x, a, b: np.where(x >= 0, x, a * (np.exp(np.minimum(x, 0)) - 1))),
    "hardsigmoid": (0.2, 0.5, lambda x, a, b: np.clip(a * x + b, 0, 1)),
    "leakyrelu": (0.01, 0.0, lambda x, a, b: np.where(x >= 0, x, a * x)),
    "relu": (0.0, 0.0, lambda x, a, b: np.maximum(x, 0)),
    "scaledtanh": (1.0, 1.0, lambda x, a, b: a * np.tanh(b * x)),
    "sigmoid": (0.0, 0.0, lambda x, a, b: _sigmoid(x)),
    "softplus": (0.0, 0.0, lambda x, a, b: np.logaddexp(x, 0)),
    "softsign": (0.0, 0.0, lambda x, a, b: x / (1 + np.abs(x))),
    "tanh": (0.0, 0.0, lambda x, a, b: np.tanh(x)),
    "thresholdedrelu": (1.0, 0.0, lambda x, a, b: np.where(x > a, x, 0)),
}
_TAKES_ALPHA: Final = frozenset({"affine", "elu", "hardsigmoid", "leakyrelu", "scaledtanh", "thresholdedrelu"})
_TAKES_BETA: Final = frozenset({"affine", "hardsigmoid", "scaledtanh"})


def _activations(spec: NodeSpec, defaults: Sequence[str], directions: int) -> list[list[Activation]]:
    """Per direction the activations in order; alphas and betas are handed out in order to those that take one."""
    count = len(defaults)
    given: Sequence[str] = spec.get("activations") or ()
    names = [n.lower() for n in given or [*defaults] * directions][: count * directions]
    if len(names) == count and directions == 2:
        names = names * 2
    if len(names) != count * directions:
        raise ValueError(f"{len(names)} activations for {directions} directions of {count}")
    alphas, betas = list(spec.get("activation_alpha") or ()), list(spec.get("activation_beta") or ())
    made: list[Activation] = []
    for name in names:
        if name not in _ACTIVATIONS:
            raise ValueError(f"there is no activation {name}")
        alpha, beta, function = _ACTIVATIONS[name]
        if name in _TAKES_ALPHA and alphas:
            alpha = alphas.pop(0)
        if name in _TAKES_BETA and betas:
            beta = betas.pop(0)
        made.append(_bind(function, alpha, beta, spec.get("clip")))
    return [made[i * count : (i + 1) * count] for i in range(directions)]


def _bind(function: Any, alpha: float, beta: float, clip: float | None) -> Activation:
    def activate(x: Array) -> Array:
        if clip:
            x = np.clip(x, -clip, clip)
        return np.asarray(function(x, alpha, beta)).astype(x.dtype, copy=False)

    return activate


@dataclass(frozen=True, slots=True)
class _Direction:
    """Everything that one direction's cell needs: weights transposed for products, biases, peepholes."""

    w: Array
    r: Array
    w_bias: Array
    r_bias: Array
    peepholes: Array | None
    activate: list[Activation]
    multiply: Contraction


State = tuple[Array, ...]
Cell = Callable[[NodeSpec, _Direction, Array, State], State]


def _rnn_cell(spec: NodeSpec, d: _Direction, x: Array, state: State) -> State:
    (h,) = state
    return (d.activate[0](x + d.multiply(h, d.r) + (d.w_bias + d.r_bias)),)


def _gru_cell(spec: NodeSpec, d: _Direction, x: Array, state: State) -> State:
    (h,) = state
    size = h.shape[-1]
    both = x[:, : 2 * size] + d.multiply(h, d.r[:, : 2 * size]) + (d.w_bias + d.r_bias)[: 2 * size]
    z, r = d.activate[0](both[:, :size]), d.activate[0](both[:, size:])
    x_h, r_h = x[:, 2 * size :] + d.w_bias[2 * size :], d.r[:, 2 * size :]
    if spec.get("linear_before_reset", 0):
        candidate = d.activate[1](x_h + r * (d.multiply(h, r_h) + d.r_bias[2 * size :]))
    else:
        candidate = d.activate[1](x_h + d.multiply(r * h, r_h) + d.r_bias[2 * size :])
    return ((1 - z) * candidate + z * h,)


def _lstm_cell(spec: NodeSpec, d: _Direction, x: Array, state: State) -> State:
    h, c = state
    size = h.shape[-1]
    gates = x + d.multiply(h, d.r) + (d.w_bias + d.r_bias)
    i, o, f, g = (gates[:, k * size : (k + 1) * size] for k in range(4))
    if d.peepholes is not None:
        p_i, p_o, p_f = (d.peepholes[k * size : (k + 1) * size] for k in range(3))
        i, f = i + p_i * c, f + p_f * c
    i = d.activate[0](i)
    f = 1 - i if spec.get("input_forget", 0) else d.activate[0](f)
    new_c = f * c + i * d.activate[1](g)
    if d.peepholes is not None:
        o = o + p_o * new_c
    return d.activate[0](o) * d.activate[2](new_c), new_c


_CELLS: Final[dict[str, tuple[int, Cell, tuple[str, ...], int]]] = {
    "RNN": (1, _rnn_cell, ("Tanh",), 1),
    "GRU": (3, _gru_cell, ("Sigmoid", "Tanh"), 1),
    "LSTM": (4, _lstm_cell, ("Sigmoid", "Tanh", "Tanh"), 2),
}


@kernel("RNN", "GRU", "LSTM")
def recurrent(spec: NodeSpec) -> Kernel:
    """X (time, batch, input) or, with layout 1, (batch, time, input); W, R, B, lengths, initial states, peepholes."""
    gates, cell, defaults, states = _CELLS[spec.op]
    direction = spec.get("direction", "forward")
    if spec.op == "GRU" and spec.version == 1 and direction == "foward":
        direction = "forward"  # the default is misspelt there
    if direction not in ("forward", "reverse", "bidirectional"):
        raise ValueError(f"there is no direction {direction}")
    directions = 2 if direction == "bidirectional" else 1
    layout = int(spec.get("layout", 0))
    activations = _activations(spec, defaults, directions)
    multiply = contraction(spec.mode)

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        given = [*operands, *[None] * (8 - len(operands))]
        x, w, r = (wide(v) for v in given[:3])
        bias = None if given[3] is None else wide(given[3])
        lengths, initial = given[4], given[5 : 5 + states]
        peepholes = wide(given[7]) if spec.op == "LSTM" and given[7] is not None else None
        if layout:
            x = x.swapaxes(0, 1)
            initial = [None if v is None else v.swapaxes(0, 1) for v in initial]
        size = r.shape[-1]
        if any(v is not None and v.shape != (directions, x.shape[1], size) for v in initial):
            raise ValueError(f"an initial state is {directions} directions x {x.shape[1]} sequences x {size}")
        if lengths is not None and lengths.shape != x.shape[1:2]:
            raise ValueError(f"{x.shape[1]} sequences have as many lengths, not {list(lengths.shape)}")
        outputs: list[Array] = []
        finals: list[State] = []
        for k in range(directions):
            b = np.zeros(2 * gates * size, dtype=x.dtype) if bias is None else bias[k]
            p = None if peepholes is None else peepholes[k]
            parts = _Direction(w[k].T, r[k].T, b[: gates * size], b[gates * size :], p, activations[k], multiply)
            zero = np.zeros((x.shape[1], size), dtype=x.dtype)
            start = tuple(zero if v is None else wide(v)[k] for v in initial)
            backward = direction == "reverse" or k == 1
            y, final = _over_time(spec, cell, parts, x, start, lengths, backward)
            outputs.append(y)
            finals.append(final)
        y = np.stack(outputs, axis=1)
        last = [np.stack([f[s] for f in finals], axis=0) for s in range(states)]
        if layout:
            y = y.transpose(2, 0, 1, 3)
            last = [v.swapaxes(0, 1) for v in last]
        return [v.astype(given[0].dtype, copy=False) for v in (y, *last)]

    return compute


def _over_time(
    spec: NodeSpec, cell: Cell, parts: _Direction, x: Array, state: State, lengths: Array | None, backward: bool
) -> tuple[Array, State]:
    steps, batch = x.shape[:2]
    size = state[0].shape[-1]
    limits = np.full(batch, steps) if lengths is None else np.minimum(lengths.astype(np.int64), steps)
    ragged = bool((limits < steps).any())
    y = np.zeros((steps, batch, size), dtype=x.dtype)
    projected = parts.multiply(x, parts.w)
    # Backwards a sequence is read from its own end; a step beyond it is not taken.
    for t in reversed(range(steps)) if backward else range(steps):
        new = cell(spec, parts, projected[t], state)
        if ragged:
            active = (t < limits)[:, None]
            new = tuple(np.where(active, n, s) for n, s in zip(new, state, strict=True))
            y[t] = np.where(active, new[0], 0)
        else:
            y[t] = new[0]
        state = new
    return y, state

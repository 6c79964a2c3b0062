"""The short-time Fourier transform. That of onnx.reference takes the batch of a signal of rank two for its length."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gerules.simulate.kernel import Kernel, NodeSpec, Run, kernel
from gerules.simulate.values import Value


@kernel("STFT")
def stft(spec: NodeSpec) -> Kernel:
    """Of a signal [batch, length, 1], or [batch, length, 2] where it is complex; a real one without the last axis, as
    runtimes take it. Gives [batch, frames, bins, 2]. Raises ValueError where the signal is shorter than a frame."""
    onesided = bool(spec.get("onesided", 1))

    def compute(operands: Sequence[Value], run: Run) -> Sequence[Value]:
        signal, step, window, length = (*operands, None, None)[:4]
        whole = signal if signal.ndim == 3 else signal[..., None]
        if whole.ndim != 3 or whole.shape[2] not in (1, 2):
            raise ValueError(f"a signal of shape {list(signal.shape)}")
        samples = whole[..., 0].astype(np.float64)
        if whole.shape[2] == 2:
            samples = samples + 1j * whole[..., 1].astype(np.float64)
        stride = int(step)
        size = int(length) if length is not None else len(window) if window is not None else samples.shape[1]
        if stride < 1 or not 1 <= size <= samples.shape[1]:
            raise ValueError(f"frames of {size} at a step of {stride}, and the signal has {samples.shape[1]} samples")
        if window is not None and len(window) != size:
            raise ValueError(f"a window of {len(window)} for frames of {size}")
        frames = np.lib.stride_tricks.sliding_window_view(samples, size, axis=1)[:, ::stride]
        if window is not None:
            frames = frames * window.astype(np.float64)
        bins = np.fft.fft(frames, axis=-1)
        if onesided:
            bins = bins[..., : size // 2 + 1]
        return (np.stack([bins.real, bins.imag], axis=-1).astype(signal.dtype),)

    return compute

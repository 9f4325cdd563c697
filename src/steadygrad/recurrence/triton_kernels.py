"""The two loops over time of the plain layer as Triton kernels: one launch for all steps, W_hh held on chip throughout.

    forward     a_k = p_k + W_hh h_{k−1},    h_k = λ h_{k−1} + (1 − λ) σ(a_k)          p = W_ih x + b, worked out before
    backward    e_k = c_k + ∂E/∂h_k,         c_k: what step k+1 sent back, at the last step the gradient of the last state
                δ_k = (1 − λ) σ'(a_k) ⊙ e_k,    c_{k−1} = W_hhᵀ δ_k + λ e_k

One program computes ROWS sequences from the first step to the last. It loads the matrix once, into registers, as a tile
[from, to], and the state never leaves the chip either. A product is the tile times a column, summed over its first axis:
along it most of a sum is a thread's own, the second axis lies along the threads. What the next step reads is loaded before
this step is computed. UNITS is H rounded up to a power of two; what is past H is 0 and is not written.

The addresses of the steps come as a first one and a stride, which is negative where time runs backwards.
tanh is the continued fraction x / (1 + x²/(3 + x²/(5 + … x²/15))) for |x| < 0.625, where it is exact to 1e-16, and
1 − 2 / (e^{2|x|} + 1) beyond: the latter alone would lose all digits of a small x.
"""

# pyright: basic, reportInvalidTypeForm=false, reportMissingImports=false, reportOptionalMemberAccess=false
# (the bodies below are Triton's language, which has no types)

from typing import Any

try:
    import triton
    import triton.language as tl
except ImportError:  # this file can still be read; recurrence/triton.py refuses to use it
    triton = tl = None  # pyright: ignore[reportAssignmentType]

constexpr: Any = tl.constexpr if tl else None
jit: Any = triton.jit if triton else lambda **_: lambda kernel: kernel


@jit(do_not_specialize=["steps", "first"])
def forward_kernel(
    projected,  # [T, B, H]: p
    output,  # [T, B, H]: h
    activation,  # [T, B, H]: σ(a) of leaky units; or None
    last,  # [B, H]
    h0,  # [B, H], or None
    weight,  # [H, H]: W_hhᵀ
    lengths,  # [B] int64, or None
    steps,
    batch,
    hidden,
    first,  # where step 0 begins
    stride,  # from one step to the next
    SIGMA: constexpr,
    LEAK: constexpr,
    REVERSE: constexpr,
    ROWS: constexpr,
    UNITS: constexpr,
):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    units = tl.arange(0, UNITS)
    tile = _tile(weight, hidden, UNITS)
    here = (rows[:, None] < batch) & (units[None, :] < hidden)
    place = rows[:, None].to(tl.int64) * hidden + units[None, :]
    state = tl.zeros((ROWS, UNITS), dtype=weight.dtype.element_ty)
    if h0 is not None:
        state = tl.load(h0 + place, mask=here, other=0.0)
    length = steps
    if lengths is not None:
        length = tl.load(lengths + rows, mask=rows < batch, other=0)[:, None]
    at = place + first
    p = tl.load(projected + at, mask=here, other=0.0)
    for step in range(steps):
        coming = tl.load(projected + at + stride, mask=here & (step + 1 < steps), other=0.0)
        value = _sigma(p + _times(state, tile), SIGMA)
        after = value
        if LEAK > 0:
            after = LEAK * state + (1 - LEAK) * value
            tl.store(activation + at, value, mask=here)
        if lengths is not None:
            time = steps - 1 - step if REVERSE else step
            after = tl.where(time < length, after, state)
        state = tl.where(here, after, 0.0)
        tl.store(output + at, state, mask=here)
        p = coming
        at += stride
    tl.store(last + place, state, mask=here)


@jit(do_not_specialize=["steps", "first"])
def backward_kernel(
    values,  # [T, B, H]: σ(a)
    grad_output,  # [T, B, H], or None
    grad_last,  # [B, H], or None
    deltas,  # [T, B, H]: δ
    arrived,  # [T, B, H]: what each step sends back, as Ω sees it, the first step's left alone; or None
    errors,  # [T, B, H]: e; or None
    h0_error,  # [B, H]
    weight,  # [H, H]: W_hh
    lengths,  # [B] int64, or None
    steps,
    batch,
    hidden,
    first,  # where the last step begins: the way back starts there
    stride,  # from one step to the one before it
    SIGMA: constexpr,
    LEAK: constexpr,
    CLIP: constexpr,  # None: errors are not clipped
    REVERSE: constexpr,
    AFTER: constexpr,  # whether the state that Ω looks at is h, or x before the nonlinearity
    ROWS: constexpr,
    UNITS: constexpr,
):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    units = tl.arange(0, UNITS)
    tile = _tile(weight, hidden, UNITS)
    here = (rows[:, None] < batch) & (units[None, :] < hidden)
    place = rows[:, None].to(tl.int64) * hidden + units[None, :]
    back = tl.zeros((ROWS, UNITS), dtype=weight.dtype.element_ty)
    if grad_last is not None:
        back = tl.load(grad_last + place, mask=here, other=0.0)
    length = steps
    if lengths is not None:
        length = tl.load(lengths + rows, mask=rows < batch, other=0)[:, None]
    at = place + first
    value = tl.load(values + at, mask=here, other=0.0)
    grad = tl.zeros((ROWS, UNITS), dtype=weight.dtype.element_ty)
    if grad_output is not None:
        grad = tl.load(grad_output + at, mask=here, other=0.0)
    for step in range(steps):
        more = here & (step + 1 < steps)
        coming_value = tl.load(values + at + stride, mask=more, other=0.0)
        coming_grad = grad
        if grad_output is not None:
            coming_grad = tl.load(grad_output + at + stride, mask=more, other=0.0)
        slope = _slope(value, SIGMA)
        if arrived is not None:  # what this step was sent, kept with the step that sent it
            tl.store(arrived + at - stride, back if AFTER else slope * back, mask=here & (step > 0))
        error = back + grad
        running = here
        if lengths is not None:
            time = step if REVERSE else steps - 1 - step
            running = here & (time < length)
        if CLIP is not None and LEAK > 0:
            error = tl.where(running, _clipped(error, CLIP), error)
        if errors is not None:
            tl.store(errors + at, error, mask=here)
        delta = (1 - LEAK) * slope * error
        if CLIP is not None and LEAK == 0:
            delta = _clipped(delta, CLIP)
        delta = tl.where(running, delta, 0.0)
        tl.store(deltas + at, delta, mask=here)
        sent = _times(delta, tile)
        if LEAK > 0:
            sent += LEAK * error
        back = sent
        if lengths is not None:
            back = tl.where(running, sent, error)
        value = coming_value
        grad = coming_grad
        at += stride
    tl.store(h0_error + place, back, mask=here)


@jit()
def _tile(weight, hidden, UNITS: constexpr):
    """The matrix [from, to], 0 past its edges."""
    units = tl.arange(0, UNITS)
    inside = (units[:, None] < hidden) & (units[None, :] < hidden)
    return tl.load(weight + units[:, None] * hidden + units[None, :], mask=inside, other=0.0)


@jit()
def _times(rows, tile):
    """[ROWS, from] times [from, to]."""
    return tl.sum(rows[:, :, None] * tile[None, :, :], axis=1)


@jit()
def _clipped(x, CLIP: constexpr):
    """Within [−CLIP, CLIP]; NaN stays NaN."""
    bound = tl.full(x.shape, CLIP, x.dtype)
    return tl.where(x > bound, bound, tl.where(x < -bound, -bound, x))


@jit()
def _sigma(x, SIGMA: constexpr):
    """σ; NaN stays NaN."""
    if SIGMA == "tanh":
        z = x * x
        top = ((36.0 * z + 6930.0) * z + 270270.0) * z + 2027025.0
        bottom = (((z + 630.0) * z + 51975.0) * z + 945945.0) * z + 2027025.0
        far = 1.0 - 2.0 / (tl.exp(2.0 * tl.abs(x)) + 1.0)
        h = tl.where(tl.abs(x) < 0.625, x * top / bottom, tl.where(x < 0, -far, far))
    elif SIGMA == "relu":
        h = tl.where(x < 0, 0.0, x)
    elif SIGMA == "sigmoid":
        h = 1.0 / (1.0 + tl.exp(-x))
    else:
        h = x
    return h


@jit()
def _slope(h, SIGMA: constexpr):
    """σ' by h = σ(x)."""
    if SIGMA == "tanh":
        slope = 1.0 - h * h
    elif SIGMA == "relu":
        slope = (h > 0).to(h.dtype)
    elif SIGMA == "sigmoid":
        slope = h - h * h
    else:
        slope = tl.full(h.shape, 1.0, h.dtype)
    return slope


def are_interpreted() -> bool:
    """Whether Triton was told to interpret its kernels when it was imported, and when this file was."""
    return triton is not None and not any(isinstance(each, triton.JITFunction) for each in (tl.sum, forward_kernel))

"""Loop nests as people write them in memory, with arguments for each."""

import math
from typing import Any

import numpy as np

MATRIX = (150, 230)


# -- of the work on out-of-core compilers ----------------------------------------------------------


def statistics(a, out):  # type: ignore[no-untyped-def]
    total = 0.0
    squares = 0.0
    least = a[0]
    most = a[0]
    for i in range(len(a)):
        total += a[i]
        squares += a[i] * a[i]
        if a[i] < least:
            least = a[i]
        most = max(most, a[i])
    mean = total / len(a)
    out[0] = mean
    out[1] = math.sqrt(squares / len(a) - mean * mean)
    out[2] = least
    out[3] = most


def window(a, b, w):  # type: ignore[no-untyped-def]
    for i in range(w, len(a) - w):
        s = 0.0
        for k in range(-w, w + 1):
            s += a[i + k]
        b[i] = s / (2 * w + 1)


def wave(old, now, new, c, steps):  # type: ignore[no-untyped-def]
    for _ in range(steps):
        for i in range(1, now.shape[0] - 1):
            for j in range(1, now.shape[1] - 1):
                around = now[i - 1, j] + now[i + 1, j] + now[i, j - 1] + now[i, j + 1]
                new[i, j] = 2 * now[i, j] - old[i, j] + c * (around - 4 * now[i, j])
        for i in range(now.shape[0]):
            for j in range(now.shape[1]):
                old[i, j] = now[i, j]
                now[i, j] = new[i, j]


def matrix_vector(a, x, y):  # type: ignore[no-untyped-def]
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            y[i] += a[i, j] * x[j]


def wavefront(a):  # type: ignore[no-untyped-def]
    n, m = a.shape[0], a.shape[1]
    for d in range(2, n + m - 1):
        for i in range(max(1, d - m + 1), min(n, d)):
            a[i, d - i] = 0.5 * a[i, d - i] + 0.25 * (a[i - 1, d - i] + a[i, d - i - 1])


def rhombus(a, sums, w, s):  # type: ignore[no-untyped-def]
    for k in range(sums.shape[0]):
        for q in range(w):
            for m in range(s):
                sums[k] += a[q * s + m, 2 * w * k + w - q] + a[q * s + m, 2 * w * k + w + q]
        for q in range(w):
            for m in range(s):
                sums[k] += a[(w + q) * s + m, 2 * w * k + q + 1]


def zigzag(a, sums, h):  # type: ignore[no-untyped-def]
    for k in range(len(sums)):
        for part in range(a.shape[0] // (2 * h)):
            for m in range(h):
                sums[k] += a[2 * h * part + m, k * h + m]
            for m in range(h):
                sums[k] += a[2 * h * part + h + m, k * h + h - 1 - m]


def transposition(a, b):  # type: ignore[no-untyped-def]
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            b[j, i] = a[i, j]


def product(a, b, c):  # type: ignore[no-untyped-def]
    for i in range(c.shape[0]):
        for j in range(c.shape[1]):
            for k in range(a.shape[1]):
                c[i, j] += a[i, k] * b[k, j]


def stepped(a):  # type: ignore[no-untyped-def]
    for p in range(5):
        s = 2**p
        for i in range(s, a.shape[0], s):
            for j in range(a.shape[1]):
                a[i, j] += 0.5 * a[i - s, j]


# -- others ----------------------------------------------------------------------------------------


def cholesky(a):  # type: ignore[no-untyped-def]
    n = a.shape[0]
    for k in range(n):
        a[k, k] = math.sqrt(a[k, k])
        for i in range(k + 1, n):
            a[i, k] /= a[k, k]
        for j in range(k + 1, n):
            for i in range(j, n):
                a[i, j] -= a[i, k] * a[j, k]


def lu(a):  # type: ignore[no-untyped-def]
    for k in range(a.shape[0]):
        for i in range(k + 1, a.shape[0]):
            a[i, k] /= a[k, k]
            for j in range(k + 1, a.shape[0]):
                a[i, j] -= a[i, k] * a[k, j]


def forward(low, x):  # type: ignore[no-untyped-def]
    for i in range(len(x)):
        s = x[i]
        for j in range(i):
            s -= low[i, j] * x[j]
        x[i] = s / low[i, i]


def backward(up, x):  # type: ignore[no-untyped-def]
    for i in range(len(x) - 1, -1, -1):
        for j in range(i + 1, len(x)):
            x[i] -= up[i, j] * x[j]
        x[i] /= up[i, i]


def syrk(a, c, alpha):  # type: ignore[no-untyped-def]
    for i in range(c.shape[0]):
        for j in range(i + 1):
            c[i, j] = 0.0
            for k in range(a.shape[1]):
                c[i, j] += alpha * a[i, k] * a[j, k]


def gauss_seidel(u, f, sweeps):  # type: ignore[no-untyped-def]
    for _ in range(sweeps):
        for i in range(1, u.shape[0] - 1):
            for j in range(1, u.shape[1] - 1):
                u[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - f[i, j])


def symmetric(u, sweeps):  # type: ignore[no-untyped-def]
    for _ in range(sweeps):
        for i in range(1, len(u) - 1):
            u[i] = 0.5 * (u[i - 1] + u[i + 1])
        for i in range(len(u) - 2, 0, -1):
            u[i] = 0.5 * (u[i - 1] + u[i + 1])


def heat(a, b, steps):  # type: ignore[no-untyped-def]
    for _ in range(steps):
        for i in range(1, a.shape[0] - 1):
            for j in range(1, a.shape[1] - 1):
                for k in range(1, a.shape[2] - 1):
                    b[i, j, k] = a[i, j, k] + 0.1 * (
                        a[i - 1, j, k] + a[i, j - 1, k] + a[i, j, k + 1] - 3 * a[i, j, k]
                    )
        for i in range(1, a.shape[0] - 1):
            for j in range(1, a.shape[1] - 1):
                for k in range(1, a.shape[2] - 1):
                    a[i, j, k] = b[i, j, k]


def floyd_warshall(d):  # type: ignore[no-untyped-def]
    for k in range(d.shape[0]):
        for i in range(d.shape[0]):
            for j in range(d.shape[0]):
                if d[i, k] + d[k, j] < d[i, j]:
                    d[i, j] = d[i, k] + d[k, j]


def longest_common(s, t, best):  # type: ignore[no-untyped-def]
    for i in range(1, best.shape[0]):
        for j in range(1, best.shape[1]):
            if s[i - 1] == t[j - 1]:
                best[i, j] = best[i - 1, j - 1] + 1
            else:
                best[i, j] = max(best[i - 1, j], best[i, j - 1])


def knapsack(weight, value, best):  # type: ignore[no-untyped-def]
    for i in range(1, best.shape[0]):
        for j in range(best.shape[1]):
            best[i, j] = best[i - 1, j]
            if j >= 7:
                best[i, j] = max(best[i, j], best[i - 1, j - 7] + value[i])
        best[i, 0] += weight[i] * 0


def correlation(a, mean, deviation, c):  # type: ignore[no-untyped-def]
    n, m = a.shape[0], a.shape[1]
    for j in range(m):
        for i in range(n):
            mean[j] += a[i, j]
        mean[j] /= n
    for j in range(m):
        for i in range(n):
            deviation[j] += (a[i, j] - mean[j]) ** 2
        deviation[j] = math.sqrt(deviation[j] / n)
        deviation[j] = 1.0 if deviation[j] < 1e-9 else deviation[j]
    for p in range(m):
        for q in range(p, m):
            for i in range(n):
                x = (a[i, p] - mean[p]) / deviation[p]
                c[p, q] += x * (a[i, q] - mean[q]) / deviation[q]
            c[q, p] = c[p, q]


def prefix_sums(a):  # type: ignore[no-untyped-def]
    for i in range(1, a.shape[0]):
        for j in range(a.shape[1]):
            a[i, j] += a[i - 1, j]
    for i in range(a.shape[0]):
        for j in range(1, a.shape[1]):
            a[i, j] += a[i, j - 1]


def histogram(a, counts):  # type: ignore[no-untyped-def]
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            for k in range(counts.shape[0]):
                if k * 0.25 - 1 <= a[i, j] < (k + 1) * 0.25 - 1:
                    counts[k] += 1


def masked(a, b, mask):  # type: ignore[no-untyped-def]
    for i in range(a.shape[0]):
        seen = False
        for j in range(a.shape[1]):
            if mask[i, j]:
                b[i, j] = np.sin(a[i, j])
                seen = True
        if seen:
            for j in range(a.shape[1]):
                b[i, j] *= 2
        else:
            for j in range(a.shape[1]):
                b[i, j] = -1


def convolution(a, k, b):  # type: ignore[no-untyped-def]
    for i in range(b.shape[0]):
        for j in range(b.shape[1]):
            s = 0.0
            for p in range(k.shape[0]):
                for q in range(k.shape[1]):
                    s += a[i + p, j + q] * k[p, q]
            b[i, j] = s


def red_black(u):  # type: ignore[no-untyped-def]
    for i in range(1, u.shape[0] - 1):
        for j in range(1, u.shape[1] - 1):
            if (i + j) % 2 == 0:
                u[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])
    for i in range(1, u.shape[0] - 1):
        for j in range(2 - i % 2, u.shape[1] - 1, 2):
            u[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])


def pool(a, b):  # type: ignore[no-untyped-def]
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            b[i // 3, j // 4] = max(b[i // 3, j // 4], a[i, j])


def reverse(a, b):  # type: ignore[no-untyped-def]
    n = a.shape[0]
    for i in range(n):
        for j in range(a.shape[1] - 1, -1, -1):
            b[n - 1 - i, j] = a[i, a.shape[1] - 1 - j]


def triangles(a, b):  # type: ignore[no-untyped-def]
    for i in range(a.shape[0]):
        for j in range(a.shape[0]):
            if i < j:
                b[i, j] = a[j, i]
            elif i > j:
                b[i, j] = -a[j, i]


def durbin(r, y, z):  # type: ignore[no-untyped-def]
    y[0] = -r[0]
    beta = 1.0
    alpha = -r[0]
    for k in range(1, len(y)):
        beta = (1 - alpha * alpha) * beta
        s = 0.0
        for i in range(k):
            s += r[k - i - 1] * y[i]
        alpha = -(r[k] + s) / beta
        for i in range(k):
            z[i] = y[i] + alpha * y[k - i - 1]
        for i in range(k):
            y[i] = z[i]
        y[k] = alpha


def integers(a, b):  # type: ignore[no-untyped-def]
    for i in range(2, len(a)):
        b[i] = (a[i] * 3 + b[i - 2]) % 1009 ^ i
        b[i] >>= 1


def arguments(seed: int = 0) -> dict[str, tuple[Any, dict[str, Any], tuple[str, ...]]]:
    """Of each nest, the arguments, and which of them are written."""
    rng = np.random.default_rng(seed)
    f = rng.standard_normal

    def square(n: int) -> Any:
        return f((n, n)) + n * np.eye(n)

    spd = square(130)
    grid = {"old": f(MATRIX), "now": f(MATRIX), "new": np.zeros(MATRIX)}
    strings = {"s": rng.integers(0, 4, 149).astype("i1"), "t": rng.integers(0, 4, 229).astype("i1")}
    volume = (28, 42, 46)
    return {
        "statistics": (statistics, {"a": f(60000), "out": np.zeros(4)}, ("out",)),
        "window": (window, {"a": f(60000), "b": np.zeros(60000), "w": 3}, ("b",)),
        "wave": (wave, {**grid, "c": 0.1, "steps": 4}, ("old", "now", "new")),
        "matrix_vector": (
            matrix_vector,
            {"a": f(MATRIX), "x": f(230), "y": np.zeros(150)},
            ("y",),
        ),
        "wavefront": (wavefront, {"a": f(MATRIX)}, ("a",)),
        "rhombus": (
            rhombus,
            {"a": f((192, 250)), "sums": np.zeros(30), "w": 4, "s": 24},
            ("sums",),
        ),
        "zigzag": (zigzag, {"a": f((192, 240)), "sums": np.zeros(40), "h": 6}, ("sums",)),
        "transposition": (transposition, {"a": f(MATRIX), "b": np.zeros((230, 150))}, ("b",)),
        "product": (
            product,
            {"a": f((110, 120)), "b": f((120, 130)), "c": f((110, 130))},
            ("c",),
        ),
        "stepped": (stepped, {"a": f(MATRIX)}, ("a",)),
        "cholesky": (cholesky, {"a": spd @ spd.T}, ("a",)),
        "lu": (lu, {"a": square(180)}, ("a",)),
        "forward": (forward, {"low": square(190), "x": f(190)}, ("x",)),
        "backward": (backward, {"up": square(190), "x": f(190)}, ("x",)),
        "syrk": (syrk, {"a": f((130, 120)), "c": f((130, 130)), "alpha": 0.5}, ("c",)),
        "gauss_seidel": (
            gauss_seidel,
            {"u": f(MATRIX), "f": f(MATRIX), "sweeps": 5},
            ("u",),
        ),
        "symmetric": (symmetric, {"u": f(50000), "sweeps": 3}, ("u",)),
        "heat": (heat, {"a": f(volume), "b": np.zeros(volume), "steps": 3}, ("a", "b")),
        "floyd_warshall": (floyd_warshall, {"d": rng.random((130, 130))}, ("d",)),
        "longest_common": (
            longest_common,
            {**strings, "best": np.zeros(MATRIX, "i4")},
            ("best",),
        ),
        "knapsack": (
            knapsack,
            {"weight": f(150), "value": f(150), "best": np.zeros(MATRIX)},
            ("best",),
        ),
        "correlation": (
            correlation,
            {
                "a": f((700, 44)),
                "mean": np.zeros(44),
                "deviation": np.zeros(44),
                "c": np.zeros((44, 44)),
            },
            ("mean", "deviation", "c"),
        ),
        "prefix_sums": (prefix_sums, {"a": f(MATRIX)}, ("a",)),
        "histogram": (histogram, {"a": f(MATRIX), "counts": np.zeros(8, "i8")}, ("counts",)),
        "masked": (
            masked,
            {"a": f(MATRIX), "b": f(MATRIX), "mask": rng.random(MATRIX) < 0.01},
            ("b",),
        ),
        "convolution": (
            convolution,
            {"a": f((152, 232)).astype("f4"), "k": f((3, 3)), "b": np.zeros(MATRIX, "f4")},
            ("b",),
        ),
        "red_black": (red_black, {"u": f(MATRIX)}, ("u",)),
        "pool": (pool, {"a": f(MATRIX), "b": np.zeros((50, 58))}, ("b",)),
        "reverse": (reverse, {"a": f(MATRIX), "b": np.zeros(MATRIX)}, ("b",)),
        "triangles": (
            triangles,
            {"a": f((110, 110)) + 1j * f((110, 110)), "b": np.zeros((110, 110), "c16")},
            ("b",),
        ),
        "durbin": (
            durbin,
            {"r": 0.1 * f(60), "y": np.zeros(60), "z": np.zeros(60)},
            ("y", "z"),
        ),
        "integers": (
            integers,
            {"a": rng.integers(0, 99, 30000), "b": np.zeros(30000, "i8")},
            ("b",),
        ),
    }

"""More nests as people write them: linear algebra, stencils, dynamic programming, statistics."""

import math
from typing import Any

import numpy as np

# -- linear algebra --------------------------------------------------------------------------------


def gemver(a, u, v, x, y, z, w, alpha, beta):  # type: ignore[no-untyped-def]
    n = a.shape[0]
    for i in range(n):
        for j in range(n):
            a[i, j] += u[i] * v[j]
    for i in range(n):
        for j in range(n):
            x[i] += beta * a[j, i] * y[j]
    for i in range(n):
        x[i] += z[i]
    for i in range(n):
        for j in range(n):
            w[i] += alpha * a[i, j] * x[j]


def gesummv(a, b, x, y, alpha, beta):  # type: ignore[no-untyped-def]
    for i in range(len(y)):
        s = 0.0
        t = 0.0
        for j in range(len(x)):
            s += a[i, j] * x[j]
            t += b[i, j] * x[j]
        y[i] = alpha * s + beta * t


def atax(a, x, y):  # type: ignore[no-untyped-def]
    for i in range(a.shape[0]):
        t = 0.0
        for j in range(a.shape[1]):
            t += a[i, j] * x[j]
        for j in range(a.shape[1]):
            y[j] += a[i, j] * t


def bicg(a, p, r, q, s):  # type: ignore[no-untyped-def]
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            s[j] += r[i] * a[i, j]
            q[i] += a[i, j] * p[j]


def outer_product(x, y, a):  # type: ignore[no-untyped-def]
    for i in range(len(x)):
        for j in range(len(y)):
            a[i, j] = x[i] * y[j]


def trmm(low, b):  # type: ignore[no-untyped-def]
    for i in range(b.shape[0]):
        for j in range(b.shape[1]):
            for k in range(i + 1, b.shape[0]):
                b[i, j] += low[k, i] * b[k, j]


def symm(a, b, c):  # type: ignore[no-untyped-def]
    for i in range(c.shape[0]):
        for j in range(c.shape[1]):
            s = 0.0
            for k in range(i):
                c[k, j] += a[i, k] * b[i, j]
                s += b[k, j] * a[i, k]
            c[i, j] += s + a[i, i] * b[i, j]


def syr2k(a, b, c):  # type: ignore[no-untyped-def]
    for i in range(c.shape[0]):
        for j in range(i + 1):
            for k in range(a.shape[1]):
                c[i, j] += a[i, k] * b[j, k] + b[i, k] * a[j, k]


def many_sides(low, b):  # type: ignore[no-untyped-def]
    for i in range(b.shape[0]):
        for k in range(i):
            for j in range(b.shape[1]):
                b[i, j] -= low[i, k] * b[k, j]
        for j in range(b.shape[1]):
            b[i, j] /= low[i, i]


def two_products(a, b, c, t, d):  # type: ignore[no-untyped-def]
    for i in range(t.shape[0]):
        for j in range(t.shape[1]):
            t[i, j] = 0.0
            for k in range(a.shape[1]):
                t[i, j] += a[i, k] * b[k, j]
    for i in range(d.shape[0]):
        for j in range(d.shape[1]):
            for k in range(t.shape[1]):
                d[i, j] += t[i, k] * c[k, j]


def gram_schmidt(a, q, r):  # type: ignore[no-untyped-def]
    for k in range(a.shape[1]):
        s = 0.0
        for i in range(a.shape[0]):
            s += a[i, k] * a[i, k]
        r[k, k] = math.sqrt(s)
        for i in range(a.shape[0]):
            q[i, k] = a[i, k] / r[k, k]
        for j in range(k + 1, a.shape[1]):
            for i in range(a.shape[0]):
                r[k, j] += q[i, k] * a[i, j]
            for i in range(a.shape[0]):
                a[i, j] -= q[i, k] * r[k, j]


def banded(diagonal, below, above, x, y):  # type: ignore[no-untyped-def]
    for i in range(1, len(x) - 1):
        y[i] = below[i] * x[i - 1] + diagonal[i] * x[i] + above[i] * x[i + 1]


def thomas(diagonal, below, above, d):  # type: ignore[no-untyped-def]
    n = len(d)
    for i in range(1, n):
        w = below[i] / diagonal[i - 1]
        diagonal[i] -= w * above[i - 1]
        d[i] -= w * d[i - 1]
    d[n - 1] /= diagonal[n - 1]
    for i in range(n - 2, -1, -1):
        d[i] = (d[i] - above[i] * d[i + 1]) / diagonal[i]


# -- stencils --------------------------------------------------------------------------------------


def jacobi_line(a, b, steps):  # type: ignore[no-untyped-def]
    for _ in range(steps):
        for i in range(1, len(a) - 1):
            b[i] = (a[i - 1] + a[i] + a[i + 1]) / 3
        for i in range(1, len(a) - 1):
            a[i] = b[i]


def nine_points(a, steps):  # type: ignore[no-untyped-def]
    for _ in range(steps):
        for i in range(1, a.shape[0] - 1):
            for j in range(1, a.shape[1] - 1):
                a[i, j] = (
                    a[i - 1, j - 1]
                    + a[i - 1, j]
                    + a[i - 1, j + 1]
                    + a[i, j - 1]
                    + a[i, j]
                    + a[i, j + 1]
                    + a[i + 1, j - 1]
                    + a[i + 1, j]
                    + a[i + 1, j + 1]
                ) / 9


def fields(ex, ey, hz, steps):  # type: ignore[no-untyped-def]
    n, m = hz.shape[0], hz.shape[1]
    for t in range(steps):
        for j in range(m):
            ey[0, j] = t
        for i in range(1, n):
            for j in range(m):
                ey[i, j] -= 0.5 * (hz[i, j] - hz[i - 1, j])
        for i in range(n):
            for j in range(1, m):
                ex[i, j] -= 0.5 * (hz[i, j] - hz[i, j - 1])
        for i in range(n - 1):
            for j in range(m - 1):
                hz[i, j] -= 0.7 * (ex[i, j + 1] - ex[i, j] + ey[i + 1, j] - ey[i, j])


def alternating(u, v, steps):  # type: ignore[no-untyped-def]
    for _ in range(steps):
        for i in range(u.shape[0]):
            for j in range(1, u.shape[1]):
                v[i, j] = 0.5 * (u[i, j] + v[i, j - 1])
        for j in range(u.shape[1]):
            for i in range(1, u.shape[0]):
                u[i, j] = 0.5 * (v[i, j] + u[i - 1, j])


def life(a, b):  # type: ignore[no-untyped-def]
    for i in range(1, a.shape[0] - 1):
        for j in range(1, a.shape[1] - 1):
            n = 0
            for p in range(-1, 2):
                for q in range(-1, 2):
                    n += a[i + p, j + q]
            n -= a[i, j]
            b[i, j] = 1 if n == 3 or (n == 2 and a[i, j] == 1) else 0


def advection(u, speed, steps):  # type: ignore[no-untyped-def]
    for _ in range(steps):
        for i in range(u.shape[0] - 1, 0, -1):
            for j in range(u.shape[1] - 1, 0, -1):
                u[i, j] -= speed[i, j] * (2 * u[i, j] - u[i - 1, j] - u[i, j - 1])


def edges(a, b):  # type: ignore[no-untyped-def]
    for i in range(1, a.shape[0] - 1):
        for j in range(1, a.shape[1] - 1):
            x = a[i - 1, j + 1] + 2 * a[i, j + 1] + a[i + 1, j + 1]
            x -= a[i - 1, j - 1] + 2 * a[i, j - 1] + a[i + 1, j - 1]
            y = a[i + 1, j - 1] + 2 * a[i + 1, j] + a[i + 1, j + 1]
            y -= a[i - 1, j - 1] + 2 * a[i - 1, j] + a[i - 1, j + 1]
            b[i, j] = math.hypot(x, y)


def halved(a, b):  # type: ignore[no-untyped-def]
    for i in range(b.shape[0]):
        for j in range(b.shape[1]):
            b[i, j] = (
                a[2 * i, 2 * j]
                + a[2 * i + 1, 2 * j]
                + a[2 * i, 2 * j + 1]
                + a[2 * i + 1, 2 * j + 1]
            ) / 4


# -- dynamic programming ---------------------------------------------------------------------------


def edit_distance(s, t, d):  # type: ignore[no-untyped-def]
    for i in range(d.shape[0]):
        d[i, 0] = i
    for j in range(d.shape[1]):
        d[0, j] = j
    for i in range(1, d.shape[0]):
        for j in range(1, d.shape[1]):
            change = 0 if s[i - 1] == t[j - 1] else 1
            d[i, j] = min(d[i - 1, j] + 1, d[i, j - 1] + 1, d[i - 1, j - 1] + change)


def local_alignment(s, t, h, best):  # type: ignore[no-untyped-def]
    for i in range(1, h.shape[0]):
        for j in range(1, h.shape[1]):
            same = 2 if s[i - 1] == t[j - 1] else -1
            h[i, j] = max(0, h[i - 1, j - 1] + same, h[i - 1, j] - 1, h[i, j - 1] - 1)
            best[0] = max(best[0], h[i, j])


def warping(x, y, d):  # type: ignore[no-untyped-def]
    for i in range(1, d.shape[0]):
        for j in range(max(1, i - 40), min(d.shape[1], i + 40)):
            cost = abs(x[i] - y[j])
            d[i, j] = cost + min(d[i - 1, j], d[i, j - 1], d[i - 1, j - 1])


def ways(grid, count):  # type: ignore[no-untyped-def]
    count[0, 0] = 1
    for i in range(count.shape[0]):
        for j in range(count.shape[1]):
            if grid[i, j]:
                if i > 0:
                    count[i, j] += count[i - 1, j]
                if j > 0:
                    count[i, j] += count[i, j - 1]


def folding(pairs, best):  # type: ignore[no-untyped-def]
    n = best.shape[0]
    for i in range(n - 2, -1, -1):
        for j in range(i + 1, n):
            best[i, j] = max(best[i + 1, j], best[i, j - 1], best[i + 1, j - 1] + pairs[i, j])
            for k in range(i + 1, j):
                best[i, j] = max(best[i, j], best[i, k] + best[k + 1, j])


def viterbi(step, seen, score):  # type: ignore[no-untyped-def]
    for t in range(1, score.shape[0]):
        for j in range(score.shape[1]):
            most = -1e300
            for i in range(score.shape[1]):
                most = max(most, score[t - 1, i] + step[i, j])
            score[t, j] = most + seen[t, j]


def longest_rising(a, length):  # type: ignore[no-untyped-def]
    for i in range(len(a)):
        length[i] = 1
        for j in range(i):
            if a[j] < a[i]:
                length[i] = max(length[i], length[j] + 1)


# -- statistics ------------------------------------------------------------------------------------


def covariance(a, mean, c):  # type: ignore[no-untyped-def]
    n, m = a.shape[0], a.shape[1]
    for j in range(m):
        s = 0.0
        for i in range(n):
            s += a[i, j]
        mean[j] = s / n
    for i in range(n):
        for j in range(m):
            a[i, j] -= mean[j]
    for p in range(m):
        for q in range(p, m):
            s = 0.0
            for i in range(n):
                s += a[i, p] * a[i, q]
            c[p, q] = s / (n - 1)
            c[q, p] = c[p, q]


def autocorrelation(x, r):  # type: ignore[no-untyped-def]
    for lag in range(len(r)):
        for i in range(len(x) - lag):
            r[lag] += x[i] * x[i + lag]


def smoothed(x, y, alpha):  # type: ignore[no-untyped-def]
    y[0] = x[0]
    for i in range(1, len(x)):
        y[i] = alpha * x[i] + (1 - alpha) * y[i - 1]


def distances(a, d):  # type: ignore[no-untyped-def]
    for i in range(a.shape[0]):
        for j in range(a.shape[0]):
            s = 0.0
            for k in range(a.shape[1]):
                s += (a[i, k] - a[j, k]) ** 2
            d[i, j] = math.sqrt(s)


def extremes(a, low, high):  # type: ignore[no-untyped-def]
    for j in range(a.shape[1]):
        low[j] = a[0, j]
        high[j] = a[0, j]
    for i in range(1, a.shape[0]):
        for j in range(a.shape[1]):
            low[j] = min(low[j], a[i, j])
            high[j] = max(high[j], a[i, j])


def scores(a, z):  # type: ignore[no-untyped-def]
    for i in range(a.shape[0]):
        s = 0.0
        t = 0.0
        for j in range(a.shape[1]):
            s += a[i, j]
        mean = s / a.shape[1]
        for j in range(a.shape[1]):
            t += (a[i, j] - mean) ** 2
        for j in range(a.shape[1]):
            z[i, j] = (a[i, j] - mean) / math.sqrt(t / a.shape[1])


def arguments(seed: int = 1) -> dict[str, tuple[Any, dict[str, Any], tuple[str, ...]]]:
    """Of each nest, the arguments, and which of them are written."""
    rng = np.random.default_rng(seed)
    f = rng.standard_normal
    shape, n = (150, 230), 150

    def square(k: int = n) -> Any:
        return f((k, k)) + k * np.eye(k)

    def line(k: int = n) -> Any:
        return f(k)

    strings = {"s": rng.integers(0, 4, 149).astype("i1"), "t": rng.integers(0, 4, 229).astype("i1")}
    grids = {"ex": f(shape), "ey": f(shape), "hz": f(shape)}
    diagonals = {"diagonal": 9 + rng.random(30000), "below": line(30000), "above": line(30000)}
    vectors = {p: line() for p in "uvxyzw"}
    return {
        "gemver": (gemver, {"a": square(), **vectors, "alpha": 0.5, "beta": 2.0}, ("a", "x", "w")),
        "gesummv": (
            gesummv,
            {"a": f(shape), "b": f(shape), "x": line(230), "y": line(), "alpha": 2.0, "beta": 0.5},
            ("y",),
        ),
        "atax": (atax, {"a": f(shape), "x": line(230), "y": np.zeros(230)}, ("y",)),
        "bicg": (
            bicg,
            {"a": f(shape), "p": line(230), "r": line(), "q": np.zeros(150), "s": np.zeros(230)},
            ("q", "s"),
        ),
        "outer_product": (outer_product, {"x": line(), "y": line(230), "a": f(shape)}, ("a",)),
        "trmm": (trmm, {"low": square(), "b": f((150, 90))}, ("b",)),
        "symm": (symm, {"a": square(100), "b": f((100, 90)), "c": f((100, 90))}, ("c",)),
        "syr2k": (syr2k, {"a": f((110, 90)), "b": f((110, 90)), "c": square(110)}, ("c",)),
        "many_sides": (many_sides, {"low": square(), "b": f((150, 90))}, ("b",)),
        "two_products": (
            two_products,
            {
                "a": f((90, 100)),
                "b": f((100, 80)),
                "c": f((80, 110)),
                "t": f((90, 80)),
                "d": f((90, 110)),
            },
            ("t", "d"),
        ),
        "gram_schmidt": (
            gram_schmidt,
            {"a": f((200, 40)), "q": np.zeros((200, 40)), "r": np.zeros((40, 40))},
            ("a", "q", "r"),
        ),
        "banded": (banded, {**diagonals, "x": line(30000), "y": np.zeros(30000)}, ("y",)),
        "thomas": (thomas, {**diagonals, "d": line(30000)}, ("diagonal", "d")),
        "jacobi_line": (
            jacobi_line,
            {"a": line(50000), "b": np.zeros(50000), "steps": 4},
            ("a", "b"),
        ),
        "nine_points": (nine_points, {"a": f(shape), "steps": 4}, ("a",)),
        "fields": (fields, {**grids, "steps": 3}, ("ex", "ey", "hz")),
        "alternating": (alternating, {"u": f(shape), "v": f(shape), "steps": 3}, ("u", "v")),
        "life": (
            life,
            {"a": rng.integers(0, 2, shape), "b": np.zeros(shape, "i8")},
            ("b",),
        ),
        "advection": (
            advection,
            {"u": f(shape), "speed": 0.2 * rng.random(shape), "steps": 4},
            ("u",),
        ),
        "edges": (edges, {"a": f(shape), "b": np.zeros(shape)}, ("b",)),
        "halved": (halved, {"a": f((300, 240)), "b": np.zeros((150, 120))}, ("b",)),
        "edit_distance": (edit_distance, {**strings, "d": np.zeros(shape, "i4")}, ("d",)),
        "local_alignment": (
            local_alignment,
            {**strings, "h": np.zeros(shape, "i4"), "best": np.zeros(1, "i4")},
            ("h", "best"),
        ),
        "warping": (warping, {"x": line(), "y": line(230), "d": np.ones(shape)}, ("d",)),
        "ways": (ways, {"grid": rng.random(shape) < 0.95, "count": np.zeros(shape)}, ("count",)),
        "folding": (
            folding,
            {"pairs": rng.integers(0, 2, (90, 90)), "best": np.zeros((90, 90), "i8")},
            ("best",),
        ),
        "viterbi": (
            viterbi,
            {"step": f((50, 50)), "seen": f((90, 50)), "score": np.zeros((90, 50))},
            ("score",),
        ),
        "longest_rising": (
            longest_rising,
            {"a": line(3000), "length": np.zeros(3000, "i8")},
            ("length",),
        ),
        "covariance": (
            covariance,
            {"a": f((700, 44)), "mean": np.zeros(44), "c": np.zeros((44, 44))},
            ("a", "mean", "c"),
        ),
        "autocorrelation": (autocorrelation, {"x": line(20000), "r": np.zeros(30)}, ("r",)),
        "smoothed": (smoothed, {"x": line(60000), "y": np.zeros(60000), "alpha": 0.1}, ("y",)),
        "distances": (distances, {"a": f((120, 90)), "d": np.zeros((120, 120))}, ("d",)),
        "extremes": (
            extremes,
            {"a": f(shape), "low": np.zeros(230), "high": np.zeros(230)},
            ("low", "high"),
        ),
        "scores": (scores, {"a": f(shape), "z": np.zeros(shape)}, ("z",)),
    }

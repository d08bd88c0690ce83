"""Three classic methods on all flights out of New York in 2013, in a seventh of their memory.

    python examples/learn.py [--memory 512MiB] [--flights N] [--directory DIR] [--quick]

Carriers, routes, hours, planes and the weather become 1491 columns of zeros and ones: 3.6 GiB, on
disk. The functions that learn from them are written as with NumPy, and the same functions take
NumPy's arrays as well: on a part that fits in memory, both are compared, with scikit-learn next to
them where it is installed. Needs 4 GiB of free disk, and removes what it makes.
"""

import argparse
import os
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onehot
from onehot import Floats, Table

import outcrop as oc

MIB, GIB = 1 << 20, 1 << 30

# Found without the held-out days: 80,000 of the other flights, a fifth of them, by blocks of days,
# to judge by. Of 0.0001, 0.001, 0.003, 0.01, 0.03 and 0.1 the one with the least log loss.
RIDGE = 0.1
STEPS = 12
PATTERNS = 6
UPDATES = 200
PART = 20_000  # flights that are compared in memory: 0.2 GiB, of which some copies are made


# The methods. Arrays are Outcrop's or NumPy's: the lines are the same.


def scales(X: Any) -> Any:
    """The mean and the standard deviation of each column."""
    return np.stack([X.mean(axis=0), X.std(axis=0)])


def standardized(X: Any, mean: Floats, deviation: Floats) -> Any:
    """Columns of mean 0 and deviation 1. One that is always the same has neither: it becomes 0."""
    return (X - mean) / np.where(deviation > 0, deviation, 1)


def correlations(Z: Any) -> Any:
    """The correlation of each column with each other one."""
    return Z.T @ Z / len(Z)


def logistic(Z: Any, y: Floats, C: Floats, ridge: float, steps: int) -> Any:
    """Intercept and weights that tell the probability of y from Z.

    Each step is Newton's with one matrix for all, which is never smaller than the true one, as no
    p (1 - p) is greater than 1/4 (Boehning and Lindsay, 1988), from a point somewhat ahead
    (Nesterov, 1983).
    """
    inverse = np.linalg.inv(C / 4 + ridge * np.eye(len(C)))
    b = last_b = np.log(y.mean() / (1 - y.mean()))
    w = last_w = np.zeros(len(C))
    for step in range(steps):
        ahead = step / (step + 3)
        b, last_b = b + ahead * (b - last_b), b
        w, last_w = w + ahead * (w - last_w), w
        error = probability(Z, b, w) - y
        b = b - 4 * error.mean()
        w = w - inverse @ (Z.T @ error / len(y) + ridge * w)
    return np.concatenate([b[None], w])


def probability(Z: Any, b: Any, w: Any) -> Any:
    """Of being late."""
    return 1 / (1 + np.exp(-(Z @ w + b)))


def factors(V: Any, W: Any, H: Any, updates: int) -> Any:
    """W and H without negative numbers, whose product is close to V (Lee and Seung, 2001).

    Both in one array, W above the transposed H.
    """
    for _ in range(updates):
        W = W * (V @ H.T) / (W @ (H @ H.T))
        H = H * (W.T @ V) / ((W.T @ W) @ H)
    return np.concatenate([W, H.T])


# What is said about them.


def log_loss(y: Floats, p: Floats) -> float:
    """The mean of -log of the probability that was given to what came true."""
    return float(-np.mean(np.where(y > 0, np.log(p), np.log1p(-p))))


def area(y: Floats, p: Floats) -> float:
    """How often, of a late flight and one on time, the late one was given the larger probability.

    The area under the curve of receiver operating characteristics; one half is chance.
    """
    _, place, count = np.unique(p, return_inverse=True, return_counts=True)
    rank = (np.cumsum(count) - (count - 1) / 2)[place]  # equal ones share the mean of their ranks
    late = y > 0
    n, m = int(late.sum()), int((~late).sum())
    return float((rank[late].sum() - n * (n + 1) / 2) / (n * m))


@dataclass
class Ledger:
    """What runs cost, a line for each, and whether that was known beforehand."""

    directory: Path
    moved: int = 0
    agreed: bool = True

    def title(self) -> None:
        """The heads of columns."""
        print(f"\n{'':38}{'seconds':>8}{'read':>10}{'planned':>10}{'wrote':>10}{'budget used':>13}")

    def computed(self, what: str, array: oc.Array) -> Any:
        """Compute an array, which fits in memory, to a file, as it was planned."""
        plan = oc.plan(array)
        result = array.save(self.directory / "result.zarr", overwrite=True)
        self.line(what, plan)
        return np.array(result)

    def line(self, what: str, plan: oc.Plan | None = None) -> None:
        """What the last run did."""
        run = oc.last_run()
        assert run is not None
        self.moved += run.bytes_read + run.bytes_written
        planned = ""
        if plan is not None:
            self.agreed &= (run.bytes_read, run.bytes_written) == (
                plan.bytes_read,
                plan.bytes_written,
            )
            planned = size(plan.bytes_read)
        print(
            f"  {what:36}{run.seconds:8.1f}{size(run.bytes_read):>10}{planned:>10}"
            f"{size(run.bytes_written):>10}{size(run.peak_bytes):>13}",
            flush=True,
        )


def size(nbytes: int) -> str:
    """Bytes, in few letters."""
    return f"{nbytes / GIB:.2f} GiB" if nbytes >= GIB else f"{nbytes / MIB:.0f} MiB"


def named(labels: Sequence[str], values: Floats, count: int) -> str:
    """The names of the largest values, the largest first."""
    return ", ".join(labels[k] for k in np.argsort(-values)[:count])


def demo(directory: Path, count: int | None, planes: int) -> None:
    """Make the table, learn from it in three ways, compare."""
    begin = time.perf_counter()
    budget = oc.config().memory
    table = onehot.load(count, planes)
    n, columns = table.shape
    y, known = table.late, table.known
    whole = oc.fromfunction(table.element, table.shape)
    print(
        f"{n:,} flights, {columns} columns of 0 and 1: {size(whole.nbytes)} in float64. "
        f"The budget is {size(budget)}.\n"
        f"{known:,} flights are there to learn from; the {n - known:,} of "
        f"{onehot.flights.HELD_OUT_DAYS} other days, to try it on."
    )
    ledger = Ledger(directory)
    ledger.title()
    # Tiles have whole rows: what is told from a flight is told from all of its columns.
    X = whole.save(directory / "flights.zarr", tile=(budget // 64 // (8 * columns), columns))
    ledger.line("the table, from codes of two bytes")

    mean, deviation = ledger.computed("means and deviations", scales(X[:known]))
    Z = standardized(X[:known], mean, deviation)
    C = ledger.computed("correlations", correlations(Z))
    variances, axes = np.linalg.eigh(C)
    variances, axes = variances[::-1], axes[:, ::-1]
    spread = ledger.computed("variances along the first axes", (Z @ axes[:, :PATTERNS]).var(axis=0))

    model = ledger.computed(
        f"logistic regression, {STEPS} steps", logistic(Z, y[:known], C, RIDGE, STEPS)
    )
    b, w = model[0], model[1:]
    others = standardized(X[known:], mean, deviation)
    p = ledger.computed("probabilities for the other days", probability(others, b, w))

    pairs, hours = table.columns("carrier and destination"), table.columns("hour of the week")
    random = np.random.default_rng(1)
    W0 = random.random((pairs.stop - pairs.start, PATTERNS))
    H0 = random.random((PATTERNS, hours.stop - hours.start))
    counts = X[:, pairs].T @ X[:, hours]
    WH = ledger.computed(
        f"patterns of traffic, {UPDATES} updates", factors(counts, W0, H0, UPDATES)
    )
    last = oc.last_run()
    assert last is not None

    tell_axes(table, axes, variances, spread)
    tell_late(table, w, y[known:], p, y[:known].mean())
    tell_patterns(table, WH)
    print(
        f"\n{size(ledger.moved)} moved, "
        f"{'exactly as planned' if ledger.agreed else 'NOT as planned'}. The process, "
        f"interpreter\nand libraries included, never had more than {size(last.peak_rss)}."
    )
    rows = min(PART, known, budget // 2 // (8 * columns))
    compare(X[:rows], y, counts, W0, H0)
    print(f"\nAll in all {time.perf_counter() - begin:.0f} s.")


def tell_axes(table: Table, axes: Floats, variances: Floats, spread: Floats) -> None:
    """What varies together."""
    print("\nWhat goes together (principal axes of the correlations):\n")
    for k in range(3):
        axis = axes[:, k]
        print(f"  {variances[k]:5.1f}  {named(table.labels, axis, 4)}")
        print(f"         against {named(table.labels, -axis, 4)}")
    error = np.abs(spread / variances[: len(spread)] - 1).max()
    print(f"  The flights' variances along these axes are the eigenvalues, to {error:.0e}.")


def tell_late(table: Table, w: Floats, y: Floats, p: Floats, rate: float) -> None:
    """Who is late, and how well that is known."""
    print("\nWho comes late (logistic regression), by days that were held out:\n")
    base = log_loss(y, np.full_like(y, rate))
    print(f"  {'':24}{'log loss':>10}{'AUC':>8}")
    print(f"  {'everybody the same':24}{base:10.4f}{0.5:8.3f}")
    print(f"  {'the model':24}{log_loss(y, p):10.4f}{area(y, p):8.3f}")
    sure = np.argsort(-p)[: max(len(p) // 20, 1)]
    print(
        f"  Of the twentieth that it warns of most, {y[sure].mean():.0%} came late; of all, "
        f"{y.mean():.0%}."
    )
    print(f"  Late:    {named(table.labels, w, 5)}")
    print(f"  On time: {named(table.labels, -w, 5)}")


def tell_patterns(table: Table, WH: Floats) -> None:
    """Which flights go when."""
    print("\nWhich flights go when (non-negative factors of their counts):\n")
    pairs, hours = table.columns("carrier and destination"), table.columns("hour of the week")
    W, H = np.split(WH, [pairs.stop - pairs.start])
    share = W.sum(axis=0) * H.sum(axis=0)
    for k in np.argsort(-share):
        when = named(table.labels[hours], H[:, k], 3)
        what = named(table.labels[pairs], W[:, k], 3)
        print(f"  {share[k] / share.sum():4.0%}  {when}: {what}")


def compare(X: oc.Array, late: Floats, counts: oc.Array, W0: Floats, H0: Floats) -> None:
    """The same by NumPy's arrays, and by scikit-learn, on a part that fits in memory."""
    y = late[: len(X)]
    own = results(X, y, counts, W0, H0)
    A, V = X.compute(), counts.compute()
    same = results(A, y, V, W0, H0)
    rows = {what: [difference(own[what], same[what])] for what in own}
    heads = ["NumPy's arrays"]
    if find_spec("sklearn"):
        import sklearn

        reference = by_scikit_learn(A, y, V, W0, H0)
        for what, differences in rows.items():
            differences.append(difference(own[what], reference[what]))
        heads.append(f"scikit-learn {sklearn.__version__}")
    print(f"\nThe same by others, on {len(A):,} flights in memory; largest differences:\n")
    print(f"  {'':30}" + "".join(f"{head:>20}" for head in heads))
    for what, differences in rows.items():
        print(f"  {what:30}" + "".join(f"{d:20.1e}" for d in differences))
    # Told by fractions, which give the deviations of columns of 0 and 1 exactly.
    print("\nOf the deviations, NumPy's are the less exact: it adds one row to the next.")
    if len(heads) == 1:
        print("With scikit-learn installed (pip install scikit-learn), it is compared too.")
    else:
        print(f"scikit-learn's probabilities are the optimum, ours what {STEPS} steps come to.")


def results(X: Any, y: Floats, V: Any, W0: Floats, H0: Floats) -> dict[str, Floats]:
    """All that is compared, of arrays of either kind."""
    mean, deviation = np.asarray(scales(X))
    Z = standardized(X, mean, deviation)
    C = np.asarray(correlations(Z))
    model = np.asarray(logistic(Z, y, C, RIDGE, STEPS))
    return {
        "means": mean,
        "deviations": deviation,
        "variances along axes": np.linalg.eigvalsh(C)[::-1][:PATTERNS],
        "probabilities of being late": np.asarray(probability(Z, model[0], model[1:])),
        "patterns of traffic": np.asarray(factors(V, W0, H0, UPDATES)),
    }


def by_scikit_learn(A: Floats, y: Floats, V: Floats, W0: Floats, H0: Floats) -> dict[str, Floats]:
    """The same."""
    from sklearn.decomposition import NMF, PCA
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler().fit(A)
    Z = scaler.transform(A)
    # Its variances are divided by n - 1.
    pca = PCA(PATTERNS, svd_solver="covariance_eigh").fit(Z)
    model = LogisticRegression(
        C=1 / (RIDGE * len(A)), solver="newton-cholesky", tol=1e-10, max_iter=100
    ).fit(Z, y)
    nmf = NMF(PATTERNS, init="custom", solver="mu", max_iter=UPDATES, tol=0)
    W = nmf.fit_transform(V, W=W0.copy(), H=H0.copy())
    return {
        "means": scaler.mean_,
        "deviations": np.sqrt(scaler.var_),
        "variances along axes": pca.explained_variance_ * (len(A) - 1) / len(A),
        "probabilities of being late": model.predict_proba(Z)[:, 1],
        "patterns of traffic": np.concatenate([W, nmf.components_.T]),
    }


def difference(one: Floats, other: Floats) -> float:
    """The largest, as a part of the largest value."""
    return float(np.abs(one - other).max() / np.abs(other).max())


def main() -> None:
    """Parse the command line, and tidy up in any case."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--memory", default="512MiB", help="memory budget")
    parser.add_argument("--flights", type=int, help="about so many; default: all")
    parser.add_argument("--planes", type=int, default=640, help="planes with columns of their own")
    parser.add_argument("--directory", type=Path, help="where to put the table; default: scratch")
    parser.add_argument("--quick", action="store_true", help="5000 flights in 24 MiB")
    options = parser.parse_args()
    if options.flights is not None and options.flights < 1000:
        parser.error("--flights: of less than 1000, there is little to learn")
    if options.quick:
        options.memory, options.flights, options.planes = "24MiB", 5000, 20
    oc.config(memory=options.memory)
    if options.directory and not options.directory.is_dir():
        parser.error(f"--directory: {options.directory} is no directory")
    parent = options.directory or os.environ.get("TMPDIR") or "/var/tmp"
    # What ends a process politely ends it as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="outcrop-learn-", dir=parent) as directory:
        oc.config(scratch=directory)
        demo(Path(directory), options.flights, options.planes)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("interrupted")
    except oc.OutcropError as error:
        sys.exit(str(error))

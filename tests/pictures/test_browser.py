"""Pictures and pages as a browser shows them: Chromium without a window measures them.

Needs ``chromium`` or ``chromium-headless-shell`` (packages of those names in Debian), Chrome, or
the path of one in the environment variable ``OUTCROP_CHROMIUM``.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import outcrop as oc

NAMES = (
    *("chromium-headless-shell", "chrome-headless-shell", "headless_shell"),
    *("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"),
)

MEASURE = """
const box = e => { const r = e.getBoundingClientRect();
                   return [r.left, r.top, r.right, r.bottom]; };
const svg = document.querySelector("svg.outcrop-plan");
const colours = e => getComputedStyle(e).fill;
const found = {
  picture: box(svg),
  boxes: [...svg.querySelectorAll(".outcrop-box")].map(g => ({
    outline: [...g.querySelectorAll("rect")].map(box),
    fill: colours([...g.querySelectorAll("rect")].pop()),
    texts: [...g.querySelectorAll("text")].map(t =>
      ({text: t.textContent, box: box(t), fill: colours(t)}))})),
  around: [...svg.querySelectorAll(":scope > text")].map(t =>
    ({text: t.textContent, box: box(t), fill: colours(t)})),
  ground: colours(svg.querySelector(".outcrop-ground")),
  points: [],
};
const edges = svg.querySelector(".outcrop-edge");
if (edges) {
  const origin = svg.getBoundingClientRect();
  for (const part of edges.getAttribute("d").split("M").slice(1)) {
    const line = edges.cloneNode();
    line.setAttribute("d", "M" + part);
    svg.appendChild(line);
    const length = line.getTotalLength();
    for (let at = 0; at <= length; at += 2) {
      const p = line.getPointAtLength(at);
      found.points.push([p.x + origin.left, p.y + origin.top]);
    }
    line.remove();
  }
}
const result = document.createElement("script");
result.type = "application/json";
result.id = "measured";
result.textContent = JSON.stringify(found).replaceAll("<", "\\\\u003c");
document.body.appendChild(result);
"""

# Whatever a page tried to load would be refused, and that be told; scripts are only those above.
POLICY = (
    "<meta http-equiv='Content-Security-Policy' "
    "content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'nonce-measure'\">"
)

Box = tuple[float, float, float, float]


@pytest.fixture(scope="module")
def chromium() -> str:
    named = os.environ.get("OUTCROP_CHROMIUM")
    found = named or next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip("there is no Chromium: install one, or name it in OUTCROP_CHROMIUM")
    return found


class Browser:
    """Loads pages of its own making, each in a process of its own."""

    def __init__(self, chromium: str, path: Path) -> None:
        self._chromium, self._path = chromium, path

    def measured(self, page: str, *, dark: bool, body: str = "") -> Any:
        """What a page measures of itself."""
        file = self._path / "page.html"
        file.write_text(
            f"<!doctype html><html lang='en'><meta charset='utf-8'>{POLICY}"
            f"<title>a notebook</title><body {body}>{page}"
            f"<script nonce='measure'>{MEASURE}</script>",
            encoding="utf-8",
        )
        command = [
            self._chromium,
            *("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
            *("--disable-dev-shm-usage", f"--user-data-dir={self._path / 'profile'}"),
            *("--window-size=1600,1200", "--virtual-time-budget=2000"),
            *("--enable-logging=stderr", "--dump-dom"),
            # What a system says that has a dark theme.
            f"--blink-settings=preferredColorScheme={0 if dark else 1}",
            file.as_uri(),
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
        # Whatever a page complains of is said there.
        assert "CONSOLE" not in done.stderr, done.stderr
        _, begin, rest = done.stdout.rpartition('id="measured">')
        assert begin, done.stderr
        return json.loads(rest.partition("</script>")[0])


@pytest.fixture
def browser(chromium: str, tmp_path: Path) -> Browser:
    return Browser(chromium, tmp_path)


def inside(inner: Box, outer: Box) -> bool:
    return (
        outer[0] <= inner[0]
        and outer[1] <= inner[1]
        and inner[2] <= outer[2]
        and inner[3] <= outer[3]
    )


def overlap(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def luminance(colour: str) -> float:
    """How bright a colour is, as the guidelines for accessible pages have it (WCAG 2)."""
    parts = [float(p) / 255 for p in colour.removeprefix("rgb(").removesuffix(")").split(",")]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))


def contrast(one: str, other: str) -> float:
    dark, bright = sorted((luminance(one), luminance(other)))
    return (bright + 0.05) / (dark + 0.05)


def check(found: Any, *, dark: bool) -> None:
    """Whether everything is where it can be read."""
    assert (luminance(found["ground"]) < 0.2) == dark
    texts = list(found["around"])
    outlines = []
    for box in found["boxes"]:
        # The front sheet is the last one that is drawn.
        front = box["outline"][-1]
        for text in box["texts"]:
            assert inside(text["box"], front), (text, front)
            assert contrast(text["fill"], box["fill"]) >= 4.5
        lines = [text["box"] for text in box["texts"]]
        assert not any(overlap(a, b) for i, a in enumerate(lines) for b in lines[i + 1 :])
        left, top, right, bottom = np.array(box["outline"]).T
        outlines.append((left.min(), top.min(), right.max(), bottom.max()))
    for text in texts:
        assert inside(text["box"], found["picture"]), text
        assert contrast(text["fill"], found["ground"]) >= 4.5
        assert not any(overlap(text["box"], outline) for outline in outlines), text
    for i, text in enumerate(texts):
        assert not any(overlap(text["box"], other["box"]) for other in texts[i + 1 :]), text
    for i, outline in enumerate(outlines):
        assert inside(outline, found["picture"])
        assert not any(overlap(outline, other) for other in outlines[i + 1 :])
    # No edge goes through a box, nor behind one; at its ends it touches them.
    for x, y in found["points"]:
        for left, top, right, bottom in outlines:
            assert not (left + 1 < x < right - 1 and top + 1 < y < bottom - 1)


def test_what_would_be_found(browser: Browser, tmp_path: Path) -> None:
    """What loads something, runs a script, or has text beside its box is noticed."""
    page = oc.plan(stored(tmp_path / "X.zarr", 30, 20).sum(axis=0))._repr_html_()
    check(browser.measured(page, dark=False), dark=False)
    for more in ("<img src='http://127.0.0.1:9/a.png'>", "<script>1</script>", "<b onclick='1'>"):
        with pytest.raises(AssertionError, match="CONSOLE"):
            browser.measured(page + more, dark=False)
    wide = page.replace(">X.zarr<", ">WWWWWWWWWWWWWWWWWWWWWWWWWWWW<")
    with pytest.raises(AssertionError, match="WWWW"):
        check(browser.measured(wide, dark=False), dark=False)


def stored(path: Path, *shape: int) -> oc.Array:
    return oc.asarray(np.ones(shape)).save(path)


def plans(path: Path) -> dict[str, oc.Plan]:
    X, y = stored(path / "X.zarr", 300, 20), stored(path / "y.zarr", 300)
    A = stored(path / ("a name that is far too long for a box " * 3 + ".zarr"), 40, 40)
    W, H = (
        stored(path / "WWWWWWWWWWWWWWWWWWWW.zarr", 300, 3),
        stored(path / "漢字 größe.zarr", 3, 20),
    )
    own = A
    for _ in range(6):
        own = np.exp(own @ A) - own.mean(axis=0)
    for _ in range(20):
        H = H * (W.T @ X) / (W.T @ W @ H)
        W = W * (X @ H.T) / (W @ (H @ H.T))
    return {
        "a sum": oc.plan(X.sum(axis=0)),
        "a symmetric part": oc.plan(A + A.T),
        "normal equations": oc.plan(oc.linalg.solve(X.T @ X, X.T @ y)),
        "a factorization": oc.plan(oc.linalg.cholesky(A), path / "L.zarr"),
        "factors": oc.plan({path / "W.zarr": W, path / "H.zarr": H}),
        "a movement": oc.plan(X.T, path / "turned.npy"),
        "a loop": oc.plan(own),
    }


@pytest.mark.parametrize("dark", [False, True])
def test_pages_of_plans(browser: Browser, tmp_path: Path, dark: bool) -> None:
    for name, plan in plans(tmp_path).items():
        found = browser.measured(plan._repr_html_(), dark=dark)
        assert found["boxes"] and found["points"], name
        check(found, dark=dark)


def test_a_picture_with_everything_in_it(browser: Browser, tmp_path: Path) -> None:
    plan = plans(tmp_path)["a loop"]
    plan.show(tmp_path / "plan.svg", folded=False)
    found = browser.measured((tmp_path / "plan.svg").read_text(), dark=True)
    assert len(found["boxes"]) > 20
    check(found, dark=True)


@pytest.mark.parametrize(
    ("body", "dark", "is_dark"),
    [
        ('data-jp-theme-light="true"', True, False),
        ('data-jp-theme-light="false"', False, True),
        ('class="vscode-dark"', False, True),
        ('class="vscode-light"', True, False),
    ],
)
def test_the_theme_of_a_notebook_is_followed(
    browser: Browser, tmp_path: Path, body: str, dark: bool, is_dark: bool
) -> None:
    plan = oc.plan(stored(tmp_path / "X.zarr", 30, 20).sum(axis=0))
    check(browser.measured(plan._repr_html_(), dark=dark, body=body), dark=is_dark)

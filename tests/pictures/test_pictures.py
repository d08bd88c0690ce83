"""Pictures of plans: their files, what is folded in them, and names that would be markup."""

import builtins
import errno
import os
import re
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import outcrop as oc

SVG = "{http://www.w3.org/2000/svg}"


def boxes(svg: str) -> list[list[str]]:
    """The lines of each box of a picture."""
    root = ElementTree.fromstring(svg)
    groups = [g for g in root.iter(f"{SVG}g") if g.get("class") == "outcrop-box"]
    return [[text.text or "" for text in g.iter(f"{SVG}text")] for g in groups]


@pytest.fixture
def drawn(tmp_path: Path) -> Callable[..., list[list[str]]]:
    def draw(plan: oc.Plan, **options: Any) -> list[list[str]]:
        path = tmp_path / "drawn.svg"
        plan.show(path, overwrite=True, **options)
        return boxes(path.read_text())

    return draw


def stored(path: Path, shape: tuple[int, ...]) -> oc.Array:
    return oc.asarray(np.ones(shape)).save(path)


@pytest.fixture
def plan(tmp_path: Path) -> oc.Plan:
    X = stored(tmp_path / "X.zarr", (60, 50))
    return oc.plan((X - X.mean(axis=0)).T @ X)


def factors(X: Any, W: Any, H: Any, steps: int) -> tuple[Any, Any]:
    for _ in range(steps):
        H = H * (W.T @ X) / (W.T @ W @ H)
        W = W * (X @ H.T) / (W @ (H @ H.T))
    return W, H


def test_iterations_are_one_box(tmp_path: Path, drawn: Callable[..., list[list[str]]]) -> None:
    X, W, H = (
        stored(tmp_path / f"{name}.zarr", shape)
        for name, shape in (("X", (60, 50)), ("W", (60, 3)), ("H", (3, 50)))
    )
    W, H = factors(X, W, H, 20)
    plan = oc.plan({tmp_path / "W1.zarr": W, tmp_path / "H1.zarr": H})
    folded = drawn(plan)
    names = [box[0] for box in folded]
    assert sorted(names) == [
        *("H.zarr", "W.zarr", "X.zarr"),
        *("divide", "divide", "x 20, one after the other"),
    ]
    (loop,) = (box for box in folded if box[0].startswith("x 20"))
    text = " ".join(loop)
    assert "6 matmul" in text and "2 multiply" in text and "2 divide" in text
    assert "hands on divide 60 x 3 float64" in text and "hands on divide 3 x 50 float64" in text
    # Every array is somewhere: ten in each iteration, and what they begin with.
    everything = drawn(plan, folded=False)
    assert len(everything) == 20 * 10 + 3
    assert "200 arrays" in text
    # And results are told whether they are repeated or not.
    for shown in (folded, everything):
        assert sum(line.startswith("result") for box in shown for line in box) == 2


def test_sums_one_after_the_other(tmp_path: Path, drawn: Callable[..., list[list[str]]]) -> None:
    A = stored(tmp_path / "A.zarr", (31, 40))
    x = A[0]
    for i in range(1, 31):
        x = x + A[i]
    leaves, loop, result = drawn(oc.plan(x))
    assert leaves[0].startswith("x 31: A.zarr[0")
    assert loop[:2] == ["x 30, one after the other", "add"]
    assert result[0] == "add" and result[2].startswith("result")


def test_a_stack_of_arrays(drawn: Callable[..., list[list[str]]]) -> None:
    arrays = [oc.asarray(np.full((4, 5), float(i))) for i in range(300)]
    leaves, result = drawn(oc.plan(oc.stack(arrays)))
    assert leaves[0].startswith("x 300: ")
    assert leaves[1] == "1 x 4 x 5 float64, 46.9 KiB in all"
    assert result[0] == "concatenate"
    # Each of which is made of one first.
    leaves, made, result = drawn(oc.plan(oc.stack([np.exp(a) * 2 for a in arrays])))
    assert made[0] == "x 300, side by side"
    assert made[1] == "exp, multiply"
    assert not any(line.startswith("hands on") for line in made)


def test_where_nothing_is_repeated(plan: oc.Plan, drawn: Callable[..., list[list[str]]]) -> None:
    assert drawn(plan) == drawn(plan, folded=False)
    assert plan.explain() == plan.explain(folded=False)


def test_views_of_an_array_are_told_apart(
    tmp_path: Path, drawn: Callable[..., list[list[str]]]
) -> None:
    A = stored(tmp_path / "A.zarr", (40, 40))
    names = [box[0] for box in drawn(oc.plan(A + A.T))]
    assert names == ["A.zarr", "A.zarr, transposed", "add"]


def test_passes_that_are_repeated_are_told_once(tmp_path: Path) -> None:
    X, w = stored(tmp_path / "X.zarr", (1500, 200)), oc.zeros(200)
    for _ in range(12):
        w = w - 1e-7 * (X.T @ (X @ w))
    with oc.config(memory="1MiB"):
        plan = oc.plan(w)
    folded, everything = plan.explain(), plan.explain(folded=False)
    assert "  and the same 2 parts 10 times more, to pass 12" in folded.splitlines()
    assert "more" not in everything.split("reads")[0]
    assert len(folded.splitlines()) < len(everything.splitlines()) / 2
    # What it moves in all is told in the same words.
    assert folded.splitlines()[-5:] == everything.splitlines()[-5:]


def test_arrays_that_are_alike_are_told_once(tmp_path: Path) -> None:
    arrays = [stored(tmp_path / f"{i}.zarr", (20, 30)) for i in range(9)]
    text = oc.plan(oc.concat(arrays)).explain()
    assert "and 8 arrays more like it, to 8.zarr" in text
    assert "5.zarr" not in text.split("keeps")[-1]


# -- files -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "begin"), [("a.svg", b"<svg"), ("a.PNG", b"\x89PNG"), ("a.pdf", b"%PDF")]
)
def test_formats(plan: oc.Plan, tmp_path: Path, name: str, begin: bytes) -> None:
    path = tmp_path / name
    plan.show(path)
    first = path.read_bytes()
    assert first.startswith(begin)
    plan.show(str(path), overwrite=True)
    assert path.read_bytes() == first


def test_what_a_png_shows(plan: oc.Plan, tmp_path: Path) -> None:
    from matplotlib.image import imread

    plan.show(tmp_path / "plan.svg")
    plan.show(tmp_path / "plan.png")
    root = ElementTree.parse(tmp_path / "plan.svg").getroot()
    width, height = (float(root.get(name, "")) for name in ("width", "height"))
    pixels = imread(tmp_path / "plan.png")[..., :3]
    # Twice as sharp.
    assert pixels.shape[:2] == pytest.approx((2 * height, 2 * width), abs=2)
    scale = pixels.shape[1] / width
    for box in root.iter(f"{SVG}rect"):
        if box.get("x") is None:
            continue
        x, y, w, h = (float(box.get(name, "")) for name in ("x", "y", "width", "height"))
        # Near a corner, where there is no text.
        inside = pixels[int((y + h - 3) * scale), int((x + w - 4) * scale)]
        fill = box.get("fill", "")
        assert np.rint(255 * inside).tolist() == list(bytes.fromhex(fill[1:]))


def test_a_file_that_is_there_stays(plan: oc.Plan, tmp_path: Path) -> None:
    path, link = tmp_path / "plan.svg", tmp_path / "link.svg"
    path.write_text("precious")
    path.chmod(0o640)
    link.symlink_to(path)
    for place in (path, link):
        with pytest.raises(oc.ArrayExistsError, match="overwrite=True"):
            plan.show(place)
    assert path.read_text() == "precious"
    plan.show(link, overwrite=True)
    assert link.is_symlink()
    assert path.read_text().startswith("<svg")
    assert path.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("name", ["plan.svg", "plan.png"])
def test_a_failure_leaves_what_was_there(
    plan: oc.Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    directory = tmp_path / "pictures"
    directory.mkdir()
    (directory / name).write_text("precious")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(oc.StorageFullError, match=rf"{name}: No space left"):
            plan.show(directory / name, overwrite=True)
    assert [path.name for path in directory.iterdir()] == [name]
    assert (directory / name).read_text() == "precious"


def test_places_where_there_can_be_no_picture(plan: oc.Plan, tmp_path: Path) -> None:
    for name in ("plan.gif", "plan", "plan.svg.gz", ".svg"):
        with pytest.raises(oc.UnsupportedError, match=r"\.svg, \.png or \.pdf"):
            plan.show(tmp_path / name)
    with pytest.raises(oc.StorageError, match="No such file"):
        plan.show(tmp_path / "missing" / "plan.svg")
    (tmp_path / "folder.svg").mkdir()
    with pytest.raises(oc.StorageError, match="a directory, not a file"):
        plan.show(tmp_path / "folder.svg", overwrite=True)
    with pytest.raises(oc.InvalidTypeError):
        plan.show(3)  # type: ignore[arg-type]


def test_a_directory_that_may_not_be_written_to(
    plan: oc.Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.open

    def refused(name: str, flags: int, *mode: int) -> int:
        # As for whoever is not root.
        if flags & os.O_CREAT:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return real(name, flags, *mode)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refused)
        with pytest.raises(oc.StoragePermissionError, match=r"plan\.svg: Permission denied"):
            plan.show(tmp_path / "plan.svg")
    assert not list(tmp_path.glob("*.svg"))


@pytest.mark.parametrize("name", ["plan.png", "plan.pdf"])
def test_without_matplotlib(
    plan: oc.Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    real = builtins.__import__

    def missing(name: str, *arguments: Any, **options: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ModuleNotFoundError(name)
        return real(name, *arguments, **options)

    monkeypatch.delitem(sys.modules, "matplotlib.figure", raising=False)
    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(oc.UnsupportedError, match=r"pip install 'outcrop\[plot\]'"):
        plan.show(tmp_path / name)
    # SVG is our own.
    plan.show(tmp_path / "plan.svg")


def test_too_much_for_a_picture(tmp_path: Path) -> None:
    A = oc.asarray(np.ones((2500, 2)))
    plan = oc.plan(oc.stack([A[i] for i in range(2100)]))
    with pytest.raises(oc.UnsupportedError, match="folded=True"):
        plan.show(tmp_path / "plan.svg", folded=False)
    plan.show(tmp_path / "plan.svg")
    assert "<svg" in plan._repr_html_()


# -- names that would be markup ------------------------------------------------------------------

HOSTILE = "<img src=x onerror=alert(1)> & \"q\" 'a' ]]> \x07\u202e {}.zarr"


class Tags(HTMLParser):
    """What a browser would make of a page."""

    ALLOWED = frozenset(
        {"div", "svg", "title", "desc", "style", "rect", "text", "path", "g"}
        | {"details", "summary", "pre", "table", "caption", "tbody", "tr", "th", "td"}
    )

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in self.ALLOWED, tag
        for name, value in attrs:
            assert not name.startswith("on") and name not in ("href", "src", "id"), name
            assert "url(" not in (value or "")
        self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def read(page: str) -> str:
    """The text of a page, which is whole and has nothing that is not ours."""
    page.encode()
    tags = Tags()
    tags.feed(page)
    tags.close()
    assert not tags.open
    # Nothing is loaded: the one address is the name of SVG.
    assert set(re.findall(r"https?://[^\"' ]*", page)) <= {"http://www.w3.org/2000/svg"}
    assert "@import" not in page
    return tags.text


def test_names_that_would_be_markup(tmp_path: Path) -> None:
    path = tmp_path / HOSTILE
    A = stored(path, (40, 30))
    plans = [
        oc.plan(A - A.mean(axis=0)),
        oc.plan(A.T, tmp_path / HOSTILE.replace("zarr", "npy")),
        oc.plan(oc.concat([A[i : i + 2] * 2 for i in range(8)])),
    ]
    pages = [plan._repr_html_() for plan in plans]
    for plan, page in zip(plans, pages, strict=True):
        assert "onerror=alert(1)" in read(page)
        plan.show(tmp_path / "plan.svg", overwrite=True)
        for element in ElementTree.parse(tmp_path / "plan.svg").iter():
            assert element.tag.removeprefix(SVG) in Tags.ALLOWED
        for suffix in ("png", "pdf"):
            plan.show(tmp_path / f"plan.{suffix}", overwrite=True)
    assert "onerror=alert(1)" in read(A._repr_html_())
    read((A + 1)._repr_html_())
    # Names need not even be text.
    other = stored(tmp_path / HOSTILE.replace("x", "\udcff"), (4, 3))
    assert "onerror=alert(1)" in read(other._repr_html_())
    A.T.save(tmp_path / "turned.npy")
    run = oc.last_run()
    assert run is not None
    read(run._repr_html_())


def test_pages_can_be_read_by_those_who_do_not_see(plan: oc.Plan, tmp_path: Path) -> None:
    root = ElementTree.fromstring(re.findall(r"(?s)<svg.*</svg>", plan._repr_html_())[0])
    assert root.get("role") == "img"
    title, description = root[0], root[1]
    assert title.tag == f"{SVG}title" and title.text == root.get("aria-label")
    assert "X.zarr" in (description.text or "")
    page = plan._repr_html_()
    assert plan.explain().splitlines()[-1] in read(page)
    table = stored(tmp_path / "B.zarr", (3, 4))._repr_html_()
    assert "outcrop.Array</caption>" in table
    assert table.count("scope='row'") == table.count("<tr>")

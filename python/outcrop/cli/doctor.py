"""``outcrop doctor``: how fast a directory's disk is, and how it is used."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from outcrop.cli.results import aligned
from outcrop.cli.session import Session, pass_session
from outcrop.process.cache import cache_directory
from outcrop.process.device import doctor as measure
from outcrop.process.sizes import format_bytes, format_rate
from outcrop.program.progress import Steps

__all__ = ["doctor"]


@click.command()
@click.argument("directory", metavar="[DIR]", default=".", type=click.Path())
@click.option("--quick", is_flag=True, help="Measure for a second rather than twenty.")
@click.option("--json", "as_json", is_flag=True, help="Print the device profile as JSON.")
@pass_session
def doctor(session: Session, directory: str, quick: bool, as_json: bool) -> None:
    """Measure the disk of a directory, and say which I/O engine is used and why.

    Temporary files are written, read and removed there. The device profile is kept in the user's
    cache directory, for planning.
    """
    with session.work("measuring", Steps()) as work:
        profile = measure(directory, quick, progress=work.progress)
    if as_json:
        click.echo(json.dumps(profile, indent=2))
    else:
        click.echo(_text(profile))


def _text(profile: Mapping[str, Any]) -> str:
    device = profile.get("device") or {}
    alignment = profile.get("alignment")
    direct = "yes" if profile.get("direct") else "no: buffered, the page cache is emptied after use"
    if profile.get("direct") and alignment:
        direct += f", aligned to {format_bytes(alignment)}"
    facts = {
        "directory": str(profile.get("directory", "")),
        "device": str(device.get("source", "")),
        "file system": str(device.get("file_system", "")),
        "engine": str(profile.get("engine", "")),
    }
    for number, reason in enumerate(profile.get("reasons", [])):
        facts["not used" if number == 0 else " " * number] = reason
    facts["direct I/O"] = direct
    kept = _kept(profile)
    facts["kept in"] = str(kept) if kept else "nowhere: the cache directory cannot be written"
    return f"{aligned(facts)}\n\n{_table(profile)}"


def _table(profile: Mapping[str, Any]) -> str:
    reads = {point["request"]: point for point in profile.get("reads", [])}
    writes = {point["request"]: point for point in profile.get("writes", [])}
    rows = [["request", "reads", "depth", "writes", "depth"]]
    for request in sorted(reads | writes):
        row = [_request(request)]
        for points in (reads, writes):
            point = points.get(request)
            row += (
                [format_rate(point["bytes_per_second"], 1), str(point["depth"])] if point else "--"
            )
        rows.append(row)
    lines = _columns(rows)
    lasting = {
        "writing a new file": profile.get("first_writes"),
        "writing over it": profile.get("rewrites"),
        "reading and writing a new file": profile.get("first_both"),
        "reading and writing over a file": profile.get("both"),
    }
    lines.append("")
    for what, rates in lasting.items():
        if rates:
            rate, keeping = format_rate(rates["bytes_per_second"], 1), rates["keeping"] * (1 << 30)
            lines.append(f"{what}: {rate}, then {keeping:.2f} s/GiB until it is durable")
    if memory := profile.get("memory"):
        last = memory[-1]
        used, seconds = format_bytes(last["bytes"]), last["seconds"]
        lines += [f"memory: {used} used for the first time in {seconds:.1f} s"]
    if arranging := profile.get("arranging"):
        rates = (format_rate(arranging[what], 1) for what in ("turned", "copied"))
        lines += ["elements in memory: turned {}, copied {}".format(*rates)]
    return "\n".join(lines)


def _request(nbytes: int) -> str:
    # Powers of two, which need no decimals.
    return f"{nbytes >> 20} MiB" if nbytes >= 1 << 20 else f"{nbytes >> 10} KiB"


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True))
        for row in rows
    ]


def _kept(profile: Mapping[str, Any]) -> Path | None:
    """The file in the user's cache directory that holds the profile."""
    cache = cache_directory()
    for path in sorted(cache.glob("profiles/*.json")) if cache is not None else ():
        try:
            found = json.loads(path.read_bytes())
        except (OSError, ValueError):
            continue
        if found == profile:
            return path
    return None

"""pipesim record-links."""

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipesim.cli import options
from pipesim.errors import InputError

if TYPE_CHECKING:
    from pipesim.recorders.link_files import Links
    from pipesim.recorders.links import LinkSettings

PROCESSES = 2


@click.command("record-links")
@click.option("--output", "-o", type=click.Path(), required=True, help="Folder to write to; may be that of a trace.")
@click.option("--processes", "-n", type=int, default=PROCESSES, show_default=True, help="Processes to start here.")
@click.option("--backend", default="auto", show_default=True, help="gloo or nccl; auto: nccl if each has a GPU.")
@click.option("--samples", type=int, default=15, show_default=True, help="Samples of each size.")
@click.option("--smallest", default="4 B", show_default=True, help="The smallest message.")
@click.option("--largest", default="64 MiB", show_default=True, help="The largest message.")
@click.option("--patience", type=float, default=60.0, show_default=True, help="Seconds to wait for a quiet CPU.")
@options.force
@options.as_json
def record_links(output: str, processes: int, as_json: bool, **given: Any) -> None:
    """Time transfers and all-reduces between processes, and write a cluster file.

    Starts processes on this machine, joined over its loopback. Under torchrun, the processes that it started are used,
    on all their nodes; start it once per node as for training.

    \b
    Writes into the folder
      transfers.csv    seconds of every message sent and of every all-reduce
      cluster.toml     a cluster whose links take as long as was recorded
      links.toml       devices, backend, machine, command

    \b
    Examples:
      pipesim record-links --output links
      pipesim record-links --processes 4 --output links --json
      torchrun --nproc-per-node 8 -m pipesim record-links --output links
      pipesim simulate gpt links/cluster.toml
    """
    from pipesim.recorders import launch
    from pipesim.recorders.guest import require_torch

    require_torch("recording links")
    folder = Path(output)
    _check(folder, force=given["force"])
    settings = _settings(given)
    if launch.is_started():
        options.check_given("under torchrun", is_there=False, without=("processes",))
        links = launch.in_started_group(settings, given["backend"])
    else:
        with options.busy("recording", quiet=as_json):
            links = launch.in_new_processes(processes, settings, given["backend"])
    if links is not None:  # under torchrun, rank 0 alone speaks
        _keep(links, folder, as_json=as_json)


def _settings(given: dict[str, Any]) -> "LinkSettings":
    from pipesim import units
    from pipesim.recorders.links import LinkSettings

    return LinkSettings(
        given["samples"], int(units.size(given["smallest"])), int(units.size(given["largest"])), given["patience"]
    )


def _check(folder: Path, *, force: bool) -> None:
    """Refuse a folder that holds something else, or what was recorded before unless by force."""
    known = ("links.toml", "trace.toml")
    if folder.exists() and not (folder.is_dir() and (not any(folder.iterdir()) or _has(folder, known))):
        raise InputError(f"{folder}: exists and is not a folder with {' or '.join(known)}; choose another name")
    written = ("transfers.csv", "transfers.parquet", "cluster.toml", "links.toml")
    if not force and (there := next((name for name in written if (folder / name).exists()), "")):
        raise InputError(f"{folder / there}: exists already; choose another name, or replace it with --force")


def _has(folder: Path, names: tuple[str, ...]) -> bool:
    return any((folder / name).is_file() for name in names)


def _keep(links: "Links", folder: Path, *, as_json: bool) -> None:
    from pipesim import serial
    from pipesim.recorders.fitting import cluster_of

    links = replace(links, about=replace(links.about, command=shlex.join(["pipesim", *options.words()])))
    cluster = cluster_of(links)
    links.save(folder)
    serial.save(cluster, folder / "cluster.toml")
    if as_json:
        options.echo_json(_data(links))
    else:
        click.echo(_text(links))
        options.wrote(str(folder / "cluster.toml"), "cluster")


def _data(links: "Links") -> dict[str, Any]:
    from pipesim import serial
    from pipesim.recorders.fitting import fits

    return {
        "backend": links.about.backend,
        "machine": links.about.machine,
        "devices": len(links.about.devices),
        "not_measured": list(links.about.not_measured),
        "links": {
            name: {
                "points": serial.to_data(fit.points),
                "bandwidth": fit.bandwidth,
                "delay_s": fit.delay,
                "mean_error_of_table": fit.table_error,
                "mean_error_of_straight_line": fit.line_error,
            }
            for name, fit in fits(links).items()
        },
        "all_reduces": _all_reduces(links),
    }


def _all_reduces(links: "Links") -> list[dict[str, Any]]:
    """What all-reduces took, beside what a ring over the recorded links would."""
    from pipesim import serial
    from pipesim.recorders.fitting import INTER, INTRA, fits, points

    found = fits(links)
    table = links.transfers
    reduced = table["kind"] == "all_reduce"
    slowest = found.get(INTER) or found[INTRA]
    return [
        {"participants": k, **serial.to_data(point), "ring_s": slowest.ring(k, point.bytes)}
        for k in sorted(set(table["participants"][reduced].tolist()))
        for point in points(table, reduced & (table["participants"] == k))
    ]


def _text(links: "Links") -> str:
    from pipesim import report

    data = _data(links)
    transfers = [
        [name, report.size(p["bytes"]), *map(report.seconds, (p["seconds"], p["mad_s"])), _rate(p)]
        for name, fit in data["links"].items()
        for p in fit["points"]
    ]
    reduced = [
        [str(p["participants"]), report.size(p["bytes"]), *map(report.seconds, (p["seconds"], p["mad_s"], p["ring_s"]))]
        for p in data["all_reduces"]
    ]
    facts = [("machine", links.about.machine), ("backend", links.about.backend)]
    for name, fit in data["links"].items():
        errors = (report.percent(fit[f"mean_error_of_{how}"]) for how in ("table", "straight_line"))
        facts.append((name, "mean error of the table {}, of a straight line {}".format(*errors)))
    facts += [("not measured", what) for what in data["not_measured"]]
    parts = [report.table(["links", "bytes", "seconds", "± MAD", "rate"], transfers)]
    if reduced:
        headers = ["participants", "bytes", "all-reduce", "± MAD", "ring over these links"]
        parts.append(report.table(headers, reduced))
    return "\n\n".join([*parts, report.facts(facts)])


def _rate(point: dict[str, Any]) -> str:
    from pipesim import report

    return report.rate(point["bytes"] / point["seconds"])

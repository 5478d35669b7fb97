"""pipesim record-links."""

import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipesim.base.errors import InputError
from pipesim.base.settings import setting
from pipesim.cli import options, setting_options
from pipesim.cli.table_outputs import ShownItem, TableOutputs

if TYPE_CHECKING:
    from pipesim.recorders.fitting import Fit
    from pipesim.recorders.link_files import RecordedLinks
    from pipesim.recorders.links import LinkSettings

PROCESSES = 2


@dataclass(frozen=True, slots=True)
class LinkOptions:
    """What is recorded between processes, and how."""

    processes: int = setting(PROCESSES, int, "Processes to start here.", short="n")
    backend: str = setting("auto", str, "gloo or nccl; auto: nccl if each has a GPU.")
    samples: int = setting(15, int, "Samples of each size, over all rounds.")
    rounds: int = setting(3, int, "Times to go through all sizes.")
    smallest: str = setting("4 B", str, "The smallest message.")
    largest: str = setting("64 MiB", str, "The largest message.")
    patience: float = setting(60.0, float, "Seconds to wait for a quiet CPU.")

    def settings(self) -> "LinkSettings":
        """As the recorder takes them."""
        from pipesim.base import units
        from pipesim.recorders.links import LinkSettings

        smallest, largest = (int(units.size(size)) for size in (self.smallest, self.largest))
        return LinkSettings(self.samples, smallest, largest, self.patience, rounds=self.rounds)


@click.command("record-links", cls=setting_options.GroupedCommand)
@click.option("--output", "-o", type=click.Path(), required=True, help="Folder to write to; may be that of a trace.")
@setting_options.options(LinkOptions, "how", group="measuring")
@options.force
@setting_options.options(TableOutputs, "tables")
@options.as_json
def record_links(output: str, how: LinkOptions, *, force: bool, tables: TableOutputs, as_json: bool) -> None:
    """Time transfers and all-reduces between processes, and write a cluster file.

    Starts processes on this machine, joined over its loopback. Under torchrun, the processes that it started are used,
    on all their nodes; start it once per node as for training. On the CPU each process is kept on a core of its own
    where there are enough.

    \b
    What is recorded, once per round
      one way       a message there and back, halved: what one transfer takes alone. Of a round the lower quartile
                    counts, of the rounds their median
      both ways     two processes send to each other at once, at the largest sizes
      all-reduces   for comparison only

    \b
    What is decided from it, and written into the files
      table         a size whose rounds differ (half of them by more than 20 %), or that takes over 20 % longer than
                    a larger one, is left out and named; over a quarter left out, or a large one, is an error
      bandwidth     what transfers share: bytes per second of the slope over sizes from a sixteenth of the largest on.
                    One transfer alone takes the time in the table, also where a buffer makes it faster than that
      duplex        half where both ways at once take 1.5 times as long as one way or longer, else full;
                    within 0.15 of that, or where rounds disagree, the nearer one, marked as unclear

    \b
    Writes into the folder
      transfers.csv    seconds of every message sent and of every all-reduce
      cluster.toml     a cluster whose links take as long as was recorded
      links.toml       devices, backend, machine, cores, command, and how bandwidth and duplex were decided

    \b
    Examples:
      pipesim record-links --output links
      pipesim record-links --processes 4 --output links --json
      torchrun --nproc-per-node 8 -m pipesim record-links --output links
      pipesim simulate gpt links/cluster.toml
    """
    from pipesim.recorders import launch
    from pipesim.recorders.torch_extra import require_torch

    tables.check(as_json=as_json)
    require_torch("recording links")
    folder = Path(output)
    _check(folder, force=force)
    settings = how.settings()
    if launch.is_started():
        options.check_given("under torchrun", is_there=False, without=("processes",))
        links = launch.in_started_group(settings, how.backend)
    else:
        with options.busy("recording", quiet=as_json or tables.is_alone):
            links = launch.in_new_processes(how.processes, settings, how.backend)
    if links is not None:  # under torchrun, rank 0 alone speaks
        _keep(links, folder, tables, as_json=as_json)


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


def _keep(links: "RecordedLinks", folder: Path, tables: TableOutputs, *, as_json: bool) -> None:
    from pipesim.base import files, serialisation
    from pipesim.base.errors import RefusedError
    from pipesim.display import text
    from pipesim.recorders.fitting import cluster_of, fits

    links = replace(links, about=replace(links.about, command=shlex.join(["pipesim", *options.words()])))
    links.save(folder)
    try:
        cluster, found = cluster_of(links), [line for fit in fits(links).values() for line in _decided(fit)]
    except RefusedError as error:
        raise RefusedError(
            f"{error}. No cluster is written; the samples are kept in {folder} (--force replaces them)"
        ) from None
    links = replace(links, about=replace(links.about, found=tuple(found)))
    links.save(folder)
    head = "".join(f"# {line}\n" for line in ("Recorded by pipesim record-links.", *found))
    files.write_text(folder / "cluster.toml", head + serialisation.dumps(cluster, ".toml"))
    data = _data(links)
    tables.show(ShownItem(lambda: _text(links), lambda: data, lambda: text.transfer_times(data)), as_json=as_json)
    options.wrote(str(folder / "cluster.toml"), "cluster", quiet=as_json or tables.is_alone)


def _data(links: "RecordedLinks") -> dict[str, Any]:
    from pipesim.base import serialisation
    from pipesim.recorders.fitting import fits

    return {
        "backend": links.about.backend,
        "machine": links.about.machine,
        "devices": len(links.about.devices),
        "not_measured": list(links.about.not_measured),
        "links": {
            name: {
                "points": serialisation.to_data(fit.points),
                "left_out": serialisation.to_data(fit.left_out),
                "bandwidth": fit.bandwidth,
                "delay_s": fit.delay,
                "duplex": fit.duplex.kind,
                "duplex_is_clear": fit.duplex.is_clear,
                "both_ways_over_one_way": list(fit.duplex.rounds),
                "mean_error_of_table": fit.table_error,
                "mean_error_of_straight_line": fit.line_error,
            }
            for name, fit in fits(links).items()
        },
        "all_reduces": _all_reduces(links),
    }


def _decided(fit: "Fit") -> list[str]:
    """How the capacity and the duplex of a class of links were decided, and what its table lacks."""
    from pipesim.display import text
    from pipesim.recorders.capacity import HALF_FROM, large

    left_out = {one.bytes for one in fit.left_out}
    ends = large([point for point in fit.points if point.bytes not in left_out])
    sizes = " to ".join(text.size(point.bytes) for point in (ends[0], ends[-1]))
    lines = [f"{fit.name}: bandwidth {text.rate(fit.bandwidth)}, the slope from {sizes}"]
    duplex = fit.duplex
    if duplex.rounds:
        span = f"{min(duplex.rounds):.2f} to {max(duplex.rounds):.2f} in {len(duplex.rounds)} rounds"
        unclear = "" if duplex.is_clear else "; not clear: record again, or set duplex yourself"
        lines.append(
            f"{fit.name}: {duplex.kind} duplex, both ways at once took {duplex.ratio:.2f} times as long as one way "
            f"({span}; half from {HALF_FROM} on{unclear})"
        )
    else:
        lines.append(f"{fit.name}: full duplex, not measured")
    return [*lines, *(f"{fit.name}: left out of the table: {one.why}" for one in fit.left_out)]


def _all_reduces(links: "RecordedLinks") -> list[dict[str, Any]]:
    """What all-reduces took, beside what a ring over the recorded links would."""
    from pipesim.base import serialisation
    from pipesim.recorders.fitting import INTER, INTRA, fits
    from pipesim.recorders.message_times import points

    found = fits(links)
    table = links.transfers
    reduced = table["kind"] == "all_reduce"
    slowest = found.get(INTER) or found[INTRA]
    return [
        {"participants": k, **serialisation.to_data(point), "ring_s": slowest.ring(k, point.bytes)}
        for k in sorted(set(table["participants"][reduced].tolist()))
        for point in points(table, reduced & (table["participants"] == k))
    ]


def _text(links: "RecordedLinks") -> str:
    from pipesim.display import text

    about = [("machine", links.about.machine), ("backend", links.about.backend), ("cores", links.about.cores)]
    about += [(name, found) for name, _, found in (line.partition(": ") for line in links.about.found)]
    return text.recorded_links(_data(links), about)

"""pipesim init."""

from importlib import resources
from pathlib import Path

import click

from pipesim.base import files
from pipesim.base.errors import InputError
from pipesim.cli import options

# What is made -> where by default, and the files of its template.
KINDS = {
    "planner": ("my_planner.py", ["planner.py.txt"]),
    "scheduler": ("my_scheduler.py", ["scheduler.py.txt"]),
    "sweep": ("sweep.toml", ["sweep.toml"]),
    "scenario": ("scenario.toml", ["scenario.toml"]),
    "cluster": ("cluster.toml", ["cluster.toml"]),
    "trace": ("my-trace", ["trace/trace.toml", "trace/layers.csv"]),
}
SCHEMAS = "schemas"  # the folder, beside the file, for the schema that its first line names


@click.command()
@click.argument("kind", type=click.Choice(list(KINDS)))
@click.argument("path", required=False, type=click.Path())
@options.force
@options.as_json
def init(kind: str, path: str | None, force: bool, as_json: bool) -> None:
    """Write a commented template that runs: of a planner, a scheduler, a sweep, a scenario, a cluster or a trace.

    PATH is the file (of a trace the folder). TOML files name a JSON Schema, which is written beside them into schemas/:
    editors complete and check keys by it.

    \b
    Examples:
      pipesim init planner
      pipesim init sweep experiments/network.toml
      pipesim init trace traces/my-model
    """
    place, names = Path(path or KINDS[kind][0]), KINDS[kind][1]
    made = _files(kind, place, names)
    taken = [target for target in made if files.exists(target) and target.parent.name != SCHEMAS]
    if taken and not force:
        raise InputError(f"{taken[0]}: exists already; choose another PATH, or replace it with --force")
    for target, text in made.items():
        target.parent.mkdir(parents=True, exist_ok=True)
        files.write_text(target, text)
    commands = _commands(made[next(iter(made))])
    if as_json:
        options.echo_json({"written": [str(target) for target in made], "try": commands})
        return
    for target in made:
        options.wrote(str(target), "schema" if target.parent.name == SCHEMAS else f"template of a {kind}")
    click.echo("Try:")
    for command in commands:
        click.echo(f"  {command}")


def _files(kind: str, place: Path, names: list[str]) -> dict[Path, str]:
    """The files to write, and the text of each."""
    if kind != "trace" and place.suffix != Path(KINDS[kind][0]).suffix:
        raise InputError(f"{place}: a file that ends in {Path(KINDS[kind][0]).suffix} was expected")
    if place.suffix == ".py" and not place.stem.isidentifier():
        raise InputError(f"{place}: {place.stem!r} found; a name that Python can import was expected")
    targets = [place / Path(name).name for name in names] if kind == "trace" else [place]
    schema = targets[0].parent / SCHEMAS / f"pipesim.{kind}.schema.json"  # as `file_schemas.file_name` has it
    words = {
        "@path@": str(place),
        "@module@": _module(place),
        "@schema@": f"{SCHEMAS}/{schema.name}",
    }
    folder = resources.files("pipesim.cli") / "templates"
    made = {}
    for target, name in zip(targets, names, strict=True):
        text = (folder / name).read_text(encoding="utf-8")
        for word, value in words.items():
            text = text.replace(word, value)
        made[target] = text
    if targets[0].suffix == ".toml":
        from pipesim.studies import file_schemas

        made[schema] = file_schemas.text_of(kind)
    return made


def _module(place: Path) -> str:
    """What `module:function` begins with: folders below this one are packages."""
    inside = not place.is_absolute() and ".." not in place.parts
    return ".".join(place.with_suffix("").parts) if inside else place.stem


def _commands(text: str) -> list[str]:
    """The commands in the comments of a template."""
    lines = (line.strip().removeprefix("#").strip() for line in text.split("\n"))
    return [line.partition("      ")[0].rstrip() for line in lines if line.startswith("pipesim ")]

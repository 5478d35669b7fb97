"""pipesim layout."""

from dataclasses import replace
from pathlib import Path

import click

from pipesim.base.settings import settings_of
from pipesim.cli import options, setting_options
from pipesim.cli.table_outputs import ShownItem, TableOutputs


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("source", nargs=-1, required=True, type=click.UNPROCESSED, metavar="FILE|ARGUMENTS...")
@click.option("--to", metavar="FRAMEWORK", help="Write it for megatron, megatron-bridge, torchtitan, torch, deepspeed.")
@click.option("--from", "framework", metavar="FRAMEWORK", help="Whose arguments these are; default: as they look.")
@click.option("--model", help="A model or trace: its blocks, for plans and where the arguments do not state them.")
@click.option("--cluster", help="A cluster: its GPUs, for plans and where the arguments do not state how many.")
@click.option("--output", "-o", type=click.Path(), help="Write the plan (.json, .toml) or, with --to, the arguments.")
@setting_options.options(TableOutputs, "tables")
@options.as_json
def layout(
    source: tuple[str, ...],
    *,
    to: str | None,
    framework: str | None,
    model: str | None,
    cluster: str | None,
    output: str | None,
    tables: TableOutputs,
    as_json: bool,
) -> None:
    """Convert a layout: arguments or files of a framework, or a plan, to a plan or to another framework.

    Read are arguments of Megatron-LM (also in a shell script, or a YAML list of them), settings of a Megatron-Bridge or
    NeMo recipe, a job file of torchtitan, a configuration of DeepSpeed, the JSON that --to torch writes, and plans.
    --sort, --top and the files of a table are about the stages, without --to.

    \b
    Examples:
      pipesim layout --num-layers 80 --pipeline-model-parallel-size 8 --decoder-last-pipeline-num-layers 3
      pipesim layout pretrain.sh --to torchtitan -o job.toml
      pipesim layout pretrain.sh --model llama3-70b --cluster 'hgx_h100(8)' -o plan.json
      pipesim layout plan.json --model llama3-70b --to megatron
    """
    from pipesim.base import files, serialisation
    from pipesim.base.errors import InputError
    from pipesim.display import text
    from pipesim.studies import framework_layouts as layouts

    tables.check(as_json=as_json)
    options.check_given("with --to", is_there=to is None, without=tuple(settings_of(TableOutputs)))
    quiet = as_json or tables.is_alone
    wanted = None if to is None else layouts.check_framework(to)
    gpus = layouts.gpus_of(cluster)
    given = source[0] if len(source) == 1 else " ".join(_quoted(word) for word in source)
    found = layouts.read(given, model=model, gpus=gpus, framework=framework)
    notes = layouts.approximations(found)
    if wanted is not None:
        made = layouts.rounded(found, wanted, model, cluster)
        shown = text.converted(made.text, made.notes, made.exact_s, made.rounded_s, made.files)
        if output:
            files.write_text(Path(output), f"{made.text}\n")
            options.wrote(output, f"arguments for {wanted}", quiet=as_json)
        if as_json:
            options.echo_json(made.as_data())
        elif not output:
            click.echo(shown)
        return
    command = ""
    if output:
        if model is None or cluster is None:
            missing = "--model" if model is None else "--cluster"
            raise InputError(f"{missing} is missing: a plan has the layers of a model and the devices of a cluster")
        plan = layouts.plan(found, model, cluster)
        serialisation.save(replace(plan, planner="layout"), Path(output))
        options.wrote(output, "plan", quiet=quiet)
    if model is not None and cluster is not None:
        command = layouts.command(found, model, cluster, output)
    item = ShownItem(
        lambda: text.training_layout(found, layouts.framework_of(given, framework), notes, command),
        lambda: layouts.ConvertedLayout("pipesim", command, found, notes=tuple(notes)).as_data(),
        lambda: text.layout_stages(found),
    )
    tables.show(item, as_json=as_json)


def _quoted(word: str) -> str:
    from shlex import quote

    return quote(word)

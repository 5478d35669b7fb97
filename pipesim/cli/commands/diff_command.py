"""pipesim diff."""

import click

from pipesim.cli import options, setting_options
from pipesim.cli.table_outputs import ShownItem, TableOutputs


@click.command(cls=setting_options.GroupedCommand)
@click.argument("trace_a", shell_complete=setting_options.complete("traces"))
@click.argument("trace_b", shell_complete=setting_options.complete("traces"))
@setting_options.options(TableOutputs, "tables")
@click.option("--all", "every", is_flag=True, help="Show every layer that differs.")
@options.as_json
def diff(trace_a: str, trace_b: str, *, tables: TableOutputs, every: bool, as_json: bool) -> None:
    """What changed from one trace to another, layer by layer, and how sure that is.

    Times are compared by their means over the samples, with the interval that covers the true difference with 95 %
    confidence (Welch). A layer counts as slower or faster if it is, together with all others that do, with 95 %
    confidence (Holm). Where a trace has one sample of a layer, the confidence of a difference is unknown.

    \b
    Examples:
      pipesim diff before after
      pipesim diff before after --sort -change --top 5
      pipesim diff bert-large profile.txt --json
    """
    from pipesim.analysis import trace_diff
    from pipesim.base import serialisation
    from pipesim.display import text
    from pipesim.studies import loading

    tables.check(as_json=as_json)
    options.check_outputs(pictures=[])
    with options.busy("comparing", quiet=as_json or tables.is_alone):
        groups = trace_diff.diff(loading.load_trace(trace_a), loading.load_trace(trace_b))
    shown = ShownItem(
        lambda: text.difference(groups, None if every else text.FEW, options.terminal()),
        lambda: {"a": trace_a, "b": trace_b, "groups": serialisation.to_data(groups)},
        lambda: text.changed_layers(groups),
    )
    tables.show(shown, as_json=as_json)

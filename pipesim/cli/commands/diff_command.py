"""pipesim diff."""

import click

from pipesim.cli import options, setting_options


@click.command()
@click.argument("trace_a", shell_complete=setting_options.complete("traces"))
@click.argument("trace_b", shell_complete=setting_options.complete("traces"))
@click.option("--all", "every", is_flag=True, help="Show every layer that differs.")
@options.as_json
def diff(trace_a: str, trace_b: str, every: bool, as_json: bool) -> None:
    """What changed from one trace to another, layer by layer, and how sure that is.

    Times are compared by their means over the samples, with the interval that covers the true difference with 95 %
    confidence (Welch). A layer counts as slower or faster if it is, together with all others that do, with 95 %
    confidence (Holm). Where a trace has one sample of a layer, the confidence of a difference is unknown.

    \b
    Examples:
      pipesim diff before after
      pipesim diff bert-large profile.txt --json
    """
    from pipesim.analysis import trace_diff
    from pipesim.base import serialisation
    from pipesim.display import text
    from pipesim.studies import loading

    groups = trace_diff.diff(loading.load_trace(trace_a), loading.load_trace(trace_b))
    if as_json:
        options.echo_json({"a": trace_a, "b": trace_b, "groups": serialisation.to_data(groups)})
    else:
        click.echo(text.difference(groups, None if every else text.FEW, options.terminal()))

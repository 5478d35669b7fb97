"""A live PyTorch model, a live process group -> a Trace (the extra `torch`: pip install 'pipesim[torch]').

The model is given as `module:factory`, or `module:factory(option=value)`. A factory is called as
`factory(microbatch=4, option=value)` and returns

    (layers, example)          or    (layers, example, model)

    layers     the model as a sequence of `torch.nn.Module`s, in the order in which they run: a list, a `Sequential`, a
               `ModuleList`, or a mapping from names to modules. A layer is called with what the one before returned.
    example    what the first layer is called with, of `microbatch` samples
    model      a callable that, called with the example, calls each layer once and in order, with other operations
               between them; only for `method="hooks"`. Without it, the model is the sequence of its layers.

A layer passes one value to the next: a tensor, or a tuple, list or dict of tensors (also nested), as one argument, as
`torch.nn.Sequential` does; layers pass through what only later layers read. If the last layer returns a single number,
that is the loss; otherwise the backward starts from a gradient of ones. So a loss is a last layer that contains its
targets. Parameters can be tied (one parameter in several layers), frozen, and lazy. The factory chooses precision
(`dtype`) and mode (`train`, the default of modules, or `eval`).

Members of the family, called as `method(subject, clock)`, return the ways of running a microbatch: each call of one
returns a column of seconds for each layer.
"""

RECORDERS = {
    "loop": "pipesim.recorders.loop:loop",
    "hooks": "pipesim.recorders.hooks:hooks",
}

"""A live PyTorch model, a live process group -> a Trace (the extra `torch`: pip install 'pipesim[torch]').

What is recorded is named as `module:factory`, or `module:factory(option=value)`. A factory is called as
`factory(microbatch=4, option=value)` and returns

    (layers, example)          or    (layers, example, model)

    layers     the model as a sequence of `torch.nn.Module`s, in the order in which they run: a list, a `Sequential`, a
               `ModuleList`, or a mapping from names to modules. A layer is called with what the one before returned.
    example    what the first layer is called with, of `microbatch` samples
    model      a callable that, called with the example, calls each layer once and in order, with whatever it does
               between them; only for `method="hooks"`. Without it, the model is its layers one after the other.

Between layers passes one value: a tensor, or a tuple, list or dict of tensors (nested if need be), given on as one
argument, as `torch.nn.Sequential` does; what several later layers read is handed through by those between. If what the
last layer returns is a single number, that is the loss; otherwise the backward starts from a gradient of ones. So a
loss is a last layer that holds its targets. Parameters may be tied (one parameter in several layers), frozen, and lazy.
The factory decides on precision (`dtype`) and mode (`train`, as modules are made, or `eval`).

Members of the family, called as `method(subject, clock)`, return the ways of running a microbatch: each call of one
returns a column of seconds for each layer.
"""

RECORDERS = {
    "loop": "pipesim.recorders.loop:loop",
    "hooks": "pipesim.recorders.hooks:hooks",
}

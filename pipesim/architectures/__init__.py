"""A named architecture and its sizes -> Model with FLOPs; a Model and data sheets -> Trace (`roofline`).

All members take the samples of a microbatch, the precision ("fp16" or "fp32", for parameters and activations) and
what they read: a sequence length in tokens or the side of a square image in pixels. Members with the name of a
published model have its sizes as defaults.
"""

ARCHITECTURES = {
    "gpt": "pipesim.architectures.gpt:gpt",
    "gpt2-xl": "pipesim.architectures.gpt:gpt2_xl",
    "gpt3-6.7b": "pipesim.architectures.gpt:gpt3_6_7b",
    "bert": "pipesim.architectures.bert:bert",
    "bert-large": "pipesim.architectures.bert:bert_large",
    "vgg": "pipesim.architectures.vgg:vgg",
    "vgg-19": "pipesim.architectures.vgg:vgg_19",
    "resnet": "pipesim.architectures.resnet:resnet",
    "resnet-152": "pipesim.architectures.resnet:resnet_152",
}

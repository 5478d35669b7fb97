"""A Hugging Face `config.json`: the sizes of a model, as a function of `architectures` takes them.

    model_type in the file  ->  its reader  ->  the family's function with the sizes in the file  ->  Model

Keys that a file leaves out have the defaults of the `transformers` library. Parameters are those of the checkpoint,
with what has no gradient (the bias of DeepSeek-V3's router). Not included are vision towers, and DeepSeek-V3's module
that predicts a further token; BERT has both heads of its pre-training, as its checkpoints do.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from pipesim.architectures.bert import bert
from pipesim.architectures.deepseek import deepseek
from pipesim.architectures.gemma import gemma
from pipesim.architectures.gpt import gpt
from pipesim.architectures.llama import llama
from pipesim.architectures.moe import moe
from pipesim.architectures.neox import neox
from pipesim.architectures.opt import opt
from pipesim.architectures.qwen import qwen
from pipesim.architectures.t5 import t5
from pipesim.base import checks, files, lookup, serialisation
from pipesim.base.errors import InputError, shown, within
from pipesim.core.model import Model

FILE = "config.json"
MOST_TOKENS = 4096
"""Of a sample, if no sequence is stated: many models have more positions than they are trained with."""
_PRECISIONS = {"bfloat16": "bf16", "float16": "fp16"}
_POSITIONS = ("max_position_embeddings", "n_positions")

Build = Callable[..., Model]


def model(
    path: Path | str,
    *,
    microbatch: int = 1,
    sequence: int | None = None,
    precision: str | None = None,
    tensor_parallel: int = 1,
    sequence_parallel: bool = False,
) -> Model:
    """The model of a config.json, or of a folder that has one.

    `sequence`: by default as many tokens as the model has positions, but at most 4096. `precision`: by default that of
    the file if it has 16 bits, else fp16. The model has the name in the file, or that of its folder.
    """
    file = file_of(Path(path))
    data = serialisation.read_data(file)
    with within(str(file)):
        config = _config(data)
        tokens = config.tokens() if sequence is None else sequence
        built = READERS[config.kind](config)(
            microbatch=microbatch,
            sequence=tokens,
            precision=config.precision() if precision is None else precision,
            tensor_parallel=tensor_parallel,
            sequence_parallel=sequence_parallel,
            name=_name(data, file),
        )
        return replace(built, sequence=tokens)


def file_of(path: Path) -> Path:
    """The file itself, or the one in a folder."""
    return path / FILE if files.exists(path) and not files.is_file(path) else path


@dataclass(frozen=True, slots=True)
class Config:
    """What a file states about a model of a kind. Methods take the first of the given keys that it has."""

    kind: str
    data: Mapping[str, Any]

    def found(self, *keys: str) -> tuple[str, Any]:
        """The key that the file has, and its value; null counts as left out."""
        return next(((key, self.data[key]) for key in keys if self.data.get(key) is not None), (keys[0], None))

    def whole(self, *keys: str, default: int | None = None) -> int:
        """A whole number of at least 1."""
        key, value = self.found(*keys)
        if value is None and default is None:
            raise InputError(f"{key} is missing; a whole number was expected, for model_type {self.kind!r}")
        return checks.check_whole(key, default if value is None else value)

    def optional(self, *keys: str) -> int | None:
        """A whole number of at least 1, or None if the file leaves it out."""
        return None if self.found(*keys)[1] is None else self.whole(*keys)

    def flag(self, key: str, *, default: bool) -> bool:
        """True or false."""
        value = self.found(key)[1]
        if not isinstance(default if value is None else value, bool):
            raise InputError(f"{key} = {shown(value)} found; true or false was expected")
        return default if value is None else bool(value)

    def check(self, *keys: str, known: tuple[Any, ...]) -> None:
        """Refuse a value that is not modelled; the first of the known ones is the default."""
        key, value = self.found(*keys)
        if value is not None and value not in known:
            raise InputError(f"{key} = {shown(value)} found; only {' or '.join(map(shown, known))} is modelled")

    def tokens(self) -> int:
        """Tokens of a sample."""
        return min(self.whole(*_POSITIONS, default=MOST_TOKENS), MOST_TOKENS)

    def precision(self) -> str:
        """That of the checkpoint, if it has 16 bits."""
        return _PRECISIONS.get(str(self.found("torch_dtype", "dtype")[1]), "fp16")


def _config(data: Mapping[str, Any]) -> Config:
    """Refuse a file without a known model_type. The text model is inside the files of models with images."""
    kind = data.get("model_type")
    if not isinstance(kind, str) or kind not in READERS:
        found = "model_type is missing" if kind is None else f"model_type = {shown(kind)} found"
        raise InputError(f"{found}; {lookup.suggest(str(kind or ''), READERS)}")
    text = data.get("text_config")
    if isinstance(text, Mapping) and kind == _GEMMA_3:
        return Config(kind, {**{key: data[key] for key in ("torch_dtype", "dtype") if key in data}, **text})
    return Config(kind, data)


def _name(data: Mapping[str, Any], file: Path) -> str:
    stated = data.get("_name_or_path")
    named = Path(stated).name if isinstance(stated, str) else ""
    return named or (file.resolve().parent.name if file.name == FILE else file.stem)


# --- families ---------------------------------------------------------------------------------------------------------


def _sizes(config: Config) -> tuple[int, int, int]:
    return config.whole("num_hidden_layers"), config.whole("hidden_size"), config.whole("num_attention_heads")


def _gated(config: Config, *, tied: bool = False) -> dict[str, Any]:
    """Keywords of models like Llama."""
    config.check("hidden_act", "hidden_activation", known=("silu",))
    config.check("attention_bias", known=(False,))
    config.check("mlp_bias", known=(False,))
    return {
        "key_heads": config.optional("num_key_value_heads"),
        "head_width": config.optional("head_dim"),
        "vocabulary": config.whole("vocab_size"),
        "tied": config.flag("tie_word_embeddings", default=tied),
    }


def _llama(config: Config) -> Build:
    return partial(llama, *_sizes(config), inner=config.whole("intermediate_size"), **_gated(config))


def _mistral(config: Config) -> Build:
    """Without the key, the window is 4096; null means none."""
    window = config.whole("sliding_window", default=4096) if config.data.get("sliding_window", 0) is not None else 0
    given = _gated(config) | {"key_heads": config.whole("num_key_value_heads", default=8)}
    return partial(llama, *_sizes(config), inner=config.whole("intermediate_size"), window=window, **given)


def _mixtral(config: Config) -> Build:
    config.check("sliding_window", known=(None,))
    given = _gated(config) | {"key_heads": config.whole("num_key_value_heads", default=8)}
    return partial(
        moe,
        *_sizes(config),
        inner=config.whole("intermediate_size"),
        experts=config.whole("num_local_experts", default=8),
        active=config.whole("num_experts_per_tok", default=2),
        **given,
    )


def _qwen(config: Config, *, third: bool) -> Build:
    config.check("use_sliding_window", known=(False,))
    return partial(qwen, *_sizes(config), inner=config.whole("intermediate_size"), **_qwen_keys(config, third=third))


def _qwen_moe(config: Config, *, third: bool) -> Build:
    config.check("use_sliding_window", known=(False,))
    config.check("mlp_only_layers", known=([],))
    shared = 0 if third else config.whole("shared_expert_intermediate_size", default=5632)
    return partial(
        moe,
        *_sizes(config),
        inner=config.whole("moe_intermediate_size"),
        dense_inner=config.whole("intermediate_size"),
        every=config.whole("decoder_sparse_step", default=1),
        experts=config.whole("num_experts"),
        active=config.whole("num_experts_per_tok"),
        shared_inner=shared,
        shared_gate=bool(shared),
        **_qwen_keys(config, third=third),
    )


def _qwen_keys(config: Config, *, third: bool) -> dict[str, Any]:
    """The second generation has biases of queries, keys and values; the third norms, and heads of a stated width."""
    width = config.whole("head_dim", default=128) if third else config.optional("head_dim")
    return _gated(config) | {"key_norm": third, "key_bias": not third, "head_width": width}


_GEMMA_3 = "gemma3"


def _gemma(config: Config, *, third: bool) -> Build:
    """Files of Gemma 3 leave out what is as in its text model with 4 billion parameters."""
    config.check("hidden_activation", "hidden_act", known=("gelu_pytorch_tanh",))
    config.check("attention_bias", known=(False,))
    layers = config.whole("num_hidden_layers")
    return partial(
        gemma,
        layers,
        config.whole("hidden_size"),
        config.whole("num_attention_heads", default=8 if third else None),
        inner=config.whole("intermediate_size"),
        key_heads=config.whole("num_key_value_heads", default=4),
        head_width=config.whole("head_dim", default=256),
        key_norm=third,
        window=config.whole("sliding_window", default=4096),
        every=_every(config, layers, 6 if third else 2),
        vocabulary=config.whole("vocab_size", default=262208 if third else 256000),
        tied=config.flag("tie_word_embeddings", default=True),
    )


def _every(config: Config, layers: int, default: int) -> int:
    """The last of so many blocks attends to all tokens, as the list of layers or the pattern states."""
    kinds = config.data.get("layer_types")
    if kinds is None:
        return config.whole("sliding_window_pattern", "_sliding_window_pattern", default=default)
    full = "full_attention"
    every = kinds.index(full) + 1 if isinstance(kinds, list) and full in kinds else layers + 1
    if kinds != [full if block % every == every - 1 else "sliding_attention" for block in range(layers)]:
        raise InputError(
            f"layer_types = {shown(kinds)} found; {layers} were expected: 'sliding_attention', and 'full_attention' "
            "for the last of every so many"
        )
    return every


def _deepseek(config: Config, *, third: bool) -> Build:
    config.check("hidden_act", known=("silu",))
    config.check("attention_bias", known=(False,))
    config.check("moe_layer_freq", known=(1,))
    return partial(
        deepseek,
        *_sizes(config),
        inner=config.whole("moe_intermediate_size"),
        dense_inner=config.whole("intermediate_size"),
        dense_layers=checks.check_whole("first_k_dense_replace", config.found("first_k_dense_replace")[1] or 0, 0),
        experts=config.whole("n_routed_experts"),
        active=config.whole("num_experts_per_tok"),
        shared=config.optional("n_shared_experts") or 0,
        score_bias=third,
        query_rank=config.optional("q_lora_rank"),
        key_rank=config.whole("kv_lora_rank"),
        plain_width=config.whole("qk_nope_head_dim"),
        rotary_width=config.whole("qk_rope_head_dim"),
        value_width=config.whole("v_head_dim"),
        vocabulary=config.whole("vocab_size"),
        tied=config.flag("tie_word_embeddings", default=False),
    )


def _neox(config: Config) -> Build:
    config.check("attention_bias", known=(True,))
    config.check("hidden_act", known=("gelu", "gelu_fast", "gelu_new", "gelu_pytorch_tanh"))
    return partial(
        neox,
        *_sizes(config),
        inner=config.whole("intermediate_size"),
        vocabulary=config.whole("vocab_size"),
        tied=config.flag("tie_word_embeddings", default=False),
    )


def _opt(config: Config) -> Build:
    """The final norm is there where norms come before attention and mlp."""
    config.check("activation_function", known=("relu",))
    config.check("enable_bias", known=(True,))
    config.check("layer_norm_elementwise_affine", known=(True,))
    first = config.flag("do_layer_norm_before", default=True)
    removed = config.flag("_remove_final_layer_norm", default=False)
    return partial(
        opt,
        *_sizes(config),
        inner=config.whole("ffn_dim"),
        embedding_width=config.optional("word_embed_proj_dim"),
        final_norm=first and not removed,
        vocabulary=config.whole("vocab_size"),
        positions=config.whole(*_POSITIONS),
        tied=config.flag("tie_word_embeddings", default=True),
    )


def _bert(config: Config) -> Build:
    config.check("hidden_act", known=("gelu", "gelu_new", "gelu_pytorch_tanh"))
    config.check("position_embedding_type", known=("absolute",))
    config.check("tie_word_embeddings", known=(True,))
    return partial(
        bert,
        *_sizes(config),
        inner=config.whole("intermediate_size"),
        vocabulary=config.whole("vocab_size"),
        positions=config.whole(*_POSITIONS),
        segments=config.whole("type_vocab_size", default=2),
    )


def _t5(config: Config) -> Build:
    config.check("feed_forward_proj", known=("relu", "gated-gelu"))
    return partial(
        t5,
        config.whole("num_layers"),
        config.whole("d_model"),
        config.whole("num_heads"),
        decoder_layers=config.optional("num_decoder_layers"),
        inner=config.whole("d_ff"),
        gated=config.data.get("feed_forward_proj") == "gated-gelu",
        head_width=config.whole("d_kv"),
        distances=config.whole("relative_attention_num_buckets", default=32),
        vocabulary=config.whole("vocab_size"),
        tied=config.flag("tie_word_embeddings", default=True),
    )


def _gpt2(config: Config) -> Build:
    config.check("activation_function", known=("gelu_new", "gelu", "gelu_fast", "gelu_pytorch_tanh"))
    return partial(
        gpt,
        config.whole("n_layer", "num_hidden_layers"),
        config.whole("n_embd", "hidden_size"),
        config.whole("n_head", "num_attention_heads"),
        inner=config.optional("n_inner"),
        vocabulary=config.whole("vocab_size"),
        positions=config.whole("n_positions", "max_position_embeddings"),
        tied=config.flag("tie_word_embeddings", default=True),
    )


READERS: dict[str, Callable[[Config], Build]] = {
    "llama": _llama,
    "mistral": _mistral,
    "mixtral": _mixtral,
    "qwen2": partial(_qwen, third=False),
    "qwen2_moe": partial(_qwen_moe, third=False),
    "qwen3": partial(_qwen, third=True),
    "qwen3_moe": partial(_qwen_moe, third=True),
    "gemma2": partial(_gemma, third=False),
    _GEMMA_3: partial(_gemma, third=True),
    "gemma3_text": partial(_gemma, third=True),
    "deepseek_v2": partial(_deepseek, third=False),
    "deepseek_v3": partial(_deepseek, third=True),
    "gpt_neox": _neox,
    "opt": _opt,
    "bert": _bert,
    "t5": _t5,
    "gpt2": _gpt2,
}

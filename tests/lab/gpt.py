"""A GPT-2 in plain torch, with GPT-2's own weight names, so that what is trained here is what
`transformers` and vLLM load as `GPT2LMHeadModel`. No dropout: the data never repeats enough."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional

Cache = Tensor
"""Keys and values, [layer, 2, batch, head, position, width]; filled from the left."""


@dataclass(frozen=True)
class Shape:
    """The sizes of a model."""

    vocab_size: int
    n_embd: int = 192
    n_layer: int = 4
    n_head: int = 6
    n_positions: int = 4096


EMBEDDING_STD = 0.04
PROJECTION_STD = 0.05


def waves(positions: int, width: int) -> Tensor:
    """Sines and cosines of geometrically spaced wavelengths (Vaswani et al. 2017), at the scale
    of the embeddings: a start from which "the token before" is a rotation, not 768 lessons."""
    rates = torch.exp(torch.linspace(math.log(1.5), math.log(2 * math.pi / 2000), width // 2))
    angles = torch.arange(positions)[:, None] * rates
    return torch.cat((angles.sin(), angles.cos()), 1) * EMBEDDING_STD * math.sqrt(2)


class Projection(nn.Module):
    """GPT-2's Conv1D: a linear layer whose weight is stored input-first."""

    def __init__(self, inputs: int, outputs: int, std: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(inputs, outputs) * std)
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: Tensor) -> Tensor:
        return functional.linear(x, self.weight.t(), self.bias)


class Attention(nn.Module):
    """Causal self-attention, with or without a cache."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = shape.n_head
        self.c_attn = Projection(shape.n_embd, 3 * shape.n_embd, PROJECTION_STD)
        self.c_proj = Projection(shape.n_embd, shape.n_embd, PROJECTION_STD / math.sqrt(2 * shape.n_layer))

    def forward(self, x: Tensor, cache: Tensor | None, start: int) -> Tensor:
        batch, length, width = x.shape
        parts = self.c_attn(x).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
        if cache is not None:
            cache[0, :, :, start : start + length], cache[1, :, :, start : start + length] = k, v
            k, v = cache[:, :, :, : start + length].unbind(0)
        out = functional.scaled_dot_product_attention(q, k, v, is_causal=length > 1)
        projected: Tensor = self.c_proj(out.transpose(1, 2).reshape(batch, length, width))
        return projected


class Mlp(nn.Module):
    """The feed-forward half of a block."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.c_fc = Projection(shape.n_embd, 4 * shape.n_embd, PROJECTION_STD)
        self.c_proj = Projection(
            4 * shape.n_embd, shape.n_embd, PROJECTION_STD / math.sqrt(2 * shape.n_layer)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.c_proj(functional.gelu(self.c_fc(x), approximate="tanh"))


class Block(nn.Module):
    """One pre-norm transformer layer."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(shape.n_embd)
        self.attn = Attention(shape)
        self.ln_2 = nn.LayerNorm(shape.n_embd)
        self.mlp = Mlp(shape)

    def forward(self, x: Tensor, cache: Tensor | None, start: int) -> Tensor:
        x = x + self.attn(self.ln_1(x), cache, start)
        grown: Tensor = x + self.mlp(self.ln_2(x))
        return grown


class Gpt(nn.Module):
    """The model; input and output embeddings are tied."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.wte = nn.Embedding(shape.vocab_size, shape.n_embd)
        self.wpe = nn.Embedding(shape.n_positions, shape.n_embd)
        nn.init.normal_(self.wte.weight, std=EMBEDDING_STD)
        nn.init.normal_(self.wpe.weight, std=EMBEDDING_STD)
        self.h = nn.ModuleList(Block(shape) for _ in range(shape.n_layer))
        self.ln_f = nn.LayerNorm(shape.n_embd)

    def new_cache(self, batch: int, positions: int) -> Cache:
        """An empty cache for `batch` texts of up to `positions` tokens."""
        shape = self.shape
        width = shape.n_embd // shape.n_head
        return torch.zeros(shape.n_layer, 2, batch, shape.n_head, positions, width)

    def hidden(self, tokens: Tensor, cache: Cache | None = None, start: int = 0) -> Tensor:
        """Last hidden states of `tokens` [batch, length], the first of which is at `start`. With a
        cache, several tokens at once only at start 0."""
        x = self.wte(tokens) + self.wpe(torch.arange(start, start + tokens.shape[1], device=tokens.device))
        for index, block in enumerate(self.h):
            x = block(x, cache[index] if cache is not None else None, start)
        normed: Tensor = self.ln_f(x)
        return normed

    def logits(self, hidden: Tensor) -> Tensor:
        """Scores over the vocabulary."""
        return functional.linear(hidden, self.wte.weight)


def save_model(model: Gpt, folder: Path, eos: int) -> None:
    """Write config.json and bfloat16 weights in GPT-2's format."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = {
        f"transformer.{k}": v.detach().to(torch.bfloat16).contiguous() for k, v in model.state_dict().items()
    }
    save_file(weights, str(folder / "model.safetensors"), metadata={"format": "pt"})
    config = {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "activation_function": "gelu_new",
        "n_inner": None,
        "layer_norm_epsilon": 1e-5,
        "tie_word_embeddings": True,
        "bos_token_id": eos,
        "eos_token_id": eos,
        "pad_token_id": eos,
        "dtype": "bfloat16",
        **asdict(model.shape),
    }
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", "utf-8")


def load_model(folder: Path) -> Gpt:
    """Read a model that `save_model` wrote, as float32."""
    config = json.loads((folder / "config.json").read_text("utf-8"))
    shape = Shape(**{key: config[key] for key in Shape.__dataclass_fields__})
    model = Gpt(shape)
    weights = load_file(str(folder / "model.safetensors"))
    model.load_state_dict({k.removeprefix("transformer."): v.float() for k, v in weights.items()})
    return model.eval()

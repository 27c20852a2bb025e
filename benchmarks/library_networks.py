"""Torch networks as libraries have them, with seeded weights, each on four sides.

`python benchmarks/library_networks.py [--only GLOB] [--write docs/library_networks.md]`, in an environment that has
timm and transformers beside samebits.
"""

from __future__ import annotations

import argparse
import fnmatch
import functools
import importlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from published_networks import Ran, run_compare
from torch import Tensor, nn

SIDES = ("torch", "torch:compile=on", "onnxruntime", "openvino")
LIMIT_S = 600
ABOUT = """Networks of timm, transformers and plain torch with seeded weights, each as torch runs it, as its compiler
does, and exported, on ONNX Runtime and OpenVINO: `python benchmarks/library_networks.py` in an environment that has
those libraries."""


def _text(**given: Any) -> dict[str, Tensor]:
    mask = torch.ones(2, 12, dtype=torch.int64)
    mask[1, 9:] = 0
    return {"input_ids": torch.randint(0, 90, (2, 12)), "attention_mask": mask, **given}


def _image(size: int = 64) -> tuple[Tensor]:
    return (torch.randn(1, 3, size, size),)


def _from_timm(name: str, size: int = 64, **given: Any) -> tuple[nn.Module, tuple[Tensor]]:
    timm = importlib.import_module("timm")
    return timm.create_model(name, pretrained=False, num_classes=10, **given), _image(size)


def _from_transformers(model: str, config: str, inputs: Any, **given: Any) -> tuple[nn.Module, Any]:
    transformers = importlib.import_module("transformers")
    return getattr(transformers, model)(getattr(transformers, config)(**given)), inputs


_SMALL: dict[str, Any] = {
    "vocab_size": 99, "hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 128,
}  # fmt: skip


def bert() -> Any:
    return _from_transformers("BertModel", "BertConfig", _text(), **_SMALL)


def distilbert() -> Any:
    return _from_transformers(
        "DistilBertModel", "DistilBertConfig", _text(), vocab_size=99, dim=64, n_layers=3, n_heads=4, hidden_dim=128
    )


def gpt2() -> Any:
    return _from_transformers(
        "GPT2LMHeadModel", "GPT2Config", _text(use_cache=False), vocab_size=99, n_embd=64, n_layer=3, n_head=4
    )


def llama() -> Any:
    return _from_transformers(
        "LlamaForCausalLM", "LlamaConfig", _text(use_cache=False), **_SMALL, num_key_value_heads=2
    )


def t5() -> Any:
    inputs = {"input_ids": torch.randint(0, 90, (2, 12)), "decoder_input_ids": torch.randint(0, 90, (2, 7))}
    return _from_transformers(
        "T5Model", "T5Config", inputs, vocab_size=99, d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4
    )


def wav2vec2() -> Any:
    return _from_transformers(
        "Wav2Vec2Model", "Wav2Vec2Config", {"input_values": torch.randn(1, 4000)}, **_SMALL,
        conv_dim=(32,) * 7, num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4,
    )  # fmt: skip


def whisper() -> Any:
    inputs = {"input_features": torch.randn(1, 80, 200), "decoder_input_ids": torch.randint(0, 90, (1, 5))}
    return _from_transformers(
        "WhisperModel", "WhisperConfig", inputs, vocab_size=99, d_model=64, encoder_layers=2, decoder_layers=2,
        encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=128, decoder_ffn_dim=128,
        max_source_positions=100, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=3,
    )  # fmt: skip


def clip_vision() -> Any:
    return _from_transformers(
        "CLIPVisionModel", "CLIPVisionConfig", {"pixel_values": torch.randn(1, 3, 64, 64)}, hidden_size=64,
        num_hidden_layers=3, num_attention_heads=4, intermediate_size=128, image_size=64, patch_size=16,
    )  # fmt: skip


def segformer() -> Any:
    return _from_transformers(
        "SegformerForSemanticSegmentation", "SegformerConfig", {"pixel_values": torch.randn(1, 3, 64, 64)}, num_labels=7
    )


class _Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(90, 32), nn.Linear(128, 9)
        self.rnn = nn.LSTM(32, 64, num_layers=2, bidirectional=True, batch_first=True)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.rnn(self.embed(ids))[0])


def lstm_tagger() -> Any:
    return _Tagger(), (torch.randint(0, 90, (2, 20)),)


class _UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()

        def block(a: int, b: int) -> nn.Module:
            return nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU())

        self.down, self.inner, self.up = block(3, 16), block(16, 32), block(32, 16)
        self.grow, self.head = nn.ConvTranspose2d(32, 16, 2, 2), nn.Conv2d(16, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        down = self.down(x)
        grown = self.grow(self.inner(nn.functional.max_pool2d(down, 2)))
        return self.head(self.up(torch.cat([down, grown], 1)))


def unet() -> Any:
    return _UNet(), _image()


class _Detector(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.SiLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.SiLU())
        self.turn, self.head = nn.Linear(32, 6), nn.Conv2d(32, 6, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        seen = self.body(x)
        grid = nn.functional.affine_grid(self.turn(seen.mean((2, 3))).view(-1, 2, 3), list(seen.shape), False)
        looked = nn.functional.grid_sample(seen, grid, align_corners=False)
        large = nn.functional.interpolate(looked, scale_factor=2.0, mode="bilinear", align_corners=False)
        found = self.head(large).flatten(2)
        return found.sigmoid(), torch.topk(found[:, 4], 10).values


def detector() -> Any:
    return _Detector(), _image()


# By name: the network of timm, or what makes one.
NETWORKS: dict[str, Callable[[], Any]] = {
    **{f.__name__: f for f in (bert, distilbert, gpt2, llama, t5, wav2vec2, whisper, clip_vision, segformer)},
    "vit": functools.partial(_from_timm, "vit_tiny_patch16_224", img_size=64),
    "swin": functools.partial(_from_timm, "swin_tiny_patch4_window7_224", 112, img_size=112),
    "convnext": functools.partial(_from_timm, "convnext_atto"),
    "mobilenet_v3_small": functools.partial(_from_timm, "mobilenetv3_small_100"),
    "mobilenet_v3_large": functools.partial(_from_timm, "mobilenetv3_large_100"),
    "efficientnet": functools.partial(_from_timm, "efficientnet_b0"),
    "resnet18": functools.partial(_from_timm, "resnet18"),
    "densenet": functools.partial(_from_timm, "densenet121"),
    "regnet": functools.partial(_from_timm, "regnety_002"),
    "mixer": functools.partial(_from_timm, "mixer_s32_224", img_size=64),
    **{f.__name__: f for f in (lstm_tagger, unet, detector)},
}


def make(name: str) -> Any:
    """The network of a name, with the weights of seed 0, and what it is fed."""
    torch.manual_seed(0)
    module, inputs = NETWORKS[name]()
    return module.eval(), inputs


def compare(name: str) -> Ran:
    """One network on four sides."""
    on = [word for side in SIDES for word in ("--on", side)]
    with tempfile.TemporaryDirectory() as folder:
        own = str(Path(__file__).parent)
        Path(folder, "net.py").write_text(
            f"import sys\nsys.path.insert(0, {own!r})\nimport library_networks\n\n"
            f"def make():\n    return library_networks.make({name!r})\n"
        )
        return run_compare(["net.py:make", *on], Path(folder), LIMIT_S)


def describe(name: str) -> str:
    """A row of the page."""
    ran = compare(name)
    finding = ran.finding
    if finding is None:
        return f"| {name} | - | - | {ran.first_s:.0f} | {ran.seconds:.0f} | {ran.said[:160]} |"
    unjudged = max(side["unjudged_operations"] for side in finding["sides"])
    odd = [s for s in finding["sides"] if s["failure"] or s["verdict"] not in ("rounding", "identical")]
    sides = "; ".join(_describe_side(side) for side in odd)
    judged = f"{finding['operations'] - unjudged} of {finding['operations']}"
    verdict = finding["verdict"] + (f": {sides}" if sides else "")
    return f"| {name} | {len(finding['units'])} | {judged} | {ran.first_s:.0f} | {ran.seconds:.0f} | {verdict} |"


def _describe_side(side: dict[str, Any]) -> str:
    says = side["failure"]["kind"] if side["failure"] else side["verdict"]
    return f"{side['name']} {says}" + (f" ({side['cause']})" if side["cause"] else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="*")
    parser.add_argument("--write", type=Path, help="the page to write")
    given = parser.parse_args()
    rows = []
    for name in NETWORKS:
        if fnmatch.fnmatch(name, given.only):
            rows.append(describe(name))
            print(rows[-1], flush=True)
    heads = [
        "| network | units | operations judged | first verdict, s | all, s | verdict |",
        "|---|---|---|---|---|---|",
    ]
    table = "\n".join([*heads, *rows])
    if given.write:
        from pages import write_page

        write_page(given.write, "Networks of libraries", f"{ABOUT} On {os.cpu_count()} cores.", table)


if __name__ == "__main__":
    main()

"""Attention as models compute it: BERT (arXiv:1810.04805), ViT (2010.11929), GPT-2, T5 (1910.10683), and others.

Llama 3 (2407.21783), Whisper (2212.04356), Swin (2103.14030), Mistral (2310.06825) and Gemma 2 (2408.00118), at small
lengths; steps of decoding have one query behind a cache.
"""

ATTENTIONS = """
bert              attention q=2x12x128x64 k=2x12x128x64 mask=bool
bert.float16      attention q=2x12x128x64 k=2x12x128x64 mask=bool dtype=float16
vit               attention q=1x12x197x64 k=1x12x197x64
gpt2              attention q=1x12x64x64 k=1x12x64x64 causal
gpt2.bfloat16     attention q=1x12x64x64 k=1x12x64x64 causal dtype=bfloat16
gpt2.decode       attention q=1x12x1x64 k=1x12x33x64 causal=lower_right
t5                attention q=1x8x60x64 k=1x8x60x64 mask=add scale=1.0
llama             attention q=1x32x48x128 k=1x8x48x128 causal
llama.chunk       attention q=1x32x16x128 k=1x8x80x128 causal=lower_right
llama.decode      attention q=1x32x1x128 k=1x8x257x128 causal=lower_right
llama.float16     attention q=1x32x1x128 k=1x8x257x128 causal=lower_right dtype=float16
llama.bfloat16    attention q=1x32x48x128 k=1x8x48x128 causal dtype=bfloat16
whisper.cross     attention q=1x8x16x64 k=1x8x1500x64
swin              attention q=64x3x49x32 k=64x3x49x32 mask=add
mistral           attention q=1x32x64x128 k=1x8x64x128 causal window=24
gemma             attention q=1x8x48x256 k=1x4x48x256 causal softcap=50.0
phi.decode        attention q=1x32x1x80 k=1x1x130x80
"""


def list_attentions() -> dict[str, str]:
    """The problems' texts by name."""
    return {line.split()[0]: line.split(maxsplit=1)[1] for line in ATTENTIONS.strip().splitlines()}

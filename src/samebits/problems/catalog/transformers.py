"""Products: BERT (arXiv:1810.04805), GPT-2, ViT (2010.11929), MLP-Mixer (2105.01601), LSTMs (1409.2329), heads."""

# The base model, 128 words; a sentence alone, and a step of training on 64 words.
BERT = """
query             linear x=1x128x768 w=768x768 bias
scores            matmul x=1x12x128x64 w=1x12x64x128
values            matmul x=1x12x128x128 w=1x12x128x64
up                linear x=1x128x768 w=3072x768 bias
down              linear x=1x128x3072 w=768x3072 bias
pooler            linear x=1x768 w=768x768 bias
classifier        linear x=8x768 w=2x768 bias
query.bfloat16    linear x=1x128x768 w=768x768 bias dtype=bfloat16
up.grad_input     linear.grad_input x=64x768 w=3072x768
up.grad_weight    linear.grad_weight x=64x768 w=3072x768
query.grad_input  linear.grad_input x=4x16x768 w=768x768
"""

# One word at a time: every product has one row; and the first words of a prompt.
GPT2 = """
attention.1       linear x=1x1x768 w=2304x768 bias
attention.7       linear x=1x7x768 w=2304x768 bias
scores.1          matmul x=1x12x1x64 w=1x12x64x33
values.1          matmul x=1x12x1x33 w=1x12x33x64
up.1              linear x=1x768 w=3072x768 bias
down.1            linear x=1x3072 w=768x3072 bias
"""

# Pictures of 224 x 224 in patches of 16 x 16: 196, and a token for the class.
VIT = """
qkv               linear x=1x197x768 w=2304x768 bias
scores            matmul x=12x197x64 w=12x64x197
values            matmul x=12x197x197 w=12x197x64
projection        linear x=1x197x768 w=768x768 bias
head              linear x=1x768 w=1000x768 bias
tiny.qkv.float16  linear x=1x197x192 w=576x192 bias dtype=float16
"""

# The small model: 196 patches of 512 channels; patches are mixed on the transposed tensor.
MIXER = """
tokens.up         linear x=1x512x196 w=256x196 bias
tokens.down       linear x=1x512x256 w=196x256 bias
channels.up       linear x=1x196x512 w=2048x512 bias
channels.down     linear x=1x196x2048 w=512x2048 bias
"""

# Four gates at once: the medium model on Penn Treebank, and a wider one.
LSTM = """
medium.20         linear x=20x650 w=2600x650 bias
medium.1          linear x=1x650 w=2600x650 bias
wide.32           linear x=32x1024 w=4096x1024 bias
wide.grad_weight  linear.grad_weight x=32x1024 w=1024x1024
"""

HEADS = """
lenet             linear x=64x256 w=120x256 bias then=relu
resnet50          linear x=1x2048 w=1000x2048 bias
resnet50.8        linear x=8x2048 w=1000x2048 bias
mobilenet         linear x=8x1280 w=1000x1280 bias then=clip(0,6)
vgg16             linear x=1x4096 w=1000x4096 bias
"""

# What else products have: vectors, one operand for a whole batch, both broadcast, primes, formats.
PRODUCTS = """
dot               matmul x=4097 w=4097
vector-matrix     matmul x=768 w=768x65
matrix-vector     matmul x=65x768 w=768
one-right         matmul x=5x33x64 w=64x31
one-left          matmul x=33x64 w=5x64x31
broadcast-both    matmul x=4x1x17x32 w=3x32x19
primes            matmul x=127x257 w=257x61
long              matmul x=3x8191 w=8191x5
one-row           matmul x=1x4096 w=4096x64
one-column        matmul x=64x4096 w=4096x1
one-product       matmul x=7x1 w=1x5
float64           matmul x=63x200 w=200x31 dtype=float64
half-to-single    matmul x=8x128x64 w=8x64x128 dtype=float16 out=float32
eight-bits        linear x=16x64 w=24x64 bias dtype=float8_e4m3fn out=bfloat16
"""

TABLES = {
    "bert": BERT,
    "gpt2": GPT2,
    "vit": VIT,
    "mlp-mixer": MIXER,
    "lstm": LSTM,
    "heads": HEADS,
    "products": PRODUCTS,
}

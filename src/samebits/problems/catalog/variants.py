"""Layers in other directions and formats, as mixed-precision training has them (arXiv:1710.03740)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import cast

from samebits.problems.problem import DIRECTIONS, Direction, Problem

# What training asks of a layer in addition to the forward result, and in which formats people run it.
VARIANTS = """
alexnet-owt/features.0              grad_weight
alexnet-owt/features.3              grad_input
lenet5/c1                           grad_weight  grad_input  float64
lenet5/c3                           float16  bfloat16
vgg16-cifar/conv1_2                 grad_weight  float16
vgg16-cifar/conv3_2                 grad_input  bfloat16
resnet50/conv1                      grad_weight  float16  bfloat16
resnet50/layer1.0.conv1             grad_weight  float16
resnet50/layer1.0.conv2             grad_input  grad_weight  float16  bfloat16
resnet50/layer2.0.conv2             grad_input  grad_weight
resnet50/layer2.0.downsample        grad_input  grad_weight
resnet50/layer3.1.conv2             grad_input  float16  grad_weight.float16
resnet50/layer4.1.conv1             float16  bfloat16
resnet50/layer4.1.conv2             grad_input  bfloat16  grad_weight.bfloat16
resnet20-cifar/conv1                grad_weight  float64
resnet20-cifar/layer1.0.conv1       grad_input  grad_weight  float16  float64
resnet20-cifar/layer2.0.conv1       grad_input  grad_weight
resnet20-cifar/layer3.1.conv1       grad_weight.float16  bfloat16
resnext50/layer1.0.conv2            grad_input  grad_weight  float16
resnext50/layer3.1.conv2            grad_input  bfloat16
inception-v3/Mixed_6b.branch7x7_2   grad_input  float16
inception-v3/Mixed_6b.branch7x7_3   grad_weight
inception-v3/Mixed_7b.branch3x3_2a  bfloat16
mobilenet-v1/depthwise.64-s2        grad_input  grad_weight  float16
mobilenet-v2/depthwise.144-s2       grad_input  grad_weight
mobilenet-v2/depthwise.960-s1       float16  bfloat16
mobilenet-v2/project.96-24          grad_weight  float16
mobilenet-v3/bneck4.depthwise       grad_weight  float16
efficientnet-b0/stem                grad_weight  float16  bfloat16
efficientnet-b0/block3a.depthwise   grad_input  grad_weight  bfloat16
efficientnet-b0/block6a.depthwise   grad_input  float16
shufflenet/stage3.1.conv1           grad_input  grad_weight  float16
vit/ti16.patch_embed                grad_weight  float16  bfloat16
vit/b16.patch_embed                 bfloat16
convnext/stage3.depthwise           grad_input  grad_weight  float16  bfloat16
convnext/stage2.downsample          grad_input  grad_weight
unet/down3.conv2                    grad_input  float16
unet/up3                            grad_input  grad_weight  bfloat16
deeplab/aspp.6                      grad_input  float16
deeplab/aspp.12                     grad_weight
context/layer5                      grad_input  grad_weight  float64
dcgan/generator.2                   grad_input  grad_weight  float16
dcgan/generator.4                   grad_weight  float64
dcgan/discriminator.1               grad_input  grad_weight  bfloat16
srcnn/conv1                         grad_weight  float64
fsrcnn/upscale3                     grad_input  grad_weight  float64
diffusion-unet/down1.resnet.conv1   float16  bfloat16
diffusion-unet/conv_in              grad_weight  float16
diffusion-vae/encoder.down0         grad_input  float16
diffusion-vae/quant_conv            bfloat16
wavenet/dilated.16                  grad_input  grad_weight  float16  float64
wavenet/dilated.512                 grad_weight  bfloat16
wav2vec2/feature_extractor.0        grad_weight  float16
wav2vec2/feature_extractor.4        grad_input  bfloat16
wav2vec2/pos_conv                   grad_input  float16
whisper/tiny.conv1                  float16  bfloat16
demucs/encoder.1                    grad_input  grad_weight
demucs/decoder.1                    grad_input  grad_weight  float16
hifigan/ups.2                       grad_input  grad_weight  bfloat16
hifigan/scale.2                     grad_weight
tcn/causal.8                        grad_input  float64
tacotron/bank.4                     grad_input  float16
c3d/conv3a                          grad_input  grad_weight  float16
r2plus1d/layer1.temporal            grad_weight  bfloat16
x3d/res5.depthwise                  grad_input  grad_weight  float16
unet3d/up1                          grad_input  grad_weight  bfloat16
vnet/down1                          grad_input  float64
corner/unequal-everything           grad_input  grad_weight  float16  float64
corner/prime                        grad_input  grad_weight  bfloat16  float64
corner/prime-transposed             grad_input  grad_weight  float16  float64
corner/prime-3d                     grad_input  grad_weight  float64
corner/groups-transposed            grad_input  grad_weight  float64
corner/kernel-over-input            grad_input  grad_weight  float64
corner/stride-over-kernel           grad_input  grad_weight  bfloat16
corner/channels-8191                float16  bfloat16  float64
corner/window-63                    float16  bfloat16
corner/same-lower-strided           grad_input  grad_weight
corner/crossed                      grad_input  grad_weight  float16
report/M01-02                       float16  bfloat16
report/M14-04                       float16
"""


def variants_of(problems: Mapping[str, Problem]) -> dict[str, Problem]:
    """The problems that the table above asks for, named `family/layer.variant`; KeyError where a layer is missing."""
    return {f"{name}.{variant}": _vary(problems[name], variant) for name, variant in _split_rows()}


def _split_rows() -> Iterator[tuple[str, str]]:
    for line in VARIANTS.strip().splitlines():
        name, *variants = line.split()
        yield from ((name, variant) for variant in variants)


def _vary(problem: Problem, variant: str) -> Problem:
    """`problem` with each word of `grad_weight.float16` applied; a direction drops bias and epilogue."""
    for word in variant.split("."):
        if word in DIRECTIONS:
            problem = replace(problem, direction=cast(Direction, word), bias=False, then=None)
        else:
            problem = replace(problem, dtype=word, out=word)
    return problem

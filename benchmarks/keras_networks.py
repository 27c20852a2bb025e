"""Keras networks with seeded weights and statistics as if trained: `keras_networks.py:mobilenet_v2` is a model."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import layers

Pair = tuple[Any, np.ndarray]
# Keras declares `weights` as text; None, which it takes, means none.
_APPLICATIONS: Any = keras.applications


def _draw(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def _settle(model: Any) -> Any:
    """Batch norms with statistics and scales that are not those of an untrained network."""
    rng = np.random.default_rng(1)
    for layer in model.layers:
        if isinstance(layer, layers.BatchNormalization):
            scale, shift, mean, variance = (w.shape for w in layer.weights)
            layer.set_weights([
                rng.uniform(0.5, 1.5, scale), rng.normal(0, 0.2, shift), rng.normal(0, 0.3, mean),
                rng.uniform(0.5, 2.0, variance),
            ])  # fmt: skip
    return model


def mobilenet_v2() -> Pair:
    """MobileNetV2 on 96 x 96."""
    keras.utils.set_random_seed(0)
    return _settle(_APPLICATIONS.MobileNetV2((96, 96, 3), weights=None, classes=10)), _draw(1, 96, 96, 3)


def resnet50() -> Pair:
    """ResNet-50 on 64 x 64."""
    keras.utils.set_random_seed(0)
    model = _APPLICATIONS.ResNet50(weights=None, input_shape=(64, 64, 3), classes=10)
    return _settle(model), _draw(1, 64, 64, 3)


def efficientnet_b0() -> Pair:
    """EfficientNet-B0 on 64 x 64, images 0 to 255."""
    keras.utils.set_random_seed(0)
    model = _APPLICATIONS.EfficientNetB0(weights=None, input_shape=(64, 64, 3), classes=10)
    return _settle(model), np.random.default_rng(0).integers(0, 256, (1, 64, 64, 3)).astype(np.float32)


def transformer() -> Pair:
    """Two layers of attention behind an embedding."""
    keras.utils.set_random_seed(0)
    tokens = keras.Input((24,), dtype="int32")
    x = layers.Embedding(100, 64)(tokens)
    for _ in range(2):
        x = layers.LayerNormalization()(x + layers.MultiHeadAttention(4, 16)(x, x))
        x = layers.LayerNormalization()(x + layers.Dense(64)(layers.Dense(256, activation="gelu")(x)))
    model = keras.Model(tokens, layers.Dense(10)(layers.GlobalAveragePooling1D()(x)))
    return model, np.random.default_rng(0).integers(0, 100, (2, 24)).astype(np.int32)


def unet() -> Pair:
    """Down and up again, with transposed convolutions and what was left aside."""
    keras.utils.set_random_seed(0)
    x = keras.Input((32, 32, 3))
    left: list[Any] = []
    y = x
    for width in (16, 32):
        y = layers.BatchNormalization()(layers.Conv2D(width, 3, padding="same", activation="relu")(y))
        left.append(y)
        y = layers.MaxPooling2D()(y)
    y = layers.Conv2D(64, 3, padding="same", activation="relu")(y)
    for width, kept in zip((32, 16), reversed(left), strict=True):
        y = layers.Conv2DTranspose(width, 2, strides=2)(y)
        y = layers.Conv2D(width, 3, padding="same", activation="relu")(layers.Concatenate()([y, kept]))
    return _settle(keras.Model(x, layers.Conv2D(4, 1)(y))), _draw(1, 32, 32, 3)


def speech() -> Pair:
    """One axis: dilated causal convolutions, then a recurrent layer."""
    keras.utils.set_random_seed(0)
    x = keras.Input((64, 8))
    y = x
    for dilation in (1, 2, 4):
        y = layers.Conv1D(16, 3, padding="causal", dilation_rate=dilation, activation="tanh")(y)
    return keras.Model(x, layers.Dense(5)(layers.LSTM(12)(y))), _draw(2, 64, 8)


def volume() -> Pair:
    """Three axes."""
    keras.utils.set_random_seed(0)
    x = keras.Input((12, 12, 12, 2))
    y = layers.MaxPooling3D()(layers.Conv3D(8, 3, padding="same", activation="relu")(x))
    y = layers.Conv3D(16, 3, padding="same", activation="relu")(y)
    return keras.Model(x, layers.Dense(4)(layers.Flatten()(y))), _draw(1, 12, 12, 12, 2)


KERAS_NETWORKS = ("mobilenet_v2", "resnet50", "efficientnet_b0", "transformer", "unet", "speech", "volume")

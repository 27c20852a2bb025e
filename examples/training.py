"""A training as it is often written: its loss differs from run to run. docs/repeatable_run.md finds out why."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

images = np.random.default_rng(0).normal(size=(256, 3, 16, 16)).astype("float32")
labels = (images.mean(axis=(1, 2, 3)) > 0).astype("int64")
data = TensorDataset(torch.from_numpy(images), torch.from_numpy(labels))

model = nn.Sequential(
    nn.Conv2d(3, 32, 3, padding=1),
    nn.BatchNorm2d(32),
    nn.ReLU(),
    nn.Dropout(0.1),
    nn.Conv2d(32, 64, 3, stride=2, padding=1),
    nn.ReLU(),
    nn.AdaptiveAvgPool2d(1),
    nn.Flatten(),
    nn.Linear(64, 2),
)
losses: list[float] = []
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for images, labels in DataLoader(data, batch_size=32, shuffle=True):
    if np.random.rand() < 0.5:
        images = images.flip(-1)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print(f"loss {losses[-1]:.9f}")

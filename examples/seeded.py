"""A training with the seed that everybody sets, and one draw that it does not reach. docs/tutorial.md finds it."""

import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(
    nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 2)
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
losses: list[float] = []
for _ in range(8):
    images, labels = torch.randn(32, 3, 16, 16), torch.randint(2, (32,))
    images = torch.roll(images, int(np.random.randint(16)), -1)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print(f"loss {losses[-1]:.9f}")

"""A small training, as people write them, with one thing that may be done otherwise. Run as a script."""

import os
import random
import sys

import numpy as np
import torch
from torch import nn

CHANGE = dict(part.split("=", 1) for part in sys.argv[1:])


class Samples(torch.utils.data.Dataset):
    def __init__(self):
        made = torch.Generator().manual_seed(5)
        self.x = torch.randn(48, 3, 8, 8, generator=made)
        self.y = torch.randint(0, 5, (48,), generator=made)
        self.order = list(range(48))
        if "python_shuffle" in CHANGE:
            random.Random(int(CHANGE["python_shuffle"])).shuffle(self.order)

    def __len__(self):
        return 48

    def __getitem__(self, i):
        x = self.x[self.order[i]]
        if "augment" in CHANGE:
            x = x + float(np.random.default_rng(int(CHANGE["augment"]) + i).normal() * 0.1)
        return x, self.y[self.order[i]]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.drop, self.head = nn.Dropout(float(CHANGE.get("p", "0.2"))), nn.Linear(8 * 64, 5)

    def forward(self, x):
        y = torch.relu(self.norm(self.conv(x)))
        if "noise" in CHANGE:
            y = y + int.from_bytes(os.urandom(1)) * 1e-3
        return self.head(self.drop(y).flatten(1))


def main():
    torch.set_num_threads(int(CHANGE.get("threads", "1")))
    torch.backends.mkldnn.enabled = CHANGE.get("mkldnn", "on") == "on"
    if CHANGE.get("seed") != "none":
        torch.manual_seed(int(CHANGE.get("seed", "0")))
    model = Net()
    if CHANGE.get("layout") == "channels_last":
        model = model.to(memory_format=torch.channels_last)
    if "start" in CHANGE:
        with torch.no_grad():
            model.head.bias[0] += float(CHANGE["start"])
    shuffles = torch.Generator().manual_seed(int(CHANGE.get("shuffle", "3")))
    loader = torch.utils.data.DataLoader(
        Samples(), 8, shuffle=True, generator=shuffles, num_workers=int(CHANGE.get("workers", "0"))
    )
    kind = torch.optim.Adam if CHANGE.get("optimizer") == "adam" else torch.optim.SGD
    optimizer = kind(model.parameters(), lr=float(CHANGE.get("lr", "0.05")))
    for step, (x, y) in enumerate(loader):
        if step == int(CHANGE.get("extra_draw", "-1")):
            torch.rand(1)
        if step == int(CHANGE.get("nudge", "-1")):
            with torch.no_grad():
                model.head.weight[0, 0] = torch.nextafter(model.head.weight[0, 0], torch.tensor(9.0))
        if step == int(CHANGE.get("swap", "-1")):
            x, y = x.flip(0), y.flip(0)
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled="autocast" in CHANGE):
            loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        if step == int(CHANGE.get("validate", "-1")):
            model.eval()
            with torch.no_grad():
                for x, _ in torch.utils.data.DataLoader(Samples(), 16):
                    model(x)
            model.train()
        if step == int(CHANGE.get("stop", "99")):
            break
    print(f"loss {loss.item():.6f}")


if __name__ == "__main__":
    main()

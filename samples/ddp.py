#!/usr/bin/env python3
"""Trains a small network with DistributedDataParallel on all GPUs of a job, on one node or several.

    mgpu srun -G 2 --distributed -- samples/ddp.py
    mgpu srun -N 2 --gpus-per-node 4 --distributed -- samples/ddp.py --epochs 20
    mgpu srun --ship -N 2 --gpus-per-node 4 --distributed -- samples/ddp.py     # where no files are shared

`--distributed` starts a process for each GPU and fills in ranks and a place to meet: here nothing has to be. It needs
PyTorch where it runs: the virtual or conda environment that is active, or `--setup 'source ~/venv/bin/activate'`.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def main() -> None:
    parser = argparse.ArgumentParser(description="Trains a small network on all GPUs of a job.")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch", type=int, default=64, help="of each process (64)")
    parser.add_argument("--lr", type=float, default=0.05)
    asked = parser.parse_args()
    local = int(os.environ["LOCAL_RANK"])
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", local) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if cuda else "gloo")
    try:
        rank, size = dist.get_rank(), dist.get_world_size()
        say(f"rank {rank} of {size} on {os.environ.get('MGPU_NODE_ID', '?')}: {device}")
        train(asked, rank, device)
        gc.collect()  # the model holds the group, in a circle: what is left of it at the end may abort the process
    finally:
        dist.destroy_process_group()


def train(asked: argparse.Namespace, rank: int, device: torch.device) -> None:
    data = points()
    sampler: DistributedSampler[tuple[torch.Tensor, ...]] = DistributedSampler(data)
    loader = DataLoader(data, batch_size=asked.batch, sampler=sampler)
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1)).to(device)
    model = DistributedDataParallel(network, device_ids=[device.index] if device.type == "cuda" else None)
    optimiser = torch.optim.SGD(model.parameters(), lr=asked.lr, momentum=0.9)
    for epoch in range(asked.epochs):
        sampler.set_epoch(epoch)
        total = torch.zeros(2, device=device)
        for inputs, wanted in loader:
            loss = nn.functional.mse_loss(model(inputs.to(device)), wanted.to(device))
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            total += torch.tensor([float(loss.detach()) * len(inputs), len(inputs)], device=device)
        dist.all_reduce(total)
        if rank == 0:
            say(f"epoch {epoch + 1}: loss {float(total[0] / total[1]):.4f}")


def points() -> TensorDataset:
    """A surface with a hill and a hollow, the same in every process."""
    generator = torch.Generator().manual_seed(7)
    places = torch.rand(4096, 2, generator=generator) * 4 - 2
    heights = torch.exp(-((places - 0.7) ** 2).sum(1)) - torch.exp(-((places + 0.7) ** 2).sum(1))
    return TensorDataset(places, heights.unsqueeze(1))


def say(text: str) -> None:
    sys.stdout.write(text + "\n")  # in one piece: lines of several ranks stay whole
    sys.stdout.flush()


if __name__ == "__main__":
    main()

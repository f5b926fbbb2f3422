"""Train a small GPT with Chimera, stop, and go on under another layout as if nothing had happened.

    torchrun --nproc-per-node 4 examples/train_gpt.py --depth 4 --steps 200 --save gpt.pt
    torchrun --nproc-per-node 4 examples/train_gpt.py --depth 2 --width 2 --steps 300 --load gpt.pt
    torchrun --nproc-per-node 1 examples/train_gpt.py --schedule gpipe --depth 1 --steps 300 --load gpt.pt

It learns to write its own source, byte by byte, on the CPU. Copy it and put your layers and data in.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn

from executor import Configuration, Pipeline, Settings, cross_entropy

VOCABULARY, CONTEXT, HIDDEN, HEADS, BLOCKS = 256, 64, 64, 4, 6
MINI_BATCH, MICRO_BATCHES = 32, 4


class Embedding(nn.Module):
    """Bytes [B, S] to hidden states [B, S, h]."""

    def __init__(self) -> None:
        super().__init__()
        self.token = nn.Embedding(VOCABULARY, HIDDEN)
        self.position = nn.Embedding(CONTEXT, HIDDEN)

    def forward(self, tokens: Tensor) -> Tensor:
        """Add what the byte is and where it stands."""
        places = torch.arange(tokens.shape[1], device=tokens.device)
        return self.token(tokens) + self.position(places)


class Block(nn.Module):
    """Causal self-attention and an MLP, each added to what came in [B, S, h]."""

    def __init__(self) -> None:
        super().__init__()
        self.before_attention = nn.LayerNorm(HIDDEN)
        self.queries_keys_values = nn.Linear(HIDDEN, 3 * HIDDEN)
        self.out = nn.Linear(HIDDEN, HIDDEN)
        self.before_mlp = nn.LayerNorm(HIDDEN)
        self.mlp = nn.Sequential(
            nn.Linear(HIDDEN, 4 * HIDDEN), nn.GELU(), nn.Linear(4 * HIDDEN, HIDDEN), nn.Dropout(0.1)
        )

    def forward(self, hidden: Tensor) -> Tensor:
        """Attend, then think."""
        batch, length, _ = hidden.shape
        parts = self.queries_keys_values(self.before_attention(hidden)).chunk(3, dim=-1)
        split = [part.view(batch, length, HEADS, -1).transpose(1, 2) for part in parts]  # [B, heads, S, d]
        attended = nn.functional.scaled_dot_product_attention(*split, is_causal=True)
        hidden = hidden + self.out(attended.transpose(1, 2).flatten(2))
        return hidden + self.mlp(self.before_mlp(hidden))


def layers() -> list[nn.Module]:
    """The whole model: every process makes it, and keeps its own part."""
    torch.manual_seed(0)
    head = nn.Sequential(nn.LayerNorm(HIDDEN), nn.Linear(HIDDEN, VOCABULARY))
    return [Embedding(), *(Block() for _ in range(BLOCKS)), head]


def mini_batches(first: int, last: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Pieces of this file, the same in every process; a step's samples depend on its number alone."""
    text = torch.frombuffer(bytearray(Path(__file__).read_bytes()), dtype=torch.uint8).long()
    for step in range(first, last):
        generator = torch.Generator().manual_seed(step)
        starts = torch.randint(len(text) - CONTEXT - 1, (MINI_BATCH,), generator=generator)
        windows = torch.stack([text[start : start + CONTEXT + 1] for start in starts.tolist()])
        yield windows[:, :-1], windows[:, 1:]


def main() -> None:
    """Train from where a checkpoint, if any, left off to the asked step."""
    asked = arguments()
    dist.init_process_group("gloo")
    pipeline = Pipeline(
        layers(),
        cross_entropy(),
        Configuration(
            asked.schedule,
            width=asked.width,
            depth=asked.depth,
            micro_batch_size=MINI_BATCH // (MICRO_BATCHES // asked.width) // asked.width,
            micro_batches=MICRO_BATCHES // asked.width,
        ),
        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=3e-3),
        settings=Settings(clip_norm=1.0),
    )
    if asked.load:
        pipeline.load(asked.load)
    for tokens, targets in mini_batches(pipeline.steps, asked.steps):
        loss = pipeline.step(tokens, targets)
        if dist.get_rank() == 0 and (pipeline.steps % 20 == 0 or pipeline.steps == asked.steps):
            print(f"step {pipeline.steps:4}  loss {loss:.6f}", flush=True)
    if asked.save:
        pipeline.save(asked.save)
    dist.destroy_process_group()


def arguments() -> argparse.Namespace:
    """What to run; W·D processes must have been started."""
    parser = argparse.ArgumentParser(description="Train a small GPT in a pipeline.")
    parser.add_argument("--schedule", default="chimera")
    parser.add_argument("--width", type=int, default=1)
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--steps", type=int, default=200, help="train up to this step")
    parser.add_argument("--save", help="write a checkpoint at the end")
    parser.add_argument("--load", help="go on from a checkpoint")
    return parser.parse_args()


if __name__ == "__main__":
    main()

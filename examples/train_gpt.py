"""Train a small GPT with Chimera, stop, and go on under another layout as if nothing had happened.

    torchrun --nproc-per-node 4 examples/train_gpt.py --depth 4 --steps 200 --save gpt.pt
    torchrun --nproc-per-node 4 examples/train_gpt.py --depth 2 --width 2 --steps 300 --load gpt.pt
    torchrun --nproc-per-node 1 examples/train_gpt.py --schedule gpipe --depth 1 --steps 300 --load gpt.pt

It learns to write its own source, byte by byte. Copy it and put your layers and data in. Exports torchrun,
slurm and ray of `chimera plan` write the flags that make it run what was planned.
"""

import argparse
import os
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn

from executor import Configuration, Pipeline, Settings, cross_entropy

VOCABULARY, CONTEXT, HIDDEN, HEADS, BLOCKS = 256, 64, 64, 4, 6
MINI_BATCH, MICRO_BATCHES = 32, 4  # unless --micro-batch-size and --micro-batches say otherwise


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


def layers(blocks: int) -> list[nn.Module]:
    """The whole model: every process makes it, and keeps its own part."""
    torch.manual_seed(0)
    head = nn.Sequential(nn.LayerNorm(HIDDEN), nn.Linear(HIDDEN, VOCABULARY))
    return [Embedding(), *(Block() for _ in range(blocks)), head]


def mini_batches(first: int, last: int, samples: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Pieces of this file, the same in every process; a step's samples depend on its number alone."""
    text = torch.frombuffer(bytearray(Path(__file__).read_bytes()), dtype=torch.uint8).long()
    for step in range(first, last):
        generator = torch.Generator().manual_seed(step)
        starts = torch.randint(len(text) - CONTEXT - 1, (samples,), generator=generator)
        windows = torch.stack([text[start : start + CONTEXT + 1] for start in starts.tolist()])
        yield windows[:, :-1], windows[:, 1:]


def main() -> None:
    """Train from where a checkpoint, if any, left off to the asked step."""
    asked = arguments()
    dist.init_process_group("cpu:gloo,cuda:nccl" if asked.device == "cuda" else "gloo")
    chosen, blocks = configuration(asked), sum(asked.stage_layers or [BLOCKS])
    pipeline = Pipeline(
        layers(blocks),
        cross_entropy(),
        chosen,
        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=3e-3),
        settings=settings(asked),
    )
    if asked.load:
        pipeline.load(asked.load)
    for tokens, targets in mini_batches(pipeline.steps, asked.steps, chosen.mini_batch_size):
        loss = pipeline.step(tokens, targets)
        if dist.get_rank() == 0 and (pipeline.steps % 20 == 0 or pipeline.steps == asked.steps):
            print(f"step {pipeline.steps:4}  loss {loss:.6f}", flush=True)
    if asked.save:
        pipeline.save(asked.save)
    pipeline.close()  # all processes together: none leaves while another still has something to say
    dist.destroy_process_group()


def configuration(asked: argparse.Namespace) -> Configuration:
    """The layout, whose sizes are those of a plan, or MINI_BATCH in MICRO_BATCHES over all groups."""
    micro_batches = asked.micro_batches or MICRO_BATCHES // asked.width
    return Configuration(
        asked.schedule,
        width=asked.width,
        depth=asked.depth,
        micro_batch_size=asked.micro_batch_size or MINI_BATCH // micro_batches // asked.width,
        micro_batches=micro_batches,
        recompute=asked.recompute,
        scaling=asked.scaling,
        pipe_pairs=asked.pipe_pairs,
        chunks=asked.chunks,
    )


def settings(asked: argparse.Namespace) -> Settings:
    """How it is run: a plan counts blocks, and here the embedding and the head are layers too."""
    partition = asked.stage_layers
    if partition:
        partition[0] += 1
        partition[-1] += 1
    on_cuda = asked.device == "cuda"
    return Settings(
        partition=tuple(partition) if partition else None,
        precision=asked.precision,
        gradient_precision=asked.gradient_precision,
        optimizer_sharding=asked.optimizer_sharding,
        compression=asked.compression,
        clip_norm=1.0,
        device=f"cuda:{os.environ['LOCAL_RANK']}" if on_cuda else "cpu",
    )


def arguments() -> argparse.Namespace:
    """What to run; W·D processes must have been started."""
    parser = argparse.ArgumentParser(description="Train a small GPT in a pipeline.")
    parser.add_argument("--schedule", default="chimera")
    parser.add_argument("--width", type=int, default=1)
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--micro-batch-size", type=int, help="samples of a forward")
    parser.add_argument("--micro-batches", type=int, help="of each pipeline group and step")
    parser.add_argument("--stage-layers", type=blocks_of_stages, help="blocks of each stage, as 2,2,2")
    parser.add_argument("--recompute", default="none")
    parser.add_argument("--scaling", default="direct")
    parser.add_argument("--pipe-pairs", type=int, default=1)
    parser.add_argument("--chunks", type=int, default=1)
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--gradient-precision", default="float32")
    parser.add_argument("--optimizer-sharding", default="none")
    parser.add_argument("--compression", default="none", help="of gradients: fp16, topk:0.01, qsgd, ...")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--steps", type=int, default=200, help="train up to this step")
    parser.add_argument("--save", help="write a checkpoint at the end")
    parser.add_argument("--load", help="go on from a checkpoint")
    return parser.parse_args()


def blocks_of_stages(text: str) -> list[int]:
    """Whole numbers between commas."""
    return [int(word) for word in text.split(",")]


if __name__ == "__main__":
    main()

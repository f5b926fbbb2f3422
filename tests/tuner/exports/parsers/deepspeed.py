"""What does DeepSpeed make of the configuration on stdin? Run where deepspeed can be imported."""

import json
import sys

import deepspeed
import torch
from deepspeed.runtime.config import DeepSpeedConfig
from torch.testing._internal.distributed.fake_pg import FakeStore

# As many replicas as the first argument says, without a process behind them.
torch.distributed.init_process_group("fake", rank=0, world_size=int(sys.argv[1]), store=FakeStore())
deepspeed.init_distributed(auto_mpi_discovery=False)
config = DeepSpeedConfig(json.load(sys.stdin))
sys.stdout.write(
    json.dumps(
        {
            "train_batch_size": config.train_batch_size,
            "micro": config.train_micro_batch_size_per_gpu,
            "steps": config.gradient_accumulation_steps,
            "stage": config.zero_optimization_stage,
            "bf16": config.bfloat16_config.enabled,
            "fp16": config.float16_config.enabled,
            "grad_accum_dtype": config.grad_accum_dtype,
        }
    )
)

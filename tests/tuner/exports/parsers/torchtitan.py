"""What does torchtitan's own parser make of options? Run where torchtitan can be imported."""

import json
import sys
from dataclasses import asdict, dataclass, field

import tyro
from torchtitan.config.configs import ParallelismConfig, TrainingConfig
from torchtitan.config.manager import ConfigManager, custom_registry
from torchtitan.distributed.activation_checkpoint import ActivationCheckpointingConfig, SelectiveAC


@dataclass
class Config:
    """The sections of a Trainer.Config that exports write; the whole of it would need datasets and more."""

    training: TrainingConfig = field(default_factory=TrainingConfig)
    parallelism: ParallelismConfig = field(default_factory=ParallelismConfig)
    activation_checkpoint: ActivationCheckpointingConfig = field(default_factory=SelectiveAC.Config)


ConfigManager.register_tyro_rules(custom_registry)
config = tyro.cli(Config, args=sys.argv[1:], default=Config(), registry=custom_registry)
policy = config.activation_checkpoint
sys.stdout.write(
    json.dumps(
        {
            "training": asdict(config.training),
            "parallelism": asdict(config.parallelism),
            "activation_checkpoint": policy and type(policy).__qualname__,
        }
    )
)

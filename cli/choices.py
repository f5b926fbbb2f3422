"""Which words do several commands offer as values? Tests hold them equal to the documents' own."""

PRECISIONS = ("float32", "bfloat16", "float16")
OPTIMIZERS = ("sgd", "momentum", "adam", "adamw")
ATTENTIONS = ("flash", "eager")
RECOMPUTES = ("auto", "none", "stage", "layer")
TARGETS = ("any", "own", "megatron", "torchtitan", "deepspeed")
EXPORTS = ("megatron", "torchtitan", "deepspeed", "torchrun", "slurm", "ray", "env", "json")

"""What does Megatron-LM's own parser make of flags? Run where megatron can be imported."""

import argparse
import json
import sys
import typing

import typing_extensions

# Its wheel is for Python 3.12 and newer; this is all that 3.11 lacks for the parser.
typing.override = typing_extensions.override  # type: ignore[attr-defined]

from megatron.core.transformer.pipeline_parallel_layer_layout import (  # type: ignore[import-not-found]  # noqa: E402
    PipelineParallelLayerLayout,
)
from megatron.training.arguments import add_megatron_arguments  # type: ignore[import-not-found]  # noqa: E402

flags = add_megatron_arguments(argparse.ArgumentParser(allow_abbrev=False)).parse_args(sys.argv[1:])
text = flags.pipeline_model_parallel_layout
stages = None
if text is not None:
    layout = PipelineParallelLayerLayout(text, flags.pipeline_model_parallel_size)
    layout.validate_layer_layout(flags.num_layers, None)
    chunks = range(layout.virtual_pipeline_model_parallel_size)
    decoder = layout.flatten_layout[1]
    stages = [rank[chunk].count(decoder) for chunk in chunks for rank in layout.layout]
names = (
    "pipeline_model_parallel_size",
    "num_layers",
    "micro_batch_size",
    "global_batch_size",
    "bf16",
    "optimizer",
)
sys.stdout.write(json.dumps({name: getattr(flags, name) for name in names} | {"stages": stages}))

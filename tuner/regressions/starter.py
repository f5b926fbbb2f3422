"""Which manifest does a repository start from? One that needs no accelerator and no network."""

STARTER = """\
# What `chimera ci` checks; every key is described in docs/ci.md.
baseline = "chimera-baseline.json"   # written by `chimera ci --accept`, kept in the repository

[thresholds]
time = 0.10         # a layer may take 10 % longer ...
spreads = 3.0       # ... or 3 times the uncertainty of both measurements, where that is more
memory = 0.02       # and keep 2 % more
throughput = 0.05   # and the best plan be 5 % slower

[defaults]
on = "estimate"     # from data sheets; "cpu" and "cuda" measure on the runner
cluster = "dgx-h100"
devices = 64
mini_batch_size = 512

[[models]]
name = "llama"
model = "llama-2-7b"   # a preset, a config.json, a profile, or a factory such as "model.py:build"
micro_batch_sizes = [1, 2, 4]
plan = { optimizer_sharding = "replicas" }

[[models]]
name = "bert"
model = "bert-48"
cluster = "piz-daint"
devices = 32
"""

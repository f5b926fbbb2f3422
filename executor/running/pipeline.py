"""How does a program of the user's train a model with a pipeline? `Pipeline`, one in every process."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from executor.errors import CheckpointError, ConfigurationError
from executor.models.loss import Loss
from executor.running.assembly import Assembly, Settings
from executor.running.checking import Check, compare
from executor.running.evaluation import Evaluation
from executor.running.reference import Learnt
from executor.running.training import Training
from executor.values import Batch, Tensors
from executor.weights import checkpoint
from executor.weights.collecting import collect_objects
from executor.weights.compression_state import gather_compression_state, load_compression_state
from executor.weights.replicas import full_state
from executor.weights.steps import OptimizerFactory
from executor.weights.training_state import gather_training_state, load_training_state
from tuner.configuration import Configuration


class Pipeline:
    """A model that is trained by W·D processes, each holding its stages of it.

        dist.init_process_group("gloo")                       # under torchrun --nproc-per-node 4
        pipeline = Pipeline(
            layers,                                           # list[nn.Module], the same in every process
            cross_entropy(),
            Configuration("chimera", width=1, depth=4, micro_batch_size=4, micro_batches=8),
            optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=3e-4),
        )
        for tokens, targets in data:                          # the same mini-batch in every process
            loss = pipeline.step(tokens, targets)

    All methods are collective: every process calls them, in the same order. A synchronous schedule gives the
    weights that one process gets from the whole mini-batch: the gradient is Σ n_m·g_m / Σn over all
    micro-batches, g_m being that of the mean loss of one and n_m its denominator (samples or valid tokens).
    """

    def __init__(
        self,
        layers: Sequence[nn.Module],
        loss: Loss,
        configuration: Configuration,
        *,
        optimizer: OptimizerFactory,
        settings: Settings | None = None,
    ) -> None:
        """Take this process's layers out of `layers`; each is called with what the one before it gave.

        Replicas begin with equal weights, those of the first, whatever the processes drew. Raises
        ConfigurationError, and ScheduleError where the schedule cannot run that way.
        """
        self._assembly = Assembly(
            layers, loss, configuration, optimizer=optimizer, settings=settings or Settings()
        )
        self._training = Training(self._assembly)
        self._evaluation = Evaluation(self._assembly, self._training.updater)

    @property
    def steps(self) -> int:
        """Mini-batches seen since the beginning of training."""
        return self._training.iteration

    @property
    def sent_bytes(self) -> int:
        """What this process has given to collectives of gradients since it began."""
        return self._assembly.synchronizer.wire.sent_bytes

    def step(self, inputs: Tensor | Tensors, targets: Tensor, *, update: bool = True) -> float:
        """Train on one mini-batch [samples, ...] and give its mean loss.

        With update=False its gradients are added to those of the mini-batches after it, until one updates.
        """
        return self.train([(inputs, targets)], update=update)[0]

    def train(self, batches: Sequence[Batch], *, update: bool = True, report: bool = True) -> list[float]:
        """Train on several mini-batches, and give the mean loss of each.

        An asynchronous schedule fills its pipeline at the first and drains it after the last of them: give it
        many at once. With report=False the losses are not exchanged, and none are given.
        """
        if torch.is_inference_mode_enabled():
            raise ConfigurationError(
                "nothing is learnt in torch.inference_mode(), whose tensors have no gradients: leave it for "
                "steps; evaluate and predict may be called in it"
            )
        losses: list[float] = []
        for batch in self._training.rounds(batches):
            feed = self._training.run(batch, update=update)
            if report:
                losses.extend(self._training.losses(feed))
        return losses

    def evaluate(self, inputs: Tensor | Tensors, targets: Tensor) -> float:
        """The mean loss of samples [samples, ...] in evaluation mode, without learning from them."""
        return self._evaluation.evaluate(inputs, targets)

    def predict(self, inputs: Tensor | Tensors) -> Tensors:
        """What the last layer gives in evaluation mode, on the CPU of every process."""
        return self._evaluation.predict(inputs)

    def full_state(self) -> dict[str, Tensor]:
        """The state dict of the whole model, `layers.<i>.<name>`, on process 0; empty elsewhere."""
        return full_state(self._assembly.weights, self._assembly.groups, rank=self._assembly.number)

    def save(self, path: str | Path) -> None:
        """Write weights, optimizer and progress to one file, whole or not at all.

        It can be loaded under another schedule, width, depth and number of pipes, or in one process.
        Process 0 writes; where it cannot, all raise CheckpointError.
        """
        state = gather_training_state(
            self._assembly.weights,
            self._assembly.groups,
            rank=self._assembly.number,
            loss_scale=self._training.updater.loss_scale,
        )
        compression = gather_compression_state(
            self._assembly.synchronizer.compressor,
            self._assembly.weights,
            self._assembly.groups,
            rank=self._assembly.number,
        )
        corrections = [stage.corrections for stage in self._assembly.versioned.values()]
        parts = [part for found in collect_objects(corrections) for part in found if part]
        deltas = {name: delta for part in parts for name, delta in part["deltas"].items()}
        pipemare = {"step": parts[0]["step"], "deltas": deltas} if parts else {}
        problem = ""
        if self._assembly.number == 0:
            try:
                more = {"steps": self.steps, "pipemare": pipemare, "compression": compression}
                checkpoint.save(Path(path), state | more)
            except CheckpointError as error:
                problem = str(error)
        problem = collect_objects(problem)[0]
        if problem:
            raise CheckpointError(problem)

    def load(self, path: str | Path) -> None:
        """Go on from a file that `save` wrote, which every process reads.

        Raises CheckpointError where it is damaged or of another model.
        """
        state = checkpoint.load(Path(path))
        load_training_state(self._assembly.weights, state, loss_scale=self._training.updater.loss_scale)
        load_compression_state(
            self._assembly.synchronizer.compressor,
            self._assembly.weights,
            self._assembly.groups,
            rank=self._assembly.number,
            state=state.get("compression", {}),
        )
        self._assembly.statistics.restart()
        for stage in self._assembly.versioned.values():
            stage.load_corrections(state.get("pipemare", {}))
        self._training.iteration = int(state["steps"])

    def close(self) -> None:
        """Let go of threads and connections, where another pipeline follows in the same processes.

        The model's layers stay as they are; nothing else may be called afterwards.
        """
        self._assembly.close()

    def check(self, losses: Sequence[float], learnt: Learnt) -> Check:
        """Compare what this process holds, and the losses of its steps, with what one process learnt."""
        sharded = self._assembly.settings.optimizer_sharding != "none"
        factor = None if sharded else self._training.updater.factor
        return compare(self._assembly.weights, losses, learnt, gradient_factor=factor)

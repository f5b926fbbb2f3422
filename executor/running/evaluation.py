"""What does a pipeline say of samples from which it does not learn?"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from executor.errors import ExecutorError
from executor.running.assembly import Assembly
from executor.running.batches import Batches
from executor.running.tracks import Track, Tracks
from executor.stages.seeding import kept_random_state
from executor.stages.stage import Stage
from executor.values import Spec, Tensors, as_tensors
from executor.weights.collecting import collect
from executor.weights.updating import Updater
from executor.works import Passage, Target
from tuner.schedules.forward_only import forward_only
from tuner.schedules.ordering import in_common_order


class Answering:
    """A stage whose forwards leave nothing behind but the outputs of the last one."""

    def __init__(self, stage: Stage, answers: dict[int, Tensors] | None) -> None:
        """The outputs of micro-batches go to `answers`, where the stage is the last."""
        self._stage = stage
        self._answers = answers

    def probe(self, inputs: tuple[Spec, ...], *, parts: int = 1) -> tuple[Spec, ...]:
        """What a forward gives, without any effect on the stage."""
        with torch.no_grad():
            return self._stage.probe(inputs, parts=parts)

    def forward(
        self,
        passage: Passage,
        inputs: Tensors,
        *,
        parts: int = 1,
        version: int = 0,
        target: Target | None = None,
    ) -> Tensors:
        """Outputs without a graph."""
        del parts, version, target  # there is no backward that they would matter for
        outputs = self._stage.evaluate(inputs)
        if self._answers is not None:
            self._answers[passage.micro_batch] = outputs
        return outputs

    def backward(self, passage: Passage, gradients: Tensors, *, part: int = 0) -> Tensors:
        """There is none."""
        raise ExecutorError(f"{passage} is evaluated: {len(gradients)} gradients of part {part} came for it")

    input_backward = backward

    def weight_backward(self, passage: Passage, *, part: int = 0) -> None:
        """There is none."""
        self.backward(passage, (), part=part)

    recompute = weight_backward


class Evaluation:
    """Runs forwards alone on an assembly."""

    def __init__(self, assembly: Assembly, updater: Updater) -> None:
        self._assembly = assembly
        self._answers: dict[int, Tensors] = {}
        last = assembly.configuration.stages - 1
        works = {
            place: Answering(stage, self._answers if place[1] == last else None)
            for place, stage in assembly.stages.items()
        }
        self._tracks = Tracks(assembly, works, updater)
        self._ready: dict[int, Track] = {}
        """By micro-batches of a group."""

    def predict(self, inputs: Tensor | Tensors) -> Tensors:
        """The outputs of the whole mini-batch on the CPU of every rank, samples in the order given."""
        tensors = as_tensors(inputs)
        pieces = self._run(tensors)
        width = len(pieces[min(pieces)])
        return tuple(
            torch.cat([pieces[number][place] for number in sorted(pieces)]) for place in range(width)
        )

    def evaluate(self, inputs: Tensor | Tensors, targets: Tensor) -> float:
        """The mean loss, Σ n_m·loss_m / Σn in the order of the micro-batches, the same on all ranks."""
        pieces = self._run(as_tensors(inputs))
        loss = self._assembly.loss
        answers = torch.tensor_split(targets.cpu(), len(pieces))
        total = summed = 0.0
        with torch.no_grad():
            for number, target in enumerate(answers):
                count = loss.count(target)
                summed += count * loss.loss_function(pieces[number], target).item()
                total += count
        return summed / (total or 1.0)

    def _run(self, inputs: Tensors) -> dict[int, Tensors]:
        """The outputs of every micro-batch on all ranks; as many as in training, if there are samples."""
        configuration = self._assembly.configuration
        samples = inputs[0].shape[0]
        micro_batches = max(1, min(configuration.micro_batches, samples // configuration.width))
        feed = Batches(
            [(inputs, inputs[0])],
            micro_batches=micro_batches,
            width=configuration.width,
            group=self._assembly.layout.group,
            count=lambda _: 1.0,
            device=self._assembly.device,
        )
        track = self._track(micro_batches)
        self._answers.clear()
        with self._evaluating(), kept_random_state():
            self._tracks.announce(track, feed)
            track.runtime.run(feed)
        mine = {
            f"{number}.{place}": tensor
            for number, tensors in self._answers.items()
            for place, tensor in enumerate(tensors)
        }
        found: dict[int, dict[int, Tensor]] = {}
        for name, tensor in collect(mine, to="everywhere").items():
            number, place = map(int, name.split("."))
            found.setdefault(number, {})[place] = tensor
        return {number: tuple(row[place] for place in sorted(row)) for number, row in found.items()}

    @contextmanager
    def _evaluating(self) -> Iterator[None]:
        """The layers in eval mode, those put back that were in training."""
        modules = [
            module for one in self._assembly.held for module in one.layers.modules() if module.training
        ]
        for module in modules:
            module.training = False
        try:
            yield
        finally:
            for module in modules:
                module.training = True

    def _track(self, micro_batches: int) -> Track:
        if micro_batches not in self._ready:
            assembly = self._assembly
            program = forward_only(
                assembly.program.placement, depth=assembly.configuration.depth, micro_batches=micro_batches
            )
            ordered = assembly.backend == "nccl"
            self._ready[micro_batches] = self._tracks.make(in_common_order(program) if ordered else program)
        return self._ready[micro_batches]

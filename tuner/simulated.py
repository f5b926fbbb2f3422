"""What does a simulation give a program? The answer, with its timeline at hand."""

from pydantic import PrivateAttr

from tuner.display import simulation_html
from tuner.gantt import gantt
from tuner.simulation import simulate as simulate_program
from tuner.simulation_answer import SimulationAnswer, describe
from tuner.simulation_request import SimulationRequest, prepare
from tuner.timeline import Timeline
from tuner.torch_csv import torch_csv
from tuner.traces import trace_json


class Simulation(SimulationAnswer):
    """A simulated schedule; in a notebook it draws itself."""

    _timeline: Timeline = PrivateAttr()

    @property
    def timeline(self) -> Timeline:
        """Start and end of everything."""
        return self._timeline

    def text(self, *, columns: int = 120) -> str:
        """The timeline as `chimera simulate` draws it."""
        return "\n".join(gantt(self._timeline, columns=columns))

    def trace(self) -> str:
        """Trace Event JSON, for ui.perfetto.dev."""
        return trace_json(self._timeline)

    def torch_csv(self) -> str:
        """The order for torch.distributed.pipelining; raises ScheduleError for what it cannot express."""
        return torch_csv(self._timeline.compiled.program)

    def _repr_html_(self) -> str:
        return simulation_html(self, self._timeline)


def simulate(request: SimulationRequest) -> Simulation:
    """Simulate what is asked."""
    program, costs = prepare(request)
    timeline = simulate_program(program, costs)
    simulation = Simulation(**describe(request, timeline, costs).model_dump())
    simulation._timeline = timeline
    return simulation

"""Which clusters are there beside the shipped ones? Those of the user, under whatever name they have."""

from collections.abc import Sequence
from dataclasses import dataclass

from profiles.cluster import ClusterProfile
from profiles.device import Accelerator
from profiles.preset import ModelPreset
from profiles.timings import LayerTimings
from tuner.inputs import Library


@dataclass(frozen=True)
class OwnClusters:
    """A library with clusters in place of those of the same name, such as local-cpu with measured links."""

    library: Library
    clusters: Sequence[ClusterProfile]

    def load_cluster(self, name: str) -> ClusterProfile:
        """The user's own, else the library's."""
        own = [cluster for cluster in self.clusters if cluster.name == name]
        return own[0] if own else self.library.load_cluster(name)

    def load_model_preset(self, name: str) -> ModelPreset:
        """The library's."""
        return self.library.load_model_preset(name)

    def load_accelerator(self, name: str) -> Accelerator:
        """The library's."""
        return self.library.load_accelerator(name)

    def load_timings(self) -> tuple[LayerTimings, ...]:
        """The library's."""
        return self.library.load_timings()

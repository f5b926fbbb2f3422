"""Does everything that ships hold together, and are other names answered well?"""

import subprocess
import sys
from collections.abc import Callable
from importlib.resources import files

import pytest

from profiles import library
from profiles.document import Document
from profiles.errors import UnknownNameError
from profiles.library import Kind

NAMED: dict[Kind, Callable[[str], Document]] = {
    "models": library.load_model_preset,
    "devices": library.load_accelerator,
    "clusters": library.load_cluster,
}
SHIPPED = [(kind, name) for kind in NAMED for name in library.names(kind)]
PROMISED: dict[Kind, str] = {
    "models": "bert-48 gpt2-64 gpt2-32 gpt2-small gpt2-xl llama-2-7b llama-3-8b llama-3-70b tiny-gpt",
    "devices": "p100-16gb v100-32gb a100-40gb a100-80gb h100-80gb h200-141gb b200-180gb mi300x-192gb "
    "rtx-4090-24gb",
    "clusters": "piz-daint v100-32 a100-8 dgx-a100 dgx-h100 local-cpu",
    "measurements": "chimera-sc21 vtrain-a100",
}


@pytest.mark.parametrize(("kind", "name"), SHIPPED)
def test_a_shipped_document_is_sound_and_named_as_its_file(kind: Kind, name: str) -> None:
    """A name finds the document that bears it."""
    assert NAMED[kind](name).model_dump()["name"] == name


def test_published_timings_are_named_as_their_files() -> None:
    """Timings are read all together, in the order of their names."""
    assert tuple(timings.name for timings in library.load_timings()) == library.names("timings")


def test_no_two_shipped_documents_say_the_same() -> None:
    """Fingerprints are distinct, so that one tells which document was used."""
    documents: list[Document] = [NAMED[kind](name) for kind, name in SHIPPED]
    documents += [*library.load_timings(), *map(library.load_measurements, library.names("measurements"))]
    fingerprints = {document.fingerprint() for document in documents}
    assert len(fingerprints) == len(documents)


@pytest.mark.parametrize("kind", PROMISED)
def test_every_promised_name_ships(kind: Kind) -> None:
    """Names that users and scripts rely on do not disappear."""
    assert set(PROMISED[kind].split()) <= set(library.names(kind))


def test_clusters_and_timings_speak_of_shipped_accelerators() -> None:
    """A reference between shipped documents never dangles."""
    of_clusters = {library.load_cluster(name).node.accelerator for name in library.names("clusters")}
    of_timings = {timings.accelerator for timings in library.load_timings()}
    assert of_clusters | of_timings <= set(library.names("devices"))


def test_measurements_speak_of_shipped_models_and_clusters() -> None:
    """Every published run can be predicted."""
    for name in library.names("measurements"):
        for run in library.load_measurements(name).measurements:
            library.load_cluster(run.cluster)
            if isinstance(run.model, str):
                library.load_model_preset(run.model)


@pytest.mark.parametrize(
    ("load", "name", "close", "where"),
    [
        (library.load_accelerator, "h100", "'h100-80gb'", "chimera list accelerators"),
        (library.load_accelerator, "A100-80GB", "'a100-80gb'", "chimera list accelerators"),
        (library.load_cluster, "pizdaint", "'piz-daint'", "chimera list clusters"),
        (library.load_model_preset, "lama-3-8b", "'llama-3-8b'", "chimera list models"),
        (library.load_measurements, "chimera", "'chimera-sc21'", "vtrain-a100"),
    ],
)
def test_an_unknown_name_is_answered_with_the_closest(
    load: Callable[[str], Document], name: str, close: str, where: str
) -> None:
    """The message names what was probably meant and where all names are."""
    with pytest.raises(UnknownNameError) as caught:
        load(name)
    assert f"{name!r}; the closest is {close}" in str(caught.value)
    assert where in str(caught.value)


@pytest.mark.parametrize(
    ("name", "close"),
    [
        ("meta-llama/Meta-Llama-3-8B", "llama-3-8b"),
        ("meta-llama/Llama-2-7b-hf", "llama-2-7b"),
        ("bert-base-uncased", "bert-base"),
        ("google-bert/bert-large-uncased", "bert-large"),
        ("openai-community/gpt2-xl", "gpt2-xl"),
        ("mistralai/Mistral-7B-v0.1", "mistral-7b"),
        ("Qwen/Qwen2-7B", "qwen2-7b"),
        ("google/gemma-2-9b-it", "gemma-2-9b"),
        ("EleutherAI/gpt-neox-20b", "gpt-neox-20b"),
    ],
)
def test_a_hub_name_is_answered_with_a_preset_and_the_file_to_pass(name: str, close: str) -> None:
    """Nothing is downloaded; the message says what to do instead."""
    with pytest.raises(UnknownNameError) as caught:
        library.load_model_preset(name)
    assert f"the closest is {close!r}" in str(caught.value)
    assert "config.json with --sequence-length" in str(caught.value)


@pytest.mark.parametrize(
    "name", ["../devices/p100-16gb", "..", "", "bert-48.json", "/etc/passwd", "a\0b", "\x1b[0m", "x" * 10**7]
)
def test_a_name_is_no_path(name: str) -> None:
    """What is not the name of a shipped document is unknown, however it is spelled."""
    for load in NAMED.values():
        with pytest.raises(UnknownNameError) as caught:
            load(name)
        assert len(str(caught.value)) < 500
        assert str(caught.value).isprintable()


def test_the_library_is_light() -> None:
    """Listing names costs neither numpy nor torch."""
    script = "import sys, profiles.library as l; l.names('models'); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True)
    assert not {"numpy", "torch"} & set(done.stdout.split())


def test_only_documents_lie_in_the_library() -> None:
    """Each folder holds JSON files and nothing else, so that all of them are found."""
    for kind in (*NAMED, "timings", "measurements"):
        entries = [entry.name for entry in files("profiles").joinpath(kind).iterdir()]
        assert all(entry.endswith(".json") for entry in entries)

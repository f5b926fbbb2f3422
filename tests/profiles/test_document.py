"""Are documents strict, immutable, and told apart by what they hold?"""

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from profiles.cluster import ClusterProfile
from profiles.document import Document
from profiles.errors import MalformedDocumentError
from profiles.library import load_accelerator, load_cluster, load_measurements, load_model_preset
from profiles.preset import ModelPreset

DOCUMENTS: list[Document] = [
    load_cluster("dgx-h100"),
    load_accelerator("h100-80gb"),
    load_model_preset("llama-3-8b"),
    load_measurements("chimera-sc21"),
]
NAMES = [document.kind_name for document in DOCUMENTS]

rates = st.floats(min_value=1.0, max_value=1e15)
transfers = st.fixed_dictionaries(
    {"latency_s": st.floats(min_value=0, max_value=1.0), "bandwidth_bytes_per_s": rates}
)
links = st.fixed_dictionaries(
    {"p2p": transfers, "collective": transfers, "provenance": st.just("estimated"), "source": st.just("here")}
)
clusters = st.fixed_dictionaries(
    {
        "name": st.text(min_size=1, max_size=20),
        "link": links,
        "node": st.fixed_dictionaries(
            {"accelerator": st.just("h100-80gb"), "devices": st.integers(1, 64)}, optional={"link": links}
        ),
        "software": st.fixed_dictionaries(
            {
                "name": st.just("pytorch"),
                "framework_bytes": st.integers(0, 10**12),
                "activation_factors": st.dictionaries(st.text(max_size=5), st.floats(0.5, 2.0)),
                "provenance": st.just("measured"),
                "source": st.just("here"),
            }
        ),
    },
    optional={"max_devices": st.integers(1, 10**6)},
)


def shuffle(value: Any, order: random.Random) -> Any:
    """The same JSON value with the keys of every object in another order."""
    if isinstance(value, dict):
        return {key: shuffle(value[key], order) for key in order.sample(sorted(value), len(value))}
    return [shuffle(item, order) for item in value] if isinstance(value, list) else value


@given(value=clusters, seed=st.integers())
@settings(deadline=None)
def test_the_fingerprint_does_not_see_the_order_of_keys_or_the_white_space(value: Any, seed: int) -> None:
    """Documents that say the same have one address."""
    first = ClusterProfile.from_value(value)
    text = json.dumps(shuffle(value, random.Random(seed)), indent=2)
    assert ClusterProfile.from_json(text).fingerprint() == first.fingerprint()


@given(value=clusters)
@settings(deadline=None)
def test_a_document_survives_being_written_and_read(value: Any) -> None:
    """Canonical text read again is the same document with the same text."""
    document = ClusterProfile.from_value(value)
    again = ClusterProfile.from_json(document.to_json())
    assert again == document
    assert again.to_json() == document.to_json()


@pytest.mark.parametrize("document", DOCUMENTS, ids=NAMES)
def test_a_shipped_document_survives_being_written_and_read(document: Document) -> None:
    """The law holds for every kind that ships."""
    assert type(document).from_json(document.to_json()) == document


def test_a_null_inside_a_config_is_part_of_the_document() -> None:
    """`sliding_window: null` and no sliding_window may mean different things to a model."""
    preset = json.loads(load_model_preset("mistral-7b").to_json())
    preset["config"]["sliding_window"] = None
    assert ModelPreset.from_value(preset).config["sliding_window"] is None
    assert '"sliding_window":null' in ModelPreset.from_value(preset).to_json()


@pytest.mark.parametrize(
    ("place", "value", "told"),
    [
        ("node.devices", 0, "greater than or equal to 1, not 0"),
        ("node.devices", -8, "greater than or equal to 1, not -8"),
        ("node.devices", 1e30, "valid integer, not 1e+30"),
        ("node.devices", 10**30, "less than or equal to"),
        ("node.devices", "8", "valid integer, not '8'"),
        ("node.devices", True, "valid integer, not True"),
        ("node.accelerator", "", "at least 1 character"),
        ("node.accelerator", "x" * 201, "at most 200 characters"),
        ("node.colour", "green", "not permitted"),
        ("link.p2p.latency_s", -1e-6, "greater than or equal to 0, not -1e-06"),
        ("link.p2p.bandwidth_bytes_per_s", 0, "greater than or equal to 0.000000001, not 0"),
        ("link.p2p.bandwidth_bytes_per_s", 1e31, "less than or equal to"),
        ("link.provenance", "guessed", "'measured'"),
        ("software.compute_factor", None, "valid number, not None"),
        ("software.framework_bytes", [1], "valid integer"),
        ("schema_version", 2, "should be 1, not 2"),
        ("name", None, "valid string"),
    ],
)
def test_a_fault_is_told_with_its_place_and_what_was_found(place: str, value: Any, told: str) -> None:
    """The message names the document, the path of the fault, the rule and the value."""
    cluster = json.loads(load_cluster("dgx-h100").to_json())
    *path, last = place.split(".")
    part = cluster
    for key in path:
        part = part[key]
    part[last] = value
    with pytest.raises(MalformedDocumentError) as caught:
        ClusterProfile.from_value(cluster, name="mine.json")
    assert str(caught.value).startswith(f"mine.json is not valid: {place}: ")
    assert told in str(caught.value)


def test_a_byte_order_mark_is_no_part_of_a_document() -> None:
    """Some editors write one."""
    cluster = load_cluster("dgx-h100")
    text = "\ufeff" + cluster.to_json()
    assert ClusterProfile.from_json(text) == ClusterProfile.from_json(text.encode()) == cluster


@pytest.mark.parametrize("text", ["[]", "3"])
def test_a_fault_of_the_whole_is_told_without_a_place(text: str) -> None:
    """There is no key to point at."""
    with pytest.raises(MalformedDocumentError, match=r"^mine is not valid: Input should be an object"):
        ClusterProfile.from_json(text, name="mine")


def test_many_faults_are_told_by_the_first_few() -> None:
    """A wholly wrong document does not give a wholly unreadable message."""
    with pytest.raises(MalformedDocumentError, match=r"\(and 15 more\)") as caught:
        ClusterProfile.from_value({f"k{i}": i for i in range(16)})
    assert len(str(caught.value)) < 500


def test_a_hostile_key_cannot_reach_the_terminal() -> None:
    """Control characters of a key do not appear in the message."""
    with pytest.raises(MalformedDocumentError) as caught:
        ClusterProfile.from_value({"\x1b[31mred\n": 1, "name": 3})
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("value", [{"a": float("nan")}, {"a": {1, 2}}, [], 1, None, "text"])
def test_a_value_that_is_no_document_is_refused(value: Any) -> None:
    """Python values that JSON does not have, and JSON that is no object, are malformed documents."""
    with pytest.raises(MalformedDocumentError, match=r"^cluster is not"):
        ClusterProfile.from_value(value)


def test_a_value_nested_too_deep_is_refused() -> None:
    """Values that were parsed elsewhere obey the same bound."""
    config: dict[str, Any] = {}
    for _ in range(10_000):
        config = {"a": config}
    with pytest.raises(MalformedDocumentError):
        ModelPreset.from_value({"name": "deep", "config": config, "sequence_length": 1, "source": "x"})


def test_a_document_cannot_be_changed() -> None:
    """What a fingerprint was taken of stays as it was."""
    with pytest.raises(ValidationError, match="frozen"):
        load_cluster("dgx-h100").name = "other"  # type: ignore[misc]

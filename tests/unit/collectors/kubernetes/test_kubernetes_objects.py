"""Files of objects, in the forms in which kubectl, jq and people leave them."""

from __future__ import annotations

import gzip
import json

import pytest
import yaml

from collectors.command import SourceFailedError
from collectors.kubernetes.objects import MOST_BROKEN, ObjectReader
from tests.unit.collectors.kubernetes.made import a_list, node, pod

PODS = [pod("a"), pod("b"), pod("c")]


def read(data: bytes | str) -> tuple[list[tuple[str, int]], ObjectReader]:
    reader = ObjectReader("f")
    return [(item.name, item.line) for item in reader.read(data.encode() if isinstance(data, str) else data)], reader


def names(data: bytes | str) -> list[str]:
    return [name for name, _ in read(data)[0]]


def test_a_list_as_json_gives_its_items_with_the_lines_they_begin_in() -> None:
    data = a_list(*PODS)
    found, reader = read(data)
    lines = data.decode().splitlines()
    assert [name for name, _ in found] == ["Pod ml/a", "Pod ml/b", "Pod ml/c"]
    assert all(lines[line - 1].strip() == "{" for _, line in found)
    assert (reader.listed, reader.is_cut) == ({"Pod"}, False)


def test_a_list_as_yaml_gives_its_items_with_the_lines_they_begin_in() -> None:
    text = yaml.safe_dump(json.loads(a_list(*PODS, node())))
    found, reader = read(text)
    assert [name for name, _ in found] == ["Pod ml/a", "Pod ml/b", "Pod ml/c", "Node n1"]
    assert all(text.splitlines()[line - 1].startswith("- apiVersion") for _, line in found)
    assert (reader.listed, reader.is_cut) == ({"Pod", "Node"}, False)


def test_an_indented_list_as_other_tools_write_it_is_read() -> None:
    text = "apiVersion: v1\nkind: List\nitems:\n"
    for name in ("a", "b"):
        text += f"  - kind: Pod\n    metadata:\n      name: {name}\n      namespace: ml\n    status: {{phase: Running}}\n"
    assert names(text) == ["Pod ml/a", "Pod ml/b"]


def test_what_the_api_server_answers_names_the_kind_once() -> None:
    items = [{key: value for key, value in item.items() if key not in ("kind", "apiVersion")} for item in PODS]
    found, reader = read(
        json.dumps({"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": items})
    )
    assert [name for name, _ in found] == ["Pod ml/a", "Pod ml/b", "Pod ml/c"]
    assert not reader.is_cut


def test_a_page_of_a_list_is_not_the_whole_list() -> None:
    assert read(json.dumps({"kind": "PodList", "metadata": {"continue": "x"}, "items": PODS}))[1].is_cut


@pytest.mark.parametrize(
    "text",
    [
        "---\n".join(yaml.safe_dump(item) for item in PODS),
        "# Please edit\n"
        + yaml.safe_dump(PODS[0])
        + "...\n---\n"
        + yaml.safe_dump(PODS[1])
        + "--- # next\n"
        + yaml.safe_dump(PODS[2]),
        "\n".join(json.dumps(item) for item in PODS),
        "".join(json.dumps(item, indent=2) for item in PODS),
        json.dumps(PODS),
        "\n".join(json.dumps({"type": "ADDED", "object": item}) for item in PODS),
        yaml.safe_dump(PODS),
    ],
    ids=["yaml documents", "with comments", "json lines", "json documents", "array", "watch events", "yaml array"],
)
def test_single_objects_one_after_the_other_are_read(text: str) -> None:
    assert names(text) == ["Pod ml/a", "Pod ml/b", "Pod ml/c"]


@pytest.mark.parametrize("data", [a_list(*PODS), yaml.safe_dump(json.loads(a_list(*PODS))).encode()], ids=["json", "yaml"])
def test_the_bytes_may_be_packed_marked_or_of_windows(data: bytes) -> None:
    expected = names(data)
    assert names(gzip.compress(data)) == expected
    assert names(b"\xef\xbb\xbf" + data) == expected
    assert names(data.decode().encode("utf-16")) == expected
    assert names(data.replace(b"\n", b"\r\n")) == expected


def test_a_json_file_that_ends_early_gives_the_items_before_its_end() -> None:
    data = a_list(*PODS)
    found, reader = read(data[: data.index(b"uid-c")])
    assert [name for name, _ in found] == ["Pod ml/a", "Pod ml/b"]
    assert reader.is_cut
    assert reader.rejects
    assert reader.rejects[0].line
    assert "save it again" in reader.rejects[0].detail


def test_a_yaml_list_without_its_last_lines_is_known_to_be_cut() -> None:
    text = yaml.safe_dump(json.loads(a_list(*PODS)))
    found, reader = read(text[: text.index("uid-c") - 200])
    assert [name for name, _ in found][:2] == ["Pod ml/a", "Pod ml/b"]
    assert reader.is_cut
    assert any("cut off" in reject.detail for reject in reader.rejects)


@pytest.mark.parametrize("data", [a_list(*PODS), yaml.safe_dump(json.loads(a_list(*PODS))).encode()], ids=["json", "yaml"])
def test_a_broken_item_costs_itself(data: bytes) -> None:
    broken = data.replace(b"uid-b", b'uid-b": {"', 1) if data[:1] == b"{" else data.replace(b"uid: uid-b", b"uid: [", 1)
    found, reader = read(broken)
    assert [name for name, _ in found] == ["Pod ml/a", "Pod ml/c"]
    assert reader.is_cut
    assert reader.rejects[0].line


def test_an_empty_list_is_no_failure() -> None:
    assert read(a_list())[0] == []
    found, reader = read('{"kind": "PodList", "metadata": {}, "items": []}')
    assert (found, reader.listed) == ([], {"Pod"})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n",
        "No resources found\n",
        "NAME     READY   STATUS\ntrain-0  1/1     Running\n",
        "error: You must be logged in\n",
        "[]",
    ],
)
def test_what_is_no_object_fails_and_says_how_to_save_them(text: str) -> None:
    with pytest.raises(SourceFailedError, match="f: "):
        read(text)


def test_a_file_of_garbage_is_given_up_soon() -> None:
    _, reader = read('{"kind":"List","items":[' + '{"kind": x},' * 5000)
    assert len(reader.rejects) <= MOST_BROKEN


@pytest.mark.parametrize("text", ["[" * 100_000, '{"items": ' * 100_000, "- " * 100_000, "{a: " * 100_000])
def test_nesting_without_end_is_refused(text: str) -> None:
    found, reader = read(text)
    assert found == []
    assert reader.rejects


def test_yaml_constructs_nothing_and_leaves_texts_as_they_stand() -> None:
    text = (
        "kind: Pod\nmetadata:\n  name: on\n  namespace: 012\n  creationTimestamp: 2024-03-31T09:03:25Z\n  labels: null\n"
        "  annotations: {a: !!python/object/apply:os.system [x], b: ~, c: '~'}\n"
    )
    reader = ObjectReader("f")
    (item,) = reader.read(text.encode())
    assert item.name == "Pod 012/on"
    assert item.metadata["creationTimestamp"] == "2024-03-31T09:03:25Z"
    assert item.metadata["labels"] is None
    assert item.metadata["annotations"] == {"a": ["x"], "b": None, "c": "~"}


def test_an_alias_that_holds_itself_is_refused() -> None:
    assert read("kind: Pod\nmetadata: &a\n  labels: *a\n")[1].rejects

"""Saved Kubernetes objects, one by one: JSON or YAML, Lists, single objects, several documents in one file.

A `kubectl get … -o json` or `-o yaml` of a whole cluster has hundreds of megabytes, so a List is read item by item: memory holds
one object at a time, an item that is broken costs that item, and one that is cut off ends the file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import Any

import yaml

from collectors.command import SourceFailedError
from collectors.files import decode
from collectors.kubernetes.fields import as_map, as_text
from warehouse.landing.conform import MALFORMED, Reject

#: no object of a cluster is larger (etcd takes 1.5 MiB), and YAML needs a hundred times its text
YAML_LIMIT = 16 << 20
#: a few lines of aliases of aliases name billions of values; labels written out would be all of them
MOST_ALIASES = 20
_ALIAS = re.compile(r"(?:^|[\s\[,{:-])\*[\w.-]")
#: broken items of one file after which the rest is not searched for whole ones
MOST_BROKEN = 20

NOT_OBJECTS = (
    "no Kubernetes object in it; save them with `kubectl get pods,nodes -A -o json` (a table, `-o wide` and `describe` leave out "
    "what is needed)"
)
_LINE = "\0line"
_ITEM_START = re.compile(r'\{\s*"(?:apiVersion|kind|metadata)"')
_SPACE = re.compile(r"[\s,]*")
_DOCUMENT = re.compile(r"^---(?:[ \t].*)?$|^\.\.\.[ \t]*$", re.MULTILINE)
_ITEMS = re.compile(r"^items:[ \t]*\r?\n((?:[ \t]*(?:#.*)?\r?\n)*)([ ]*)- ", re.MULTILINE)


@dataclass(frozen=True)
class Object:
    """One object: its kind, the line of the file it begins in, and what stands in it."""

    kind: str
    line: int
    data: Mapping[str, Any]

    @property
    def metadata(self) -> Mapping[str, Any]:
        return as_map(self.data.get("metadata"))

    @property
    def name(self) -> str:
        """`Pod ml/train-0`, as a message names it."""
        parts = [as_text(self.metadata.get(part)) for part in ("namespace", "name")]
        return f"{self.kind} {'/'.join(part for part in parts if part) or '(no name)'}"


@dataclass
class ObjectReader:
    """Reads one file's objects; afterwards `rejects` and what the file says of itself are complete.

    `listed` are the kinds of the items of its Lists, `is_cut` says that items are missing from one (broken, cut off, or a
    page of several), so that the absence of an object means nothing.
    """

    file: str
    rejects: list[Reject] = field(default_factory=list)
    listed: set[str] = field(default_factory=set)
    is_cut: bool = False
    has_list: bool = False
    has_broken: bool = False

    def read(self, data: bytes) -> Iterator[Object]:
        """The objects in `data`. Raises SourceFailedError where it holds none, and nothing that once was one."""
        text = decode(data, self.file, errors="replace")
        found = 0
        is_json = text.lstrip()[:1] in ("{", "[")
        for item in self._json(text) if is_json else self._yaml(text):
            found += 1
            yield item
        if not found and not self.has_list and not self.has_broken:
            raise SourceFailedError(f"{self.file}: {'empty' if not text.strip() else NOT_OBJECTS}")

    def _json(self, text: str) -> Iterator[Object]:
        lines = _Lines(text)
        place = _skip(text, 0)
        while place < len(text):
            try:
                if text[place] == "{":
                    place = yield from self._json_object(text, place, lines)
                elif text[place] == "[":
                    place = yield from self._json_items(text, place + 1, lines, None)
                else:
                    raise ValueError("neither an object nor a list")
            except (ValueError, RecursionError) as error:
                if not self._broken(lines.at(place), error):
                    return
                place = _next_item(text, place + 1)
            place = _skip(text, place)

    def _json_object(self, text: str, start: int, lines: _Lines) -> Generator[Object, None, int]:
        """One top-level object from its brace; a List yields its items as they are read. Returns the place after it."""
        if not _is_list(text, start):
            value, end = _decoder().raw_decode(text, start)
            yield from self._object(value, lines.at(start), None)
            return end
        self.has_list = True
        place, kind = start + 1, None
        while True:
            place = _skip(text, place)
            if text[place : place + 1] == "}":
                return place + 1
            if place >= len(text):
                self.is_cut = True
                return place  # the items have said so
            name, place = _decoder().raw_decode(text, place)
            place = re.compile(r"\s*:?\s*").match(text, place).end()  # type: ignore[union-attr]
            if name == "items" and text[place : place + 1] == "[":
                place = yield from self._json_items(text, place + 1, lines, kind)
                continue
            value, place = _decoder().raw_decode(text, place)
            kind = _kind_of_items(value) if name == "kind" else kind
            if name == "metadata" and as_map(value).get("continue"):
                self.is_cut = True
            if name == "kind" and kind:
                self.listed.add(kind)

    def _json_items(self, text: str, place: int, lines: _Lines, kind: str | None) -> Generator[Object, None, int]:
        """The elements of an array from behind its bracket. Returns the place after it."""
        while True:
            place = _skip(text, place)
            if text[place : place + 1] == "]":
                return place + 1
            if place >= len(text):
                self.is_cut = True
                self._broken(lines.at(place), ValueError("the file ends inside a List"))
                return place
            try:
                value, end = _decoder().raw_decode(text, place)
            except (ValueError, RecursionError) as error:
                self.is_cut = True
                if not self._broken(lines.at(place), error):
                    return len(text)
                place = _next_item(text, place + 1)
                continue
            for item in self._object(value, lines.at(place), kind):
                self.listed.add(item.kind)
                yield item
            place = end

    def _object(self, value: Any, line: int, kind: str | None) -> Iterator[Object]:
        """The object in a value; of `kubectl get --watch --output-watch-events` the object that the event is about."""
        data = as_map(value)
        if isinstance(data.get("object"), dict) and "metadata" not in data:
            data = data["object"]
        kind = as_text(data.get("kind")) or kind
        if kind and isinstance(data.get("items"), list) and "spec" not in data:
            self.has_list = True
            for item in data["items"]:
                for found in self._object(item, line, _kind_of_items(kind)):
                    self.listed.add(found.kind)
                    yield found
        elif kind and isinstance(data.get("metadata"), dict):
            yield Object(kind, data.get(_LINE, line), data)
        else:
            detail = "no kind and metadata, so no Kubernetes object; save them with kubectl get … -o json"
            self.rejects.append(Reject(self.file, line, MALFORMED, detail))

    def _yaml(self, text: str) -> Iterator[Object]:
        starts = [0, *(match.end() for match in _DOCUMENT.finditer(text))]
        ends = [*(match.start() for match in _DOCUMENT.finditer(text)), len(text)]
        lines = _Lines(text)
        for start, end in zip(starts, ends, strict=True):
            document = text[start:end]
            items = _ITEMS.search(document)
            if items is None or re.search(r"^(?:spec|status):", document, re.MULTILINE):
                yield from self._yaml_block(document, lines.at(start))
                continue
            self.has_list = True
            head_end = items.start(2)
            blocks, rest = _yaml_items(document, head_end, len(items[2]))
            for place, block in blocks:
                for item in self._yaml_block(block, lines.at(start + place)):
                    self.listed.add(item.kind)
                    yield item
            about = f"{document[: items.start()]}\n{rest}"
            if not re.search(r"^kind:", about, re.MULTILINE):
                self.is_cut = True  # kubectl writes the List's own kind after its items
                detail = "the List ends without its kind: the file is cut off, save it again; what is whole has been read"
                self.rejects.append(Reject(self.file, lines.at(end), MALFORMED, detail))
            if re.search(r"^\s+continue: \S", about, re.MULTILINE):
                self.is_cut = True

    def _yaml_block(self, block: str, line: int) -> Iterator[Object]:
        try:
            if len(block) > YAML_LIMIT:
                raise ValueError(f"one object of more than {YAML_LIMIT >> 20} MiB; save it as JSON (-o json)")
            if _ALIAS.search(block) and _count_aliases(block) > MOST_ALIASES:
                raise ValueError(f"more than {MOST_ALIASES} YAML aliases, which kubectl never writes and which grow without end")
            values = list(yaml.load_all(block, Loader=_loader()))
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            self.is_cut = True
            mark = getattr(error, "problem_mark", None)
            if "\n" not in block.strip() and not block.strip().startswith("- "):
                return  # one line of text is no damaged object
            self._broken(line + (mark.line if mark else 0), ValueError(getattr(error, "problem", None) or str(error)))
            return
        for value in values:
            for entry in value if isinstance(value, list) else [value]:
                if isinstance(entry, dict):
                    entry[_LINE] = line + entry.get(_LINE, 0)
                    yield from self._object(entry, entry[_LINE], None)

    def _broken(self, line: int, error: Exception) -> bool:
        """Note a broken item; whether to look for the next one."""
        self.has_broken = True
        what = "nested too deep" if isinstance(error, RecursionError) else str(error).split(": line ")[0][:200]
        self.rejects.append(Reject(self.file, line, MALFORMED, f"cannot be read ({what}); save it again and compare"))
        return len(self.rejects) < MOST_BROKEN


class _Lines:
    """Line numbers of rising places in a text, counted once."""

    def __init__(self, text: str) -> None:
        self.text, self.place, self.line = text, 0, 1

    def at(self, place: int) -> int:
        if place < self.place:
            return self.text.count("\n", 0, place) + 1
        self.line += self.text.count("\n", self.place, place)
        self.place = place
        return self.line


@cache
def _decoder() -> json.JSONDecoder:
    return json.JSONDecoder()


def _skip(text: str, place: int) -> int:
    match = _SPACE.match(text, place)
    return match.end() if match else place


def _next_item(text: str, place: int) -> int:
    match = _ITEM_START.search(text, place)
    return match.start() if match else len(text)


def _is_list(text: str, start: int) -> bool:
    """Whether an object is a List by its first fields: one with `items` before any `spec`, or with a kind that ends so."""
    head = text[start : start + 4096]
    kind = re.search(r'"kind"\s*:\s*"(\w+)"', head)
    items = re.search(r'"items"\s*:\s*\[', head)
    own = re.search(r'"(?:spec|status)"\s*:', head)
    if items and (own is None or items.start() < own.start()):
        return True
    return bool(kind and kind[1].endswith("List") and (own is None or kind.start() < own.start()))


def _kind_of_items(kind: Any) -> str | None:
    """`PodList` → `Pod`; a `List` of several kinds says nothing about its items."""
    text = as_text(kind) or ""
    return text.removesuffix("List") or None if text.endswith("List") else None


def _yaml_items(document: str, start: int, indent: int) -> tuple[list[tuple[int, str]], str]:
    """The items of a block sequence, each with its place in the document, and the text behind them."""
    marker = re.compile(rf"^ {{{indent}}}- |^(?! {{{indent}}}[ -])(?=[^\s#])", re.MULTILINE)
    cuts: list[int] = []
    end = len(document)
    for match in marker.finditer(document, start):
        if not match[0]:
            end = match.start()
            break
        cuts.append(match.start())
    edges = [*cuts, end]
    return [(first, document[first:last]) for first, last in pairwise(edges)], document[end:]


def _count_aliases(block: str) -> int:
    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    return sum(isinstance(event, yaml.AliasEvent) for event in yaml.parse(block, Loader=loader))


@cache
def _loader() -> Any:
    """PyYAML's loader that leaves every scalar a text, with the line at which each object begins; nothing is constructed."""

    class Loader(getattr(yaml, "CBaseLoader", yaml.BaseLoader)):  # type: ignore[misc]
        def construct_scalar(self, node: Any) -> Any:
            return None if not node.style and node.value in ("", "~", "null", "Null", "NULL") else super().construct_scalar(node)

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            mapping = super().construct_mapping(node, deep=deep)
            if "metadata" in mapping:
                mapping[_LINE] = node.start_mark.line
            return mapping

    return Loader

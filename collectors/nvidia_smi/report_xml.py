"""`nvidia-smi -q -x`: one document, or one after the other as a loop prints them, of any version of the schema."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import pairwise
from xml.etree.ElementTree import Element, ParseError

from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import fromstring

from collectors.nvidia_smi.blocks import DOCUMENT_LIMIT, Reading
from collectors.nvidia_smi.query import identity_of, some
from collectors.nvidia_smi.records import Found, GpuReading, Identity, MigDevice, Note, ProcessSighting
from collectors.nvidia_smi.schema import XML_PATHS
from collectors.nvidia_smi.times import read_instant
from collectors.nvidia_smi.values import missing_reason, read_whole

_BEGIN, _END = "<nvidia_smi_log", "</nvidia_smi_log>"
_PROLOG = re.compile(r"\s*<(\?xml|!DOCTYPE nvidia_smi_log)")
_GPU = re.compile(r"<gpu\b")
_PROCESS_NAME = "<process_name>", "</process_name>"
_NO_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]|&(?!(?:amp|lt|gt|quot|apos|#\d+|#x[0-9a-fA-F]+);)")
_DEPTH = 12
#: what is read in another way, and lists of what the card could do
_LEFT = ("mig_devices", "processes", "accounted_processes", "supported_clocks", "pci/pci_bus", "mig_mode")


def begins_xml(text: str) -> bool:
    """Whether a document, or what stands before it, begins in this line."""
    return "<" in text and (_PROLOG.match(text) is not None or _BEGIN in text)


class XmlBlock:
    """Gathers one document after the other and reads each when it is complete."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self._lines: list[str] = []
        self._first = 0
        self._size = 0
        self._has_begun = False
        self._is_noted = False

    @property
    def is_open(self) -> bool:
        """Whether a document has begun and not ended."""
        return bool(self._lines)

    def feed(self, line: int, text: str) -> Iterable[Found] | None:
        if not self._lines and not begins_xml(text):
            return () if not text.strip() or not self._first else None
        return self._gather(line, text)

    def finish(self) -> Iterable[Found]:
        if self._has_begun:
            yield from self._document()
        elif self._lines:
            yield self.reading.reject(self._first, "an XML document, but none of nvidia-smi -q -x")
        self._clear()

    def _clear(self) -> None:
        self._lines, self._size, self._has_begun = [], 0, False

    def _gather(self, line: int, text: str) -> Iterator[Found]:
        while True:
            if self._has_begun and begins_xml(text):
                # a document that was cut off stands before this one
                yield from self._document()
            if not self._lines:
                self._first = line
            before, end, text = text.partition(_END)
            self._lines.append(before + end)
            self._has_begun = self._has_begun or _BEGIN in before
            self._size += len(before)
            if self._size > DOCUMENT_LIMIT:
                yield self.reading.reject(self._first, f"a document of more than {DOCUMENT_LIMIT >> 20} MiB without its end")
                self._clear()
                return
            if not end:
                return
            yield from self._document()
            if not text.strip():
                return

    def _document(self) -> Iterator[Found]:
        text = "\n".join(self._lines)
        first = self._first + text.count("\n", 0, max(text.find(_BEGIN), 0))
        text = text[max(text.find(_BEGIN), 0) :]
        self._clear()
        try:
            log = fromstring(text)
            yield from read_log(log, self.reading, first)
            yield from self._unread(log)
        except (ParseError, DefusedXmlException, ValueError) as error:
            if isinstance(error, ValueError) and not isinstance(error, DefusedXmlException):
                yield self.reading.reject(first, error)
                return
            yield from self._parts(text, first, error)

    def _unread(self, log: Element) -> Iterator[Found]:
        """A note of what the first document holds and no column takes."""
        gpu = log.find("gpu")
        if gpu is None or self._is_noted:
            return
        self._is_noted = True
        paths = sorted({path for path, _ in _leaves(gpu)} - XML_PATHS.keys())
        unread = [path for path in paths if not path.startswith(_LEFT)]
        yield Note(f"fields that fill no column, left out: {some(unread, 12)}")

    def _parts(self, text: str, first: int, error: Exception) -> Iterator[Found]:
        """The GPUs that are whole in a document that is not."""
        head = text[: text.find("<gpu") if "<gpu" in text else None]
        log = Element("nvidia_smi_log")
        for name in ("timestamp", "driver_version", "attached_gpus"):
            match = re.search(rf"<{name}>([^<]*)</{name}>", head)
            if match:
                child = Element(name)
                child.text = match[1]
                log.append(child)
        broken = 0
        for part in _gpu_texts(text):
            try:
                log.append(fromstring(_NO_XML.sub("", _without_process_names(part))))
            except (ParseError, DefusedXmlException):
                broken += 1
        if not text.endswith(_END):
            yield self.reading.reject(first, f"the document is cut off; {len(log.findall('gpu'))} of its GPUs are read")
        elif broken or log.find("gpu") is None:
            yield self.reading.reject(first, f"no readable XML ({error}); {len(log.findall('gpu'))} of its GPUs are read")
        try:
            yield from read_log(log, self.reading, first)
        except ValueError as problem:
            yield self.reading.reject(first, problem)


def _gpu_texts(text: str) -> Iterator[str]:
    """The `<gpu>` elements of a document, as far as they have an end."""
    starts = [match.start() for match in _GPU.finditer(text)]
    for start, following in pairwise([*starts, len(text)]):
        end = text.find("</gpu>", start, following)
        if end >= 0:
            yield text[start : end + len("</gpu>")]


def _without_process_names(text: str) -> str:
    """The text without the names of processes: they are printed as they are, `&` and control characters included."""
    begin, end = _PROCESS_NAME
    first, *others = text.split(begin)
    return first + "".join(other.partition(end)[2] for other in others)


def read_log(log: Element, reading: Reading, line: int) -> Iterator[Found]:
    """The readings in a document. Raises ValueError where its time is none."""
    clock = (log.findtext("timestamp") or "").strip()
    at = read_instant(clock, reading.zone) if clock else None
    gpus = log.findall("gpu")
    attached = read_whole(log.findtext("attached_gpus"))
    driver = (log.findtext("driver_version") or "").strip()
    for position, gpu in enumerate(gpus):
        try:
            # all GPUs are printed in the order of their index, unless one was asked for
            yield from _read_gpu(gpu, position if attached == len(gpus) else None, at, driver, line)
        except ValueError as error:
            yield reading.reject(line, error)
    if not gpus:
        yield Note("documents without a GPU")


def _read_gpu(gpu: Element, index: int | None, at: datetime | None, driver: str, line: int) -> Iterator[Found]:
    texts = {name: text for path, text in _leaves(gpu) if (name := XML_PATHS.get(path))}
    texts.setdefault("pci.bus_id", gpu.get("id", ""))
    if driver:
        texts["driver_version"] = driver
    named = identity_of(texts)
    identity = Identity(named.vendor_id, named.pci, index)
    mig = tuple(_read_mig(device) for device in gpu.iterfind("mig_devices/mig_device"))
    yield GpuReading(line, identity, texts, at, mig=mig, shows_mig=True)
    for process in gpu.iterfind("processes/process_info"):
        pid = read_whole(process.findtext("pid"))
        if pid is not None:
            gi = read_whole(process.findtext("gpu_instance_id"))
            yield ProcessSighting(line, identity, pid, at, gi=gi, memory_used=process.findtext("used_memory") or "")


def _leaves(gpu: Element) -> Iterator[tuple[str, str]]:
    stack = [(child, child.tag) for child in reversed(gpu)]
    while stack:
        element, path = stack.pop()
        if len(element) == 0:
            yield path, (element.text or "").strip()
        elif path.count("/") < _DEPTH:
            stack += [(child, f"{path}/{child.tag}") for child in reversed(element)]


def _read_mig(device: Element) -> MigDevice:
    def told(*paths: str) -> str | None:
        found = next((text for path in paths if (text := (device.findtext(path) or "").strip())), "")
        return None if missing_reason(found) else found

    return MigDevice(
        index=read_whole(told("index")),
        gi=read_whole(told("gpu_instance_id")),
        ci=read_whole(told("compute_instance_id")),
        profile=told("mig_profile", "profile", "name"),
        uuid=told("uuid", "mig_uuid"),
        multiprocessors=read_whole(told("device_attributes/shared/multiprocessor_count")),
        memory_used=device.findtext("fb_memory_usage/used") or "",
        memory_total=device.findtext("fb_memory_usage/total") or "",
    )

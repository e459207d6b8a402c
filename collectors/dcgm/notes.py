"""What a person should know about scrapes that is no reject, gathered while they are read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from collectors.dcgm.parse import Scrapes, nodes_in_doubt
from collectors.dcgm.rows import blank_reason, fields_without_column, model_of
from collectors.dcgm.scale import Scale
from collectors.dcgm.schema import ACTIVITY_FIELDS, FIELDS
from collectors.parsed import Parsed


@dataclass
class Findings:
    """Sets and counts, however many scrapes they are gathered from."""

    fields: set[str] = field(default_factory=set)
    others: set[str] = field(default_factory=set)
    doubtful_nodes: set[str] = field(default_factory=set)
    slots: set[str] = field(default_factory=set)
    #: slot → its activity fields that had any value
    signals: dict[str, set[str]] = field(default_factory=dict)
    #: field → why every value of it was blank, None where one was not
    blanks: dict[str, str | None] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    unnamed: set[str] = field(default_factory=set)
    shared_jobs: set[str] = field(default_factory=set)
    scales: dict[str, Scale] = field(default_factory=dict)
    #: GPU → whether any of its series names a model
    has_model: dict[str, bool] = field(default_factory=dict)
    unknown_models: set[str] = field(default_factory=set)
    repeated: int = 0
    split: int = 0

    def add_scrapes(self, read: Scrapes) -> None:
        """Take in what was read: before the values are brought to one scale, since a blank is told by its value."""
        self.fields |= read.fields
        self.others |= read.others
        self.shared_jobs |= read.shared_jobs
        self.repeated += read.repeated
        self.split += read.split
        self.doubtful_nodes |= set(nodes_in_doubt(read.readings))
        for reading in read.readings:
            self.slots.add(str(reading.slot))
            gpu = reading.slot.gpu_uuid
            self.has_model[gpu] = self.has_model.get(gpu, False) or model_of(reading.labels) is not None
            self.signals.setdefault(str(reading.slot), set()).update(set(ACTIVITY_FIELDS) & set(reading.values))
            for name in set(FIELDS) & set(reading.values):
                reason = blank_reason(reading.values[name], is_narrow=not FIELDS[name].per_second)
                if name not in self.blanks or reason is None:
                    self.blanks[name] = reason
            for holder in reading.holders:
                if holder.pod and not holder.job_id:
                    (self.names if holder.evidence else self.unnamed).add(holder.evidence or holder.pod)

    def add_rows(self, parsed: Parsed) -> None:
        """Take in what became of it."""
        split = [row for row in parsed.tables.get("gpu_inventory", []) if row["slot_uuid"] and row["mig_profile"]]
        self.unknown_models |= {row["gpu_model"] for row in split if row["card_slices"] is None}

    def blank_fields(self) -> dict[str, str]:
        """Fields that have no value in any reading → why: what the exporter lost (a version change)."""
        return {name: reason for name, reason in sorted(self.blanks.items()) if reason}

    def notes(self) -> list[str]:
        """One line for each thing to know."""
        blanks = self.blank_fields()
        silent = [slot for slot in self.slots if not self.signals[slot] - set(blanks)]
        nameless = sorted(gpu for gpu, is_named in self.has_model.items() if not is_named)
        percent = sorted(node for node, scale in self.scales.items() if scale.profiling != 1)
        fractions = sorted(node for node, scale in self.scales.items() if scale.utilization != 1)
        unread = fields_without_column(self.fields)
        told = [
            (
                self.doubtful_nodes,
                f"{_some(self.doubtful_nodes)} looks like an exporter's pod or container, not a node; "
                "give the node with --node NAME, or --node EXPORTER=NAME for each",
            ),
            (
                silent,
                f"no activity for {len(silent)} of {len(self.slots)} slots, so their time is unobserved; "
                "add DCGM_FI_PROF_SM_ACTIVE or DCGM_FI_PROF_GR_ENGINE_ACTIVE to the exporter's fields",
            ),
            (blanks, f"blank in every reading: {', '.join(blanks)}"),
            (
                self.names,
                f"pods known by name only: {_some(self.names)}; land the cluster's pods with `kubernetes`, "
                "so that each name finds the pod that had it",
            ),
            (
                self.unnamed,
                f"pods without a namespace: {_some(self.unnamed)}; no evidence of who held a GPU, keep the label namespace",
            ),
            (
                self.shared_jobs,
                f"every MIG instance of {_some(self.shared_jobs)} carries the same hpc_job: the exporter maps jobs to whole "
                "cards, which is no evidence of the instance",
            ),
            (percent, f"profiling fields of {_some(percent)} are percentages, as all their values say; divided by 100"),
            (fractions, f"GPU utilisation of {_some(fractions)} is a ratio, as all its values say; multiplied by 100"),
            (self.repeated, f"{self.repeated} series repeat a device's reading with other labels (a shared GPU); counted once"),
            (self.split, f"{self.split} readings were given in parts, one for each pod that shares the GPU; added up"),
            (nameless, f"no label names the model of {_some(nameless)}; samples landed, no inventory record"),
            (
                self.unknown_models,
                f"how many compute slices a {_some(self.unknown_models)} has is not known here; card_slices is left empty",
            ),
            (self.others, f"of NVLinks, switches or CPUs, not of GPUs, left out: {', '.join(sorted(self.others))}"),
            (unread, f"fields without a column, left out: {', '.join(unread)}"),
        ]
        return [text for is_there, text in told if is_there]


def _some(names: Iterable[str], limit: int = 3) -> str:
    ordered: Sequence[str] = sorted(names)
    return ", ".join(ordered[:limit]) + (f" and {len(ordered) - limit} more" if len(ordered) > limit else "")

"""`nvidia-smi -q -x`, the text of `nvidia-smi -q`, and `nvidia-smi -L`."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pytest

from tests.unit.collectors.nvidia_smi.outputs import OTHER_UUID, POWER_V13, UUID, land, mig_device, xml_gpu, xml_log

#: an A100 80 GB: 3g.40gb, 1g.20gb and 1g.10gb, as their memory and multiprocessors tell
MIG = (
    mig_device(0, 2, total=40192, used=11091, multiprocessors=42)
    + mig_device(1, 5, total=19968, used=12, multiprocessors=14)
    + mig_device(2, 9, total=9728, used=9, multiprocessors=14)
)
SPLIT = {"mode": "Enabled", "devices": MIG, "utilization": "N/A"}
LISTING = f"""GPU 0: NVIDIA A100-SXM4-80GB (UUID: {UUID})
  MIG 3g.40gb     Device  0: (UUID: MIG-a)
  MIG 1g.20gb     Device  1: (UUID: MIG-b)
  MIG 1g.10gb     Device  2: (UUID: MIG-c)
"""
REASONS = (
    "<clocks_{0}_reasons><clocks_{0}_reason_gpu_idle>Not Active</clocks_{0}_reason_gpu_idle>"
    "<clocks_{0}_reason_hw_slowdown>Active</clocks_{0}_reason_hw_slowdown>"
    "<clocks_{0}_reason_hw_thermal_slowdown>Active</clocks_{0}_reason_hw_thermal_slowdown></clocks_{0}_reasons>"
)
PROCESS = (
    "<process_info><gpu_instance_id>{gi}</gpu_instance_id><pid>{pid}</pid>"
    "<process_name>{name}</process_name><used_memory>22 MiB</used_memory></process_info>"
)

TEXT = f"""
==============NVSMI LOG==============

Timestamp                                 : Mon Apr 24 16:11:51 2023
Driver Version                            : 515.105.01
CUDA Version                              : 11.7

Attached GPUs                             : 1
GPU 00000000:00:1E.0
    Product Name                          : NVIDIA A10G
    MIG Mode
        Current                           : N/A
        Pending                           : N/A
    Serial Number                         : 1322222222222
    GPU UUID                              : {UUID}
    Minor Number                          : 0
    PCI
        Bus Id                            : 00000000:00:1E.0
    Clocks Throttle Reasons
        Idle                              : Not Active
        SW Power Cap                      : Active
        HW Slowdown                       : Active
            HW Thermal Slowdown           : Not Active
            HW Power Brake Slowdown       : Active
    FB Memory Usage
        Total                             : 23028 MiB
        Used                              : 22 MiB
    BAR1 Memory Usage
        Total                             : 32768 MiB
        Used                              : 1 MiB
    Utilization
        Gpu                               : 12 %
        Memory                            : 0 %
    Temperature
        GPU Current Temp                  : 17 C
        GPU Shutdown Temp                 : 98 C
    Power Readings
        Power Management                  : Supported
        Power Draw                        : 25.58 W
        Power Limit                       : 300.00 W
    Clocks
        Graphics                          : 210 MHz
        SM                                : 210 MHz
    Max Clocks
        SM                                : 1710 MHz
    Processes
        GPU instance ID                   : N/A
        Compute instance ID               : N/A
        Process ID                        : 725
            Type                          : G
            Name                          : /usr/lib/xorg/Xorg :0
            Used GPU Memory               : 22 MiB
        GPU instance ID                   : N/A
        Compute instance ID               : N/A
        Process ID                        : 726
            Type                          : C
            Name                          : python
            Used GPU Memory               : Not available in WDDM driver model

"""


@pytest.mark.parametrize("word", ["throttle", "event"])
def test_a_document_becomes_a_sample_and_an_inventory_record(home: Path, word: str) -> None:
    landed = land(home, xml_log(xml_gpu(reasons=REASONS.format(word)), schema=11))
    assert landed.code == 0
    (sample,) = landed.samples
    assert sample["gpu_uuid"] == UUID
    assert sample["gpu_index"] == 0
    assert sample["pci_bus_id"] == "00000000:01:00.0"
    assert sample["interval_start_at"] == datetime(2023, 4, 24, 16, 10, 51)
    assert sample["interval_ms"] == 60_000
    assert (sample["gpu_utilization_ratio"], sample["power_watts"], sample["temperature_celsius"]) == (0.37, 67.03, 41)
    assert (sample["memory_used_bytes"], sample["memory_total_bytes"]) == (50 << 20, 81920 << 20)
    assert (sample["sm_clock_mhz"], sample["sm_clock_max_mhz"], sample["clock_event_reasons"]) == (1275, 1410, 0x48)
    assert json.loads(sample["missing"]) == {"sm_clock_application_mhz": "not_supported"}
    (record,) = landed.inventory
    assert (record["gpu_model"], record["driver_version"], record["power_limit_watts"]) == (
        "NVIDIA A100-SXM4-80GB",
        "535.54.03",
        400,
    )
    assert record["slot_uuid"] is None


def test_the_average_of_v13_is_the_power_and_the_module_is_another_thing(home: Path) -> None:
    (sample,) = land(home, xml_log(xml_gpu(power=POWER_V13), schema=13)).samples
    assert sample["power_watts"] == 8.81


def test_documents_of_a_loop_follow_each_other(home: Path) -> None:
    loop = "".join(xml_log(xml_gpu(), time=f"Mon Apr 24 16:11:{second} 2023") for second in ("50", "55", "59"))
    assert [row["interval_ms"] for row in land(home, loop).samples] == [4000, 5000, 4000]
    on_one_line = loop.replace("\n", " ")
    assert len(land(home, on_one_line).samples) == 6


def test_a_document_without_a_time_needs_it(home: Path) -> None:
    """Schema v10, and what a script cut out."""
    text = xml_log(xml_gpu(), time="", schema=10)
    assert "--at" in land(home, text).said
    landed = land(home, text, options="--at 2023-01-01T00:00:00Z")
    assert landed.samples[0]["interval_start_at"] == datetime(2022, 12, 31, 23, 59)


def test_an_embedded_dtd_is_passed_over(home: Path) -> None:
    dtd = "<!DOCTYPE nvidia_smi_log [\n<!ELEMENT nvidia_smi_log (timestamp, gpu*)>\n<!ELEMENT gpu ANY>\n]>"
    text = xml_log(xml_gpu()).replace('<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">', dtd)
    assert len(land(home, text).samples) == 1


def test_each_gpu_instance_is_a_slot_without_utilisation(home: Path) -> None:
    landed = land(home, xml_log(xml_gpu(**SPLIT)))
    slots = [f"{UUID}/gi{number}" for number in (2, 5, 9)]
    assert [row["slot_uuid"] for row in landed.samples] == slots
    assert [row["gpu_utilization_ratio"] for row in landed.samples] == [None] * 3
    assert all(json.loads(row["missing"])["gpu_utilization_ratio"] == "not_supported" for row in landed.samples)
    assert [row["memory_used_bytes"] >> 20 for row in landed.samples] == [11091, 12, 9]
    assert {row["power_watts"] for row in landed.samples} == {67.03}
    records = {row["slot_uuid"]: (row["compute_slices"], row["card_slices"]) for row in landed.inventory}
    assert records == {None: (None, None), slots[0]: (3, 7), slots[1]: (1, 7), slots[2]: (1, 7)}
    assert "DCGM" in landed.said


def test_a_listing_of_the_same_call_names_the_instances(home: Path) -> None:
    landed = land(home, xml_log(xml_gpu(**SPLIT)), LISTING, options="--at 2023-04-24T16:00:00Z --at 2023-04-24T16:00:00Z")
    assert [row["slot_uuid"] for row in landed.samples] == ["MIG-a", "MIG-b", "MIG-c"]
    assert {row["mig_profile"] for row in landed.inventory} == {None, "3g.40gb", "1g.20gb", "1g.10gb"}


def test_compute_instances_share_the_slot_of_their_gpu_instance(home: Path) -> None:
    """Each is listed with all the memory of the GPU instance: counted one by one they would double it."""
    devices = mig_device(0, 2, 0, total=40192, used=100, multiprocessors=14) + mig_device(
        1, 2, 1, total=40192, used=100, multiprocessors=28
    )
    landed = land(home, xml_log(xml_gpu(mode="Enabled", devices=devices, utilization="N/A")))
    assert [(row["slot_uuid"], row["memory_used_bytes"] >> 20) for row in landed.samples] == [(f"{UUID}/gi2", 100)]
    assert [row["compute_slices"] for row in landed.inventory if row["slot_uuid"]] == [3]


def test_a_listing_tells_the_parts_of_a_profile_by_their_own_uuids(home: Path) -> None:
    listing = f"""GPU 0: NVIDIA H200 (UUID: {UUID})
  MIG 1c.3g.71gb  Device  0: (UUID: MIG-a)
  MIG 2c.3g.71gb  Device  1: (UUID: MIG-b)
  MIG 1c.3g.71gb  Device  2: (UUID: MIG-c)
GPU 1: NVIDIA H200 (UUID: {OTHER_UUID})
"""
    landed = land(home, listing, options="--at 2026-07-14T09:00:00Z")
    slots = [(row["slot_uuid"], row["mig_profile"], row["compute_slices"]) for row in landed.inventory if row["gpu_uuid"] == UUID]
    parts = [("MIG-a", "1c.3g.71gb", 3), ("MIG-b", "2c.3g.71gb", 3), ("MIG-c", "1c.3g.71gb", 3)]
    assert slots == [(None, None, None), *parts]
    assert landed.samples == []


def test_old_drivers_number_the_instances_in_their_uuid(home: Path) -> None:
    listing = f"""GPU 0: A100-SXM4-40GB (UUID: {UUID})
  MIG 1c.2g.10gb Device 0: (UUID: MIG-{UUID}/3/0)
  MIG 1c.2g.10gb Device 1: (UUID: MIG-{UUID}/3/1)
  MIG 1g.5gb Device 2: (UUID: MIG-{UUID}/9/0)
"""
    landed = land(home, listing, options="--at 2026-07-14T09:00:00Z")
    instances = [(row["slot_uuid"], row["gpu_instance_id"]) for row in landed.inventory]
    assert instances == [(None, None), (f"MIG-{UUID}/3/0", 3), (f"MIG-{UUID}/3/1", 3), (f"MIG-{UUID}/9/0", 9)]


def test_processes_under_mig_belong_to_their_slot(home: Path) -> None:
    processes = PROCESS.format(gi=5, pid=7, name="a") + PROCESS.format(gi="N/A", pid=8, name="b")
    landed = land(home, xml_log(xml_gpu(**SPLIT, processes=processes)))
    assert {row["pid"]: row["slot_uuid"] for row in landed.processes} == {7: f"{UUID}/gi5", 8: None}
    assert {row["memory_used_bytes"] for row in landed.processes} == {22 << 20}


def test_a_process_name_that_is_no_xml_costs_nothing(home: Path) -> None:
    """nvidia-smi prints names as they are."""
    process = PROCESS.format(gi="N/A", pid=7, name="sh -c a && b <c \x01")
    landed = land(home, xml_log(xml_gpu(processes=process), xml_gpu(uuid=OTHER_UUID, bus="02")))
    assert landed.code == 0
    assert len(landed.samples) == 2


def test_a_document_that_is_cut_off_keeps_its_whole_gpus(home: Path) -> None:
    text = xml_log(xml_gpu(), xml_gpu(uuid=OTHER_UUID, bus="02"))
    cut = text[: text.rindex("<temperature>")]
    landed = land(home, cut + text.replace("16:11:51", "16:12:51"))
    assert landed.code == 4
    assert "cut off; 1 of its GPUs" in landed.quarantine[0]["detail"]
    assert len(landed.samples) == 3


def test_entities_are_not_expanded(home: Path) -> None:
    bomb = (
        '<?xml version="1.0"?>\n<!DOCTYPE nvidia_smi_log [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]>\n<nvidia_smi_log>'
        f"<timestamp>Mon Apr 24 16:11:51 2023</timestamp><gpu><uuid>{UUID}</uuid><product_name>&b;</product_name></gpu>"
        "</nvidia_smi_log>"
    )
    landed = land(home, bomb)
    assert "aaaa" not in str(landed.tables)


def test_the_plain_text_says_the_same_as_the_document(home: Path) -> None:
    landed = land(home, TEXT)
    assert landed.code == 0
    (sample,) = landed.samples
    assert (sample["gpu_uuid"], sample["gpu_index"]) == (UUID, 0)
    assert (sample["gpu_utilization_ratio"], sample["power_watts"], sample["temperature_celsius"]) == (0.12, 25.58, 17)
    assert (sample["memory_used_bytes"], sample["memory_total_bytes"]) == (22 << 20, 23028 << 20)
    assert (sample["sm_clock_mhz"], sample["sm_clock_max_mhz"]) == (210, 1710)
    assert sample["clock_event_reasons"] == 0x4 | 0x8 | 0x80
    (record,) = landed.inventory
    assert (record["gpu_model"], record["driver_version"], record["serial"]) == ("NVIDIA A10G", "515.105.01", "1322222222222")
    assert [(row["pid"], row["memory_used_bytes"]) for row in landed.processes] == [(725, 22 << 20), (726, None)]


def test_a_transcript_of_several_commands_is_read_piece_by_piece(home: Path) -> None:
    session = f"""user@node7:~$ nvidia-smi -L
GPU 0: NVIDIA A10G (UUID: {UUID})
user@node7:~$ nvidia-smi -q
{TEXT}
user@node7:~$ nvidia-smi --query-gpu=timestamp,uuid,utilization.gpu --format=csv
timestamp, uuid, utilization.gpu [%]
2023/04/24 16:12:51.000, {UUID}, 30 %
"""
    landed = land(home, session)
    assert landed.code == 0
    assert [row["gpu_utilization_ratio"] for row in landed.samples] == [0.12, 0.3]
    assert "no output read here, the first at line 1" in landed.said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the file is empty"),
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n", "check the driver"),
        ("No devices were found\n", "check the driver"),
        ("hello world\n", "no output of nvidia-smi or rocm-smi"),
        ("Tue Jul 14 09:00:43 2026\n+----+\n| NVIDIA-SMI 590.48.01  Driver Version: 590.48.01 |\n", "summary table"),
        ('{"hello": 1}', "none of rocm-smi or amd-smi"),
        ("<?xml version='1.0'?>\n<plist></plist>\n", "none of nvidia-smi -q -x"),
    ],
)
def test_what_is_no_output_is_refused_with_the_remedy(home: Path, text: str, said: str) -> None:
    landed = land(home, text)
    assert landed.code in (1, 4)
    assert said in landed.said
    assert landed.tables == {}


def test_a_text_that_was_pasted_without_its_first_line_is_read(home: Path) -> None:
    """And indented, as in a document."""
    pasted = "\n".join(f"    {line}" for line in TEXT.splitlines()[3:])
    later = pasted.replace("16:11:51", "16:12:51")
    landed = land(home, f"Output of nvidia-smi -a:\n\n{pasted}\n{later}\n")
    assert landed.code == 0
    assert [row["gpu_utilization_ratio"] for row in landed.samples] == [0.12, 0.12]
    assert landed.samples[1]["interval_start_at"] == datetime(2023, 4, 24, 16, 11, 51)

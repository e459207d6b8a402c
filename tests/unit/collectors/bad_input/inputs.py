"""One good input for every form that a collector reads from a file: what the tests beside it damage."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.conftest import REAL_DATA
from tests.unit.collectors.billing.bills import bill
from tests.unit.collectors.dcgm.scrapes import ENERGY, GRAPHICS, SM, UTIL, scrape

RECORDINGS = Path(__file__).parents[1]
AT = "2026-11-02T00:10:00Z"


@dataclass(frozen=True)
class Input:
    """A file's name and text, and the command that reads it, without the file; `cells` is the delimiter of its columns."""

    name: str
    file: str
    text: str
    command: tuple[str, ...]
    cells: str | None = None
    #: lines that may be cut off without the rest losing its meaning
    has_header: bool = False

    @property
    def data(self) -> bytes:
        return self.text.encode("utf-8", "surrogateescape")

    def call(self, path: Path) -> list[str]:
        """The arguments of `python -m collectors` that read the file; an option that takes it stands right before it."""
        *command, last = self.command
        takes_file = last.startswith("--")
        return [*(command if takes_file else self.command), "--cluster", "c1", *([last] if takes_file else []), str(path)]


def _recording(*parts: str) -> str:
    return RECORDINGS.joinpath(*parts).read_text()


SAMPLES = """\
cluster,node,gpu_uuid,interval_start_at,interval_ms,sm_active_ratio
c1,n1,GPU-1,2026-11-02T00:00:00Z,60000,0.5
c1,n1,GPU-1,2026-11-02T00:01:00Z,60000,0.25
"""
SCONTROL_NODES = _recording("slurm", "recordings", "scontrol_nodes.txt")
SACCT = _recording("slurm", "recordings", "sacct_parsable_all_steps.txt")
SONAR_CSV = (
    "v=0.14,JobIDRaw=7,JobName=train,State=COMPLETED,Start=2025-05-02T14:09:52+02:00,"
    "End=2025-05-02T15:09:52+02:00,ElapsedRaw=3600\n"
)
NODES = [{"cluster": "c1", "node": name, "gpu_count": 8, "seen_at": "2026-11-02T00:00:00Z"} for name in ("n1", "n2")]

SMI_CSV = (
    "timestamp, name, uuid, pci.bus_id, utilization.gpu [%], memory.used [MiB], memory.total [MiB], power.draw [W]\n"
    "2026/11/02 00:00:10.000, NVIDIA H100, GPU-1, 00000000:01:00.0, 97 %, 1024 MiB, 81559 MiB, 433.78 W\n"
    "2026/11/02 00:00:20.000, NVIDIA H100, GPU-1, 00000000:01:00.0, [N/A], 1024 MiB, 81559 MiB, N/A\n"
)
SMI_XML = """\
<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
  <timestamp>Mon Nov  2 00:10:00 2026</timestamp>
  <driver_version>535.54.03</driver_version>
  <gpu id="00000000:01:00.0">
    <product_name>NVIDIA A10G</product_name>
    <uuid>GPU-1</uuid>
    <fb_memory_usage><total>23028 MiB</total><used>22 MiB</used></fb_memory_usage>
    <utilization><gpu_util>12 %</gpu_util></utilization>
    <gpu_power_readings><power_draw>25.58 W</power_draw></gpu_power_readings>
  </gpu>
</nvidia_smi_log>
"""
SMI_LIST = (
    "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-11111111-2222-3333-4444-555555555555)\n"
    "  MIG 3g.40gb     Device  0: (UUID: MIG-aaaaaaaa-2222-3333-4444-555555555555)\n"
)
ROCM = {
    "card0": {
        "Unique ID": "0x1b9dd972253c3736",
        "Card series": "Instinct MI100",
        "GPU use (%)": "7",
        "VRAM Total Memory (B)": "34342961152",
        "VRAM Total Used Memory (B)": "7032832",
        "PCI Bus": "0000:E3:00.0",
    }
}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "train-0", "namespace": "ml", "uid": "11111111-2222", "creationTimestamp": "2026-11-02T00:00:00Z"},
    "spec": {"nodeName": "n1", "containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "2"}}}]},
    "status": {
        "phase": "Running",
        "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-02T00:00:05Z"}],
    },
}
PODS = {"apiVersion": "v1", "kind": "List", "items": [POD]}
SCONTROL_JOBS = (
    "JobId=7 JobName=train\n   UserId=u(1000) GroupId=u(1000) MCS_label=N/A\n   Priority=1 Nice=0 Account=lab QOS=normal\n"
    "   JobState=RUNNING Reason=None Dependency=(null)\n   Partition=gpu AllocNode:Sid=n0:1\n"
    "   SubmitTime=2026-11-02T00:00:00 StartTime=2026-11-02T00:00:10 EndTime=Unknown RunTime=00:10:00\n"
    "   NodeList=n1 NumNodes=1 NumCPUs=4 TRES=cpu=4,mem=8G,node=1,gres/gpu=2\n"
    "     Nodes=n1 CPU_IDs=0-3 Mem=8192 GRES=gpu:a100:2(IDX:0-1)\n\n"
)
SONAR_PS = (
    "v=0.7.0,time=2023-10-10T12:00:00+02:00,host=ml8,cores=192,user=u1,job=7,pid=7,cmd=python,cpu%=99.5,cpukib=1024,gpus=1,gpu%=50,"
    "gpumem%=10,gpukib=2048,cputime_sec=60\n"
    "v=0.7.0,time=2023-10-10T12:05:00+02:00,host=ml8,cores=192,user=u1,job=7,pid=7,cmd=python,cpu%=99.5,cpukib=1024,gpus=1,gpu%=70,"
    "gpumem%=10,gpukib=2048,cputime_sec=360\n"
)
VLLM = (
    "# TYPE vllm:prompt_tokens_total counter\n"
    'vllm:prompt_tokens_total{engine="0",model_name="llama"} 3.675428e+06\n'
    "# TYPE vllm:generation_tokens_total counter\n"
    'vllm:generation_tokens_total{engine="0",model_name="llama"} 44995.0\n'
    "# TYPE vllm:request_success_total counter\n"
    'vllm:request_success_total{engine="0",finished_reason="stop",model_name="llama"} 26.0\n'
    "# TYPE vllm:num_requests_running gauge\n"
    'vllm:num_requests_running{engine="0",model_name="llama"} 3.0\n'
)
AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n"
OPENAI = {
    "id": "r1",
    "object": "chat.completion",
    "created": 1_793_000_000,
    "model": "gpt-4o",
    "usage": {"prompt_tokens": 10, "completion_tokens": 20, "total_tokens": 30},
}

_INPUTS = (
    Input("landing-csv", "rows.csv", SAMPLES, ("import", "gpu_samples"), cells=",", has_header=True),
    Input(
        "landing-json-lines",
        "rows.jsonl",
        "".join(json.dumps(node) + "\n" for node in NODES),
        ("import", "nodes"),
    ),
    Input("sacct", "sacct.txt", SACCT, ("slurm", "--sacct-file"), cells="|", has_header=True),
    Input("sacct-json", "sacct.json", _recording("slurm", "recordings", "sacct.json"), ("slurm", "--sacct-file")),
    Input("sonar-csv", "sonar.csv", SONAR_CSV, ("slurm", "--sacct-file"), cells=","),
    Input(
        "dcgm",
        "2026-11-02T00-10-00Z.prom",
        scrape({SM: 0.5, GRAPHICS: 0.6, UTIL: 55, ENERGY: 123456, "DCGM_FI_DEV_FB_USED": 1024}) + "\n",
        ("dcgm",),
    ),
    Input("focus", "focus.csv", bill({}, {"BilledCost": "2"}), ("billing",), cells=",", has_header=True),
)
_OTHER_FORMS = (
    Input("nvidia-smi-csv", "gpus.csv", SMI_CSV, ("nvidia-smi", "--node", "n1"), cells=",", has_header=True),
    Input("nvidia-smi-xml", "gpus.xml", SMI_XML, ("nvidia-smi", "--node", "n1")),
    Input("nvidia-smi-list", "2026-11-02T00-10-00Z.txt", SMI_LIST, ("nvidia-smi", "--node", "n1")),
    Input("rocm-smi", "2026-11-02T00-10-00Z.json", json.dumps(ROCM), ("nvidia-smi", "--node", "n1")),
    Input("kubernetes-json", "pods.json", json.dumps(PODS), ("kubernetes", "--at", AT)),
    Input("kubernetes-yaml", "pods.yaml", yaml.safe_dump(PODS), ("kubernetes", "--at", AT)),
    Input("scontrol-jobs", "jobs.txt", SCONTROL_JOBS, ("slurm", "--sacct-file")),
    Input("scontrol-nodes", "2026-11-30T07-00-00Z.txt", SCONTROL_NODES, ("slurm", "--sacct-file")),
    Input("squeue-json", "squeue.json", _recording("slurm", "recordings", "squeue.json"), ("slurm", "--sacct-file")),
    Input("sonar", "sonar.csv", SONAR_PS, ("sonar",)),
    Input("vllm", "vllm-a-2026-11-02T00-10-00Z.prom", VLLM, ("inference", "--started-at", "2026-11-02T00:00:00Z")),
    Input("azure-trace", "requests.csv", AZURE, ("requests",), cells=",", has_header=True),
    Input("openai-log", "requests.jsonl", json.dumps(OPENAI) + "\n" + json.dumps({**OPENAI, "id": "r2"}) + "\n", ("requests",)),
)
INPUTS: Mapping[str, Input] = {item.name: item for item in (*_INPUTS, *_OTHER_FORMS)}


def _captures() -> Mapping[str, Input]:
    """The first part of each capture that a collector reads, where the captures are here; only the long form reads them."""
    found = {}
    for pattern, command in CAPTURED:
        for path in sorted(REAL_DATA.glob(pattern)):
            text = path.read_bytes()[:CAPTURE_BYTES].decode("utf-8", "surrogateescape")
            name = str(path.relative_to(REAL_DATA))
            found[name] = Input(name, path.name, text, command)
    return found


#: where the captures of each collector lie, and how it is called on them
CAPTURED = (
    ("fox-slurm/s*", ("slurm", "--at", AT, "--time-zone", "Europe/Oslo", "--sacct-file")),
    ("dcgm-exporter-*/*.prom", ("dcgm", "--node", "n1", "--at", AT)),
    ("focus-1.0-sample/*.csv", ("billing",)),
    ("focus-converters/*.csv", ("billing",)),
    ("azure-ea-finops-toolkit/EA_*.csv", ("billing",)),
    ("nvidia-smi-captures/sections/*load*", ("nvidia-smi", "--node", "n1", "--at", AT)),
    ("telegraf/nvidia-smi-xml/*.xml", ("nvidia-smi", "--node", "n1", "--at", AT)),
    ("telegraf/rocm-smi/*.json", ("nvidia-smi", "--node", "n1", "--at", AT)),
    ("telegraf/slurmrestd/*.json", ("slurm", "--at", AT, "--sacct-file")),
    ("slurm2sql/*.csv", ("slurm", "--sacct-file")),
    ("dcgm-exporter-runai/k8s-*.yaml", ("kubernetes", "--at", AT)),
    ("uio-ml-sonar/*v0*", ("sonar",)),
    ("uio-ml-sonar/ml8-untagged-1.csv", ("sonar",)),
    ("inference-metrics/*.prom", ("inference", "--at", AT, "--started-at", "2026-11-02T00:00:00Z")),
    ("azure-llm-2023/*.csv", ("requests",)),
    ("mooncake-fast25/*.jsonl", ("requests", "--started-at", AT)),
    ("litellm/spend_logs_payload.json", ("requests",)),
)
CAPTURE_BYTES = 8_000
CAPTURES = _captures()

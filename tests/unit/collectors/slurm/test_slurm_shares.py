"""What part of a GPU a job holds: shards, MPS, MIG instances, alone and with whole cards."""

from __future__ import annotations

import pytest

from collectors.slurm.gres import card_model, mig_profile, parse_gres
from collectors.slurm.records import Reading
from collectors.slurm.shares import per_gpu
from collectors.slurm.slices import parse_rules
from tests.unit.collectors.slurm.helpers import picked, rows_of

HEADER = "JobIDRaw|State|Start|End|Partition|NodeList|AllocTRES\n"


def job(tres: str, nodes: str = "gpu-1", partition: str = "accel") -> str:
    return f"{HEADER}7|RUNNING|1796016000|Unknown|{partition}|{nodes}|{tres}\n"


def nodes(*gres: str) -> str:
    return "".join(f"NodeName=gpu-{place} CPUTot=4 Gres={text} State=MIXED\n" for place, text in enumerate(gres, start=1))


@pytest.mark.parametrize(
    ("kind", "profile", "model"),
    [
        ("1g.10gb", "1g.10gb", None),
        ("a100_1g.5gb", "1g.5gb", "a100"),
        ("nvidia_a100_3g.39gb", "3g.39gb", "nvidia_a100"),
        ("nvidia_a100_80gb_pcie_1g.10gb+me", "1g.10gb+me", "nvidia_a100_80gb_pcie"),
        ("h100-mig-2g.20gb", "2g.20gb", "h100"),
        ("MIG-3g.20GB", "3g.20gb", None),
        ("a100_1g_5gb", "1g.5gb", "a100"),
        ("a100_80", None, "a100_80"),
        ("nvidia_a100_80gb_pcie", None, "nvidia_a100_80gb_pcie"),
        ("a100.MIG.20gb", None, "a100.MIG.20gb"),
        (None, None, None),
    ],
)
def test_a_types_name_tells_the_profile_and_the_card(kind: str | None, profile: str | None, model: str | None) -> None:
    assert (mig_profile(kind), card_model(kind)) == (profile, model)


def test_a_job_on_mig_instances_counts_them_and_names_their_profile() -> None:
    parsed = rows_of(job("cpu=4,gres/gpu=2,gres/gpu:nvidia_a100_3g.39gb=2"))

    assert picked(parsed, "runs", "gpu_count", "mig_profile", "gpu_model") == [(2, "3g.39gb", "nvidia_a100")]
    assert "run_gpus" not in parsed.tables


def test_whole_cards_and_instances_in_one_job_are_told_by_kind_and_node() -> None:
    parsed = rows_of(job("cpu=76,gres/gpu:a100=2,gres/gpu:a100_1g.5gb=2,gres/nvme=100", nodes="gpu-[1-2]"))

    assert picked(parsed, "runs", "gpu_count", "mig_profile", "gpu_model") == [(4, None, "a100")]
    assert picked(parsed, "run_gpus", "node", "mig_profile", "gpu_count", "gpu_index", "assignment_method") == [
        ("gpu-1", "1g.5gb", 1.0, None, "tres_count"),
        ("gpu-1", None, 1.0, None, "tres_count"),
        ("gpu-2", "1g.5gb", 1.0, None, "tres_count"),
        ("gpu-2", None, 1.0, None, "tres_count"),
    ]


@pytest.mark.parametrize(
    ("tres", "partition", "profile"),
    [
        ("cpu=8,gres/gpu=1", "mig", "1g.5gb"),
        ("cpu=8,gres/gpu=1", "accel", None),
        ("cpu=8,gres/gpu=1,gres/gpu:a100=1", "mig", "1g.5gb"),
        ("cpu=8,gres/gpu=1,gres/gpu:2g.10gb=1", "mig", "2g.10gb"),  # the name is nearer than the partition
        ("cpu=8,gres/gpu=1,gres/gpu:a100.MIG.20gb=1", "accel", "3g.20gb"),  # a rule for a type
        ("cpu=8,mem=1G", "mig", None),
    ],
)
def test_a_rule_says_where_gpus_are_instances(tres: str, partition: str, profile: str | None) -> None:
    rules = parse_rules(["mig=1g.5gb", "a100.MIG.20gb=3G.20GB"])

    assert picked(rows_of(job(tres, partition=partition), reading=Reading(mig=rules)), "runs", "mig_profile") == [(profile,)]


@pytest.mark.parametrize(
    ("gres", "tres", "count", "ratio"),
    [
        ("gpu:h100:4,shard:h100:32", "cpu=1,gres/shard=2", 1, 0.25),
        ("gpu:nvidia_gb10:1(S:0-19),shard:nvidia_gb10:80(S:0-19)", "gres/shard:nvidia_gb10=40,gres/shard=40", 1, 0.5),
        ("gpu:2,mps:200", "gres/mps=50", 1, 0.5),
        ("gpu:2,shard:8", "gres/shard=6", 2, 0.75),  # more than one GPU has
        ("gpu:h100:2,gpu:a100:2,shard:h100:16,shard:a100:8", "gres/shard=2", None, None),  # 8 or 4 to a GPU
        ("gpu:4", "gres/shard=2", None, None),
    ],
)
def test_shares_are_sized_by_their_node(gres: str, tres: str, count: int | None, ratio: float | None) -> None:
    parsed = rows_of(job(tres), nodes(gres))

    assert picked(parsed, "runs", "gpu_count", "share_ratio") == [(count, ratio)]
    assert bool([note for note in parsed.notes if "shards or MPS" in note]) == (count is None)


def test_shares_without_their_node_are_flagged_and_hold_an_unknown_number() -> None:
    parsed = rows_of(job("cpu=1,gres/shard=2"))

    assert picked(parsed, "runs", "gpu_count", "share_ratio", "labels") == [(None, None, '{"shard": "2"}')]
    assert [note for note in parsed.notes if "scontrol show node" in note]


def test_a_nodes_cut_is_its_shares_over_its_gpus() -> None:
    assert per_gpu(parse_gres("gpu:a:2,gpu:b:2,shard:a:8,shard:b:8")) == {"shard": 4}
    assert per_gpu(parse_gres("shard:8")) == {}
    assert per_gpu(parse_gres("gpu:a:2,gpu:b:2,shard:a:8")) == {"shard": 4}


@pytest.mark.parametrize("text", ["gpu:a100:2(IDX:0-", "(IDX:0)", "gpu:2(IDX:3-1)", "gpu:2(IDX:0-99999)", "gpu:2(IDX:x)", "=3"])
def test_a_list_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"no resource|no list of devices"):
        parse_gres(text)

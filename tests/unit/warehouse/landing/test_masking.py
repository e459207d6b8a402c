"""What is blanked out of landed text, and what only looks like it."""

from __future__ import annotations

import json
import time

import polars as pl
import pytest

from warehouse.landing.masking import SOMEBODY, mask, mask_column, mask_json, pseudonym, redact

#: built here from parts, so that no scanner of this repository takes them for real ones
TOKENS = {
    "openai": "sk-" + "T3BlbkFJ" * 5,
    "openai_project": "sk-" + "proj-" + "Ab3_" * 10,
    "anthropic": "sk-" + "ant-api03-" + "x9Y_" * 10,
    "github": "ghp" + "_" + "a1B2" * 9,
    "github_fine": "github" + "_pat_" + "11ABCDEFG0" * 4,
    "gitlab": "glpat" + "-" + "aB3_" * 5,
    "hugging_face": "hf" + "_" + "AbCd" * 9,
    "slack": "xoxb" + "-" + "123456789012-abcdef",
    "stripe": "sk" + "_live_" + "4eC39HqLyjWDarjtT1",
    "aws": "AKIA" + "IOSFODNN7EXAMPLE",
    "google": "AIza" + "SyA" + "a1B2c3D4" * 4,
    "databricks": "dapi" + "0123456789abcdef" * 2,
    "nvidia": "nvapi" + "-" + "Zx9_" * 12,
    "jwt": "eyJ" + "hbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmN",
}

#: names of jobs, models, nodes, resources and labels as people have them
HARMLESS = [
    *(
        "sk-learn-training-of-a-very-long-classifier",
        "hf-finetune-llama-3-70b-instruct-v2",
        "hf_transfer_benchmark",
        "tokenizer: fast",
    ),
    *(
        "pk-embedding-train",
        "rk_4_integrator",
        "token-classification-bert-base",
        "secret-santa-recommender",
        "passwordless-login",
    ),
    *("ghp_like_but_short", "bert@v1.2", "meta-llama/Llama-3.1-8B-Instruct", "user-service", "train:latest", "a=b", "n[001-004]"),
    *("i-0123456789abcdef0", "NVIDIA H100 80GB HBM3", "registry.example.com:5000/team/image:1.2", "http://node1:9400/metrics"),
    *("/subscriptions/0f/resourceGroups/rg/providers/Microsoft.Compute/virtualMachines/vm1", "owner: ml-platform", "bearer"),
    *("arn:aws:ec2:eu-west-1:123456789012:instance/i-1", "sk-project-alpha-vision-encoder-run-17", "authorization-service"),
    *("日本語ジョブ", "a" * 10_000, "train --token-limit 512", "a" + "=b" * 1000, "/srv/home/gpu-net/incoming"),
]


@pytest.mark.parametrize("kind", TOKENS)
def test_a_token_is_known_by_its_shape_wherever_it_stands(kind: str) -> None:
    token = TOKENS[kind]
    for text in (token, f"train {token} now", f"run-{token}", f"x={token}", f"https://h/p?k={token}&b=1"):
        assert token not in mask(text), text
        assert "[redacted]" in mask(text)


@pytest.mark.parametrize("text", HARMLESS)
def test_what_names_a_thing_stays_as_it_is(text: str) -> None:
    assert mask(text) == text


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("postgres://alice:hunter2@db:5432/x", "postgres://[redacted]@db:5432/x"),
        ("https://token@github.com/org/repo", "https://[redacted]@github.com/org/repo"),
        ("http://:hunter2@h/", "http://[redacted]@h/"),
        ("WANDB_API_KEY=hunter2 python train.py", "WANDB_API_KEY=[redacted] python train.py"),
        ("train --db-password hunter2 --epochs 3", "train --db-password [redacted] --epochs 3"),
        ("db_password: 'hunter2'", "db_password: '[redacted]'"),
        ("Authorization: Bearer hunter2", "Authorization: Bearer [redacted]"),
        ("blob?sv=1&sig=hunter2%3D", "blob?sv=1&sig=[redacted]"),
        ("by alice@example.com today", "by [user] today"),
        ("/home/alice/train.py", "/home/[user]/train.py"),
    ],
)
def test_credentials_and_people_go_and_the_rest_of_the_text_stays(
    text: str, masked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GPU_NET_USER_KEY", raising=False)
    assert mask(text) == masked
    assert mask(masked) == masked


def test_in_json_the_key_says_what_a_value_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPU_NET_USER_KEY", "key")
    alice = pseudonym("alice")
    given = {
        "team": "ml", "hub.jupyter.org/username": "alice", "aws:createdBy": "alice", "db_password": "correct horse", "app": "a",
        "secretKey": "correct horse", "nested": [{"user": "alice"}, {"key": "api-token", "value": "correct horse"}],
        "tokens": 5, "count_by_user_group": "x", "mail": "alice@example.com", "is_user": True,
    }  # fmt: skip
    found = json.loads(mask_json(json.dumps(given)))
    assert "correct horse" not in json.dumps(found)
    assert "alice" not in json.dumps(found)
    assert found["hub.jupyter.org/username"] == found["aws:createdBy"] == found["nested"][0]["user"] == alice
    assert {name: found[name] for name in ("team", "app", "tokens", "count_by_user_group")} == {
        "team": "ml", "app": "a", "tokens": 5, "count_by_user_group": "x",
    }  # fmt: skip
    assert found["mail"] == pseudonym("alice@example.com")
    assert mask_json(mask_json(json.dumps(given))) == mask_json(json.dumps(given))


def test_json_that_holds_nothing_keeps_its_bytes() -> None:
    text = '{ "b": 1,   "a": "ü" }'
    assert mask_json(text) == text
    assert mask_json("[" * 100_000) == "[" * 100_000
    assert mask_json("password=hunter2") == "password=[redacted]"


def test_without_a_key_a_person_is_somebody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GPU_NET_USER_KEY", raising=False)
    column = mask_column(pl.Series("c", [None, "a@example.com", "train", "a@example.com"]), is_json=False)
    assert column.to_list() == [None, SOMEBODY, "train", SOMEBODY]


PIECES = ("a-", "a_", "a@", "@", "/home/", "secret_", "token", "eyJ", "sk-", "--token ", "x.", "-----BEGIN ", "://", "a=")


@pytest.mark.parametrize("piece", PIECES)
def test_a_long_name_takes_no_long_time(piece: str) -> None:
    """Nested repetitions once took 17 s for a name of 10 kB."""
    started = time.process_time()
    mask(piece * (20_000 // len(piece)) + "!")
    redact(piece * (20_000 // len(piece)) + "!")
    assert time.process_time() - started < 1.5

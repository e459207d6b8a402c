"""List prices from a LiteLLM price list into config/list_prices.csv."""

from __future__ import annotations

import json
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import pytest
from click.testing import CliRunner

from warehouse.home import Home
from warehouse.init.land import land_config, read_said
from warehouse.landing.list_prices import PriceListError, drafts, list_prices_command, read_price_list

LISTED = """{
 "big-llm": {"input_cost_per_token": 1.25e-07, "output_cost_per_token": 1e-06, "cache_read_input_token_cost": 3e-08,
  "litellm_provider": "alpha", "mode": "chat"},
 "paint": {"output_cost_per_image": 0.04, "litellm_provider": "beta"},
 "free-of-price": {"mode": "chat"}
}"""


@pytest.fixture
def price_list(tmp_path: Path) -> Path:
    path = tmp_path / "prices.json"
    path.write_text(LISTED)
    return path


def test_a_price_per_token_becomes_one_per_million_to_the_last_digit(
    price_list: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPU_NET_HOME", str(tmp_path / "home"))
    arguments = [str(price_list), "--model", "our-7b=big-llm", "--model", "paint", "--since", "2026-01-01"]
    done = CliRunner().invoke(list_prices_command, arguments)
    assert done.exit_code == 0, done.output
    home = Home.from_environment()
    said = read_said(home, "list_prices")
    assert said.problems() == []
    first, second = said.rows.to_dicts()
    assert (first["model"], first["listed_as"], first["provider"], first["currency"]) == ("our-7b", "big-llm", "alpha", "USD")
    assert first["input_cost_per_million_tokens"] == Decimal("0.125")
    assert first["cached_input_cost_per_million_tokens"] == Decimal("0.03")
    assert first["output_cost_per_million_tokens"] == Decimal(1)
    assert (second["model"], second["cost_per_thousand_requests"]) == ("paint", Decimal(40))
    assert second["input_cost_per_million_tokens"] is None


def test_a_second_call_adds_to_the_file_and_a_build_lands_it(
    price_list: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPU_NET_HOME", str(tmp_path / "home"))
    for since in ("2026-01-01", "2026-06-01"):
        CliRunner().invoke(list_prices_command, [str(price_list), "--model", "m=big-llm", "--since", since])
    home = Home.from_environment()
    assert read_said(home, "list_prices").rows["valid_from"].to_list() == [datetime(2026, 1, 1), datetime(2026, 6, 1)]
    (outcome,) = [landing.outcome for landing in land_config(home) if landing.outcome]
    assert outcome.rows_landed == 2


def test_a_model_that_is_not_listed_is_an_error_that_names_those_that_are_near(price_list: Path) -> None:
    with pytest.raises(PriceListError, match="has no model big; did you mean big-llm"):
        list(drafts(read_price_list(price_list), [("m", "big")], datetime(2026, 1, 1)))
    with pytest.raises(PriceListError, match="no price of free-of-price"):
        list(drafts(read_price_list(price_list), [("m", "free-of-price")], datetime(2026, 1, 1)))


@pytest.mark.parametrize("text", ["[]", "{", json.dumps({"a": 1})])
def test_another_kind_of_file_is_no_price_list(tmp_path: Path, text: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(PriceListError, match=r"no JSON|no price list"):
        read_price_list(path)

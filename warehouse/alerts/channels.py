"""Post a message to an address (Slack, Teams, any webhook) and say whether it arrived.

An address is a secret: it comes from the environment, or from Airflow's connections, and stands in no message, error or log
line. Timeouts and retries are urllib3's; what is tried again is what is known not to have arrived.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.request import getproxies, proxy_bypass

import urllib3
from urllib3.exceptions import ConnectTimeoutError, HTTPError, MaxRetryError, NewConnectionError, ProxyError, SSLError
from urllib3.util import Url, parse_url

from warehouse.digest.words import clean
from warehouse.landing.values import redact

SLACK, TEAMS, WEBHOOK = "slack", "teams", "webhook"
NAMES = (SLACK, TEAMS, WEBHOOK)
TIMEOUT = urllib3.Timeout(connect=5.0, read=15.0)
#: two more tries where nothing arrived: no connection, or a server that asks to come again, after at most ten seconds
RETRIES = urllib3.Retry(
    total=2,
    connect=2,
    read=0,
    redirect=0,
    other=0,
    status=2,
    status_forcelist=(429, 503),
    allowed_methods=None,
    backoff_factor=0.5,
    retry_after_max=10,
    raise_on_status=False,
)
#: answers after which it is worth trying again at the next publication
_LATER = (408, 425, 429)
#: they write addresses into their lines
_TALKATIVE = ("urllib3.connectionpool", "urllib3.util.retry")

ARRIVED, FAILED, REFUSED, UNKNOWN = "sent", "failed", "refused", "unknown"


class ChannelSettingsError(ValueError):
    """An address makes no sense; the message names where it stands, not what it is."""


@dataclass(frozen=True)
class Reply:
    """What became of a post: `sent`, `failed` (not arrived, try later), `refused` (for good), `unknown` (it may have arrived)."""

    state: str
    says: str


@dataclass(frozen=True)
class Channel:
    """`name` is slack, teams or webhook; the address is never shown."""

    name: str
    url: str = field(repr=False)

    @classmethod
    def of(cls, name: str, url: str, where: str) -> Channel:
        """Raises ChannelSettingsError where `url`, which stands in `where`, is no address."""
        try:
            parsed = parse_url(url.strip())
        except HTTPError:
            parsed = Url()
        if parsed.scheme not in ("https", "http") or not parsed.host:
            raise ChannelSettingsError(f"{where} holds no https:// address (its value is not shown)")
        return cls(name, url.strip())

    def post(self, message: Mapping[str, Any]) -> Reply:
        """Post JSON once, or again where it is known not to have arrived."""
        body = json.dumps(message, ensure_ascii=False).encode()
        try:
            with _silenced():
                response = _pool(self.url).request(
                    *("POST", self.url),
                    body=body,
                    headers={"Content-Type": "application/json; charset=utf-8", "User-Agent": "gpu-net"},
                    redirect=False,
                    preload_content=False,
                )
                said = self._said(response)
        except (HTTPError, OSError) as error:
            return _of_error(error)
        if 200 <= response.status < 300:
            return Reply(ARRIVED, said)
        if response.status in _LATER or response.status >= 500:
            return Reply(FAILED, f"the server said {said}")
        return Reply(REFUSED, f"the server said {said}")

    def _said(self, response: urllib3.BaseHTTPResponse) -> str:
        """Status and the beginning of the answer, without the address in case it is repeated there."""
        try:
            answer = response.read(1000, decode_content=False).decode("utf-8", "replace")
        except (HTTPError, OSError):
            # the status came, which is what counts
            answer = ""
        finally:
            response.close()
        for secret in (self.url, parse_url(self.url).request_uri):
            answer = answer.replace(secret, "") if len(secret) > 1 else answer
        return redact(clean(f"{response.status} {answer}", 200))


def variable_of(name: str) -> str:
    """The environment variable that holds a channel's address."""
    return f"GPU_NET_ALERT_{name.upper()}_URL"


def channels_of_environment() -> dict[str, Channel]:
    """The channels whose address is set; raises ChannelSettingsError."""
    found = {name: os.environ.get(variable_of(name), "").strip() for name in NAMES}
    return {name: Channel.of(name, url, variable_of(name)) for name, url in found.items() if url}


def _pool(url: str) -> urllib3.PoolManager:
    """Through the proxy that the environment names for the address, as other clients go."""
    parsed = parse_url(url)
    proxy = getproxies().get(parsed.scheme or "")
    if proxy and not proxy_bypass(parsed.host or ""):
        return urllib3.ProxyManager(proxy, timeout=TIMEOUT, retries=RETRIES)
    return urllib3.PoolManager(timeout=TIMEOUT, retries=RETRIES)


def _of_error(error: Exception) -> Reply:
    """In words without the address, which urllib3's own hold."""
    reason = error.reason if isinstance(error, MaxRetryError) and error.reason else error
    name = type(reason).__name__
    if isinstance(reason, NewConnectionError | ConnectTimeoutError | SSLError | ProxyError):
        return Reply(FAILED, f"no connection to the server ({name})")
    return Reply(UNKNOWN, f"the connection ended before the server's answer ({name}): it may have arrived")


@contextmanager
def _silenced() -> Iterator[None]:
    def nothing(record: logging.LogRecord) -> bool:
        return False

    loggers = [logging.getLogger(name) for name in _TALKATIVE]
    for logger in loggers:
        logger.addFilter(nothing)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(nothing)

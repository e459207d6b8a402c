"""Ask a Prometheus-compatible API: the one module here that touches the network."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from collectors import http
from collectors.command import SourceFailedError
from collectors.http import AnswerError, TooMuchError
from collectors.prometheus.answers import ApiError, Series, parse_answer, parse_matrix, parse_names, to_milliseconds

TIMEOUT_SECONDS = 130.0
#: one answer's size; more is asked for in parts
ANSWER_LIMIT = 256 << 20
#: a server that is asked for too much says so with these
TOO_MUCH = (408, 413, 422, 504)
HINT = (
    "give the address of a Prometheus-compatible API: http://HOST:9090, Thanos Query :10902, Mimir http://HOST/prometheus, "
    "VictoriaMetrics http://HOST:8428 or http://HOST:8481/select/0/prometheus, "
    "through Grafana https://HOST/api/datasources/proxy/uid/UID"
)
DENIED = "set GPU_NET_PROMETHEUS_TOKEN to a bearer token, or write http://USER:PASSWORD@HOST; --tenant names the tenant"


@dataclass
class Prometheus:
    """One server. What it warned of is kept in `warnings`, each once; `posts` turns False where it refuses POST."""

    url: str
    token: str | None = None
    tenant: str | None = None
    ca_file: Path | None = None
    timeout_seconds: float = TIMEOUT_SECONDS
    warnings: list[str] = field(default_factory=list)
    posts: bool = True

    def __post_init__(self) -> None:
        self.url = base_address(self.url)

    def metric_names(self, matchers: Iterable[str], start_at: datetime, end_at: datetime) -> list[str]:
        """The names of the metrics that have series in the window, as far as the server can narrow them to `matchers`."""
        question = [("match[]", matcher) for matcher in matchers]
        question += [("start", _seconds(to_milliseconds(start_at))), ("end", _seconds(to_milliseconds(end_at)))]
        return parse_names(self._get("/api/v1/label/__name__/values", question), self.shown)

    def label_values(self, label: str, matchers: Iterable[str], start_at: datetime, end_at: datetime) -> list[str]:
        """The values that a label has in the window."""
        question = [("match[]", matcher) for matcher in matchers]
        question += [("start", _seconds(to_milliseconds(start_at))), ("end", _seconds(to_milliseconds(end_at)))]
        return parse_names(self._get(f"/api/v1/label/{label}/values", question), self.shown)

    def samples(self, selector: str, start_ms: int, end_ms: int) -> list[Series]:
        """The raw samples in `[start_ms, end_ms)`, milliseconds since 1970.

        Asked a millisecond before the end, for the length of the window: Prometheus 3 leaves the sample at the range's
        beginning out and Prometheus 2 does not, so what lies before the window is dropped here.

        Raises TooMuchError where less may be answered, ApiError and SourceFailedError where nothing will be.
        """
        question = [("query", f"{selector}[{end_ms - start_ms}ms]"), ("time", _seconds(end_ms - 1))]
        found = parse_matrix(self._post("/api/v1/query", question), self.shown)
        return [part for part in (series.within(start_ms, end_ms) for series in found) if part.points]

    @property
    def shown(self) -> str:
        return http.without_credentials(self.url)

    def _post(self, path: str, question: Sequence[tuple[str, str]]) -> Any:
        if self.posts:
            try:
                return self._ask(path, form=dict(question))
            except AnswerError as error:
                if error.status != 405:
                    raise
                self.posts = False
        return self._get(path, question)

    def _get(self, path: str, question: Sequence[tuple[str, str]]) -> Any:
        return self._ask(path, parameters=dict(question))

    def _ask(self, path: str, **what: Any) -> Any:
        headers = {"Accept": "application/json"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        if self.tenant:
            headers["X-Scope-OrgID"] = self.tenant
        try:
            body = http.get(
                self.url + path,
                headers=headers,
                timeout_seconds=self.timeout_seconds,
                hint=HINT,
                ca_file=self.ca_file,
                limit=ANSWER_LIMIT,
                retries=2,
                **what,
            )
        except AnswerError as error:
            raise _explained(error, self.shown) from None
        answer = parse_answer(body, self.shown)
        self.warnings = list(dict.fromkeys([*self.warnings, *answer.warnings]))
        return answer.data


def base_address(url: str) -> str:
    """The address in front of `/api/v1`, whatever page of the server was copied from a browser."""
    address = url.strip().partition("?")[0].partition("#")[0]
    return re.sub(r"/+(api/v1(/.*)?|graph|query|targets|metrics|classic/.*)?/*$", "", address)


def _explained(error: AnswerError, shown: str) -> SourceFailedError:
    """The refusal with what the server said and what to do about it; a TooMuchError where less may be answered."""
    said = ApiError.said_in(error.text)
    if error.status in (401, 403):
        return SourceFailedError(f"{shown}: access denied ({error.status}{said and f': {said}'}); {DENIED}")
    if error.status in (404, 405):
        return error
    if error.status in TOO_MUCH or (said and re.search(r"time(d )?out|too (many|large)|exceed|limit", said)):
        return TooMuchError(f"{shown}: too much at once ({error.status}{said and f': {said}'})")
    if said:
        return ApiError(f"{shown}: answers {error.status}: {said}")
    return error


def _seconds(milliseconds: int) -> str:
    return f"{milliseconds // 1000}.{milliseconds % 1000:03d}"

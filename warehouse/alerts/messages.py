"""What is told of events: the same words in a mail, in Slack, in Teams and in a webhook's JSON.

Names came as data. Slack gets them as plain text and Teams as text runs, which neither reads for mentions, links or markup; no
message has a link or a picture. A mail is text, and beside it HTML (`page.py`).
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import format_datetime
from hashlib import sha256
from typing import Any

from warehouse.alerts.channels import SLACK, TEAMS
from warehouse.alerts.records import BEGUN, Event
from warehouse.digest.message import POLICY
from warehouse.digest.words import clean, isolated

#: a message names so many events, the others it counts
MOST_EVENTS = 20
LONGEST = 700


@dataclass(frozen=True)
class News:
    """An event that begins or is over (`records.BEGUN`, `OVER`)."""

    event: Event
    what: str

    @property
    def line(self) -> str:
        rule = isolated(clean(self.event.rule))
        says = isolated(clean(self.event.says, LONGEST))
        if self.what == BEGUN:
            return f"{rule}: {says}"
        return f"{rule}: over since {_instant(self.event.ended_at)}. It was: {says}"


def subject(news: Sequence[News]) -> str:
    """What a mail is called, and the first line of a message."""
    begun = sum(one.what == BEGUN for one in news)
    over = len(news) - begun
    counts = [f"{count} {word}" for count, word in ((begun, "alert" if begun == 1 else "alerts"), (over, "over")) if count]
    first = isolated(clean(news[0].event.rule))
    return f"GPU Net: {', '.join(counts)} · {first}{f' and {len(news) - 1} more' if len(news) > 1 else ''}"


def lines(news: Sequence[News]) -> list[str]:
    """One line per event, and how many more there are."""
    return [*(one.line for one in news[:MOST_EVENTS]), *([more] if (more := _more(news)) else [])]


def _more(news: Sequence[News]) -> str:
    """How many events a message leaves out, and where they are; empty where it leaves none out."""
    return f"and {len(news) - MOST_EVENTS} more: python -m warehouse alerts" if len(news) > MOST_EVENTS else ""


def foot(news: Sequence[News]) -> str:
    """Which numbers these are, and where the rules stand."""
    version = next((clean(one.event.publication_id) for one in news if one.event.publication_id), None)
    figures = f"Figures of publication {version}. " if version else ""
    return f"{figures}What fires now: python -m warehouse alerts. The rules: config/alert_rules.csv."


def payload(name: str, news: Sequence[News]) -> Mapping[str, Any]:
    """The JSON that a channel of this name takes."""
    if name == SLACK:
        return _slack(news)
    if name == TEAMS:
        return _teams(news)
    return _webhook(news)


def _slack(news: Sequence[News]) -> Mapping[str, Any]:
    """Block kit; `text` is what a notification shows, with Slack's three characters escaped."""
    texts = [subject(news), *lines(news), foot(news)]
    blocks = [{"type": "section", "text": {"type": "plain_text", "text": text[:3000], "emoji": False}} for text in texts]
    return {"text": html.escape(subject(news), quote=False), "blocks": blocks, "unfurl_links": False, "unfurl_media": False}


def _teams(news: Sequence[News]) -> Mapping[str, Any]:
    """An adaptive card, as a workflow's webhook takes it; text blocks would read Markdown, text runs do not."""

    def run(text: str, **more: Any) -> Mapping[str, Any]:
        return {"type": "RichTextBlock", "inlines": [{"type": "TextRun", "text": text, **more}]}

    body = [run(subject(news), weight="Bolder"), *(run(line) for line in lines(news)), run(foot(news), isSubtle=True)]
    card = {"type": "AdaptiveCard", "version": "1.4", "body": body}
    content_type = "application/vnd.microsoft.card.adaptive"
    return {"type": "message", "attachments": [{"contentType": content_type, "contentUrl": None, "content": card}]}


def _webhook(news: Sequence[News]) -> Mapping[str, Any]:
    """Text and the events as data; `id` is the same for the same message, so that a second one can be dropped."""
    return {
        "source": "gpu-net",
        "id": identity(news),
        "text": "\n".join([subject(news), *lines(news), foot(news)]),
        "events": [
            {
                "id": one.event.number,
                "what": one.what,
                "rule": one.event.rule,
                "kind": one.event.kind,
                "subject": one.event.subject,
                "period": one.event.period or None,
                "says": one.event.says,
                "value": one.event.value,
                "limit": one.event.limit,
                "unit": one.event.unit,
                "currency": one.event.currency or None,
                "team": one.event.team,
                "publication_id": one.event.publication_id,
                "since": one.event.since,
                "ended_at": one.event.ended_at or None,
            }
            for one in news
        ],
    }


def identity(news: Sequence[News]) -> str:
    """The same for the same events and episodes."""
    return sha256("\0".join(sorted(f"{one.event.number} {one.what}" for one in news)).encode()).hexdigest()[:24]


def compose(news: Sequence[News], sender: Address, recipient: str, at: datetime) -> EmailMessage:
    """The mail: text, and HTML that says the same; `at` is naive UTC."""
    message = EmailMessage(policy=POLICY)
    message["Subject"] = subject(news)
    message["From"] = sender
    message["To"] = Address(addr_spec=recipient)
    message["Date"] = format_datetime(at.replace(tzinfo=UTC))
    key = sha256(recipient.lower().encode()).hexdigest()[:8]
    message["Message-ID"] = f"<gpu-net.alert.{identity(news)}.{key}@{sender.domain}>"
    message["Auto-Submitted"] = "auto-generated"
    text = "\n\n".join([*(f"- {line}" for line in lines(news)), "--\n" + foot(news)])
    message.set_content(text + "\n", cte="quoted-printable")
    message.add_alternative(_html(news), subtype="html", cte="quoted-printable")
    return message


def _html(news: Sequence[News]) -> str:
    # Jinja and the inliner are loaded where they work: most runs tell nobody anything
    from warehouse.alerts.page import Entry, render

    shown = news[:MOST_EVENTS]
    entries = [
        Entry(
            rule=clean(one.event.rule),
            when=f"since {_instant(one.event.since if one.what == BEGUN else one.event.ended_at)}",
            says=clean(one.event.says, LONGEST),
            is_over=one.what != BEGUN,
        )
        for one in shown
    ]
    begun, over = ([entry for entry in entries if entry.is_over == is_over] for is_over in (False, True))
    return render(subject(news), begun, over, _more(news), foot(news))


def _instant(text: str) -> str:
    return f"{text[:10]} {text[11:16]} UTC"

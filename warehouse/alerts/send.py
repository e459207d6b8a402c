"""Tell what is new: one message per channel and run, and each event in one of them, at most once.

The intent of every event in a message is on the disk before it leaves. What is known not to have arrived is tried again at the
next publication, while the event still fires; what may have arrived is not, unless it is asked for (`resend`).
"""

from __future__ import annotations

import smtplib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from warehouse.alerts import channels as posts
from warehouse.alerts.channels import Channel, Reply, variable_of
from warehouse.alerts.messages import News, compose, payload
from warehouse.alerts.records import BEGUN, OVER, REFUSED, SENDING, SENT, Delivery, Event, write
from warehouse.digest.handing_over import Connection, NotSentError, UnknownError, hand_over, say_error
from warehouse.digest.records import at_text
from warehouse.digest.server import MailServer
from warehouse.home import Home

RESEND = "`python -m warehouse alerts --send --resend` sends it all the same"


@dataclass(frozen=True)
class Means:
    """What there is to tell with: channels by name, and a mail server (None: no mail)."""

    channels: Mapping[str, Channel]
    server: MailServer | None = None


@dataclass(frozen=True)
class Message:
    """What became of the message to a channel or address."""

    to: str
    news: Sequence[News]
    reply: Reply

    @property
    def is_trouble(self) -> bool:
        return self.reply.state != posts.ARRIVED

    @property
    def line(self) -> str:
        """For the terminal or a log."""
        count = f"{len(self.news)} event{'' if len(self.news) == 1 else 's'}"
        return f"{self.to}, {count}: {self.reply.state}: {self.reply.says}"


def tell(home: Home, events: Sequence[Event], means: Means, now: datetime, *, resend: bool = False) -> list[Message]:
    """Tell every channel what it has not been told yet; one result per message. `now` is naive UTC.

    For the holder of the lock `alerts` only. A channel that fails does not keep the others from theirs.
    """
    current = {event.key: event for event in events}
    messages = []
    addressees = dict.fromkeys(name for event in events for name in _addressees(event, means))
    connection = Connection(means.server) if means.server else None
    try:
        for to in addressees:
            news = _news(current.values(), to, means, resend=resend)
            if not news:
                continue
            if problem := _why_not(to, means):
                messages.append(Message(to, news, Reply(posts.FAILED, problem)))
                continue
            before = [one.event.delivery(to, one.what) for one in news]
            for one in news:
                _record(home, current, one, to, Delivery(SENDING, at_text(now)))
            reply = _mail(connection, news, to, now) if "@" in to else means.channels[to].post(payload(to, news))
            for one, earlier in zip(news, before, strict=True):
                _record(home, current, one, to, _after(reply, earlier, now))
            messages.append(Message(to, news, reply))
    finally:
        if connection:
            connection.__exit__(None, None, None)
    return messages


def _addressees(event: Event, means: Means) -> Sequence[str]:
    """Channels and addresses: those that the rule names, else every channel that is set up."""
    return event.notify or tuple(means.channels)


def _why_not(to: str, means: Means) -> str:
    """What is missing to tell an addressee; empty where nothing is."""
    if "@" in to:
        return "" if means.server else "no mail server is set up: GPU_NET_SMTP_HOST, or the connection gpu_net_smtp"
    return "" if to in means.channels else f"the channel is not set up: {variable_of(to)}, or the connection gpu_net_{to}"


def _news(events: Iterable[Event], to: str, means: Means, *, resend: bool) -> list[News]:
    """What an addressee has not been told: what fires, and the end of what it was told of where the rule asks for it."""
    news = []
    for event in events:
        if to not in _addressees(event, means):
            continue
        begun, over = event.delivery(to, BEGUN), event.delivery(to, OVER)
        if event.is_firing and _is_due(begun, resend=resend):
            news.append(News(event, BEGUN))
        was_told = begun is not None and begun.state in (SENT, SENDING)
        if not event.is_firing and not event.is_past and event.tells_end and was_told and _is_due(over, resend=False):
            news.append(News(event, OVER))
    return news


def _is_due(delivery: Delivery | None, *, resend: bool) -> bool:
    return delivery is None or resend


def _record(home: Home, current: dict[str, Event], news: News, to: str, delivery: Delivery | None) -> None:
    event = current[news.event.key].told(to, news.what, delivery)
    write(home, event)
    current[event.key] = event


def _after(reply: Reply, before: Delivery | None, now: datetime) -> Delivery | None:
    """What is on record after an answer; None for what is known not to have arrived and is due again."""
    at = at_text(now)
    if reply.state == posts.ARRIVED:
        return Delivery(SENT, at, reply.says)
    if reply.state == posts.UNKNOWN:
        return Delivery(SENDING, at, reply.says)
    # an earlier message arrived, or may have: that stays on record
    if before is not None:
        return before
    return Delivery(REFUSED, at, reply.says) if reply.state == posts.REFUSED else None


def _mail(connection: Connection | None, news: Sequence[News], recipient: str, now: datetime) -> Reply:
    assert connection is not None, "told before that there is no server"
    try:
        client = connection.open()
    except (smtplib.SMTPException, OSError) as error:
        return Reply(posts.FAILED, f"no connection to the mail server: {say_error(error)}")
    message = compose(news, connection.server.sender, recipient, now)
    try:
        said = hand_over(client, connection.server.sender.addr_spec, recipient, bytes(message))
    except NotSentError as error:
        connection.reset()
        return Reply(posts.REFUSED if error.is_final else posts.FAILED, f"the server said {error}")
    except UnknownError as error:
        connection.drop(error)
        return Reply(posts.UNKNOWN, f"the connection ended before the server's answer ({error}): it may have arrived")
    connection.worked()
    return Reply(posts.ARRIVED, said)

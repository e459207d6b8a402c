"""Hand a day's mails to a server, each at most once.

Before a mail leaves, its intent is on the disk; when the server has said yes, that is. What the server refused before it
had the whole mail did not leave. Where the connection breaks between the end of the mail and the server's answer, nobody can
tell: the intent stays, and the mail is not sent again unless it is asked for (`resend`).
"""

from __future__ import annotations

import smtplib
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import date, datetime

from warehouse.atomic import alone
from warehouse.digest import records
from warehouse.digest.editions import Recipient
from warehouse.digest.message import compose
from warehouse.digest.records import REFUSED, SENDING, SENT, Record, at_text
from warehouse.digest.render import Digest
from warehouse.digest.server import MailServer
from warehouse.digest.words import clean
from warehouse.home import Home
from warehouse.values import redact

#: besides sent and refused: not sent, can be tried again; may have arrived; and what an earlier call left behind
FAILED, UNKNOWN = "failed", "unknown"
ALREADY, LEFT_OPEN, GIVEN_UP = "already sent", "left open", "refused before"
#: that many connections in a row that break are the server's trouble, not the mails'
MOST_BREAKS = 2
_RESEND = "`python -m warehouse digest --send --resend` sends it all the same"


@dataclass(frozen=True)
class Letter:
    """A digest for a recipient."""

    recipient: Recipient
    digest: Digest

    @property
    def day(self) -> date:
        return self.digest.mail_date


@dataclass(frozen=True)
class Delivery:
    """What became of a letter; `says` is for people."""

    letter: Letter
    state: str
    says: str

    @property
    def is_trouble(self) -> bool:
        """Whether this call met a problem; what an earlier one met was told then."""
        return self.state in (FAILED, REFUSED, UNKNOWN)

    @property
    def line(self) -> str:
        """For the terminal or a log."""
        recipient = self.letter.recipient
        return f"{recipient.address} ({clean(str(recipient.edition))}), mail of {self.letter.day}: {self.state}: {self.says}"


class _NotSentError(Exception):
    """The mail did not leave; `is_final` where trying again would not help."""

    def __init__(self, code: int, reply: str) -> None:
        super().__init__(f"{code} {reply}")
        self.is_final = 500 <= code < 600


class _UnknownError(Exception):
    """The connection broke when the whole mail was on its way."""


def deliver(home: Home, letters: Sequence[Letter], server: MailServer, now: datetime, *, resend: bool = False) -> list[Delivery]:
    """Send what was not sent yet; one result per letter. `now` is naive UTC. Raises BusyError while another process sends.

    A server that cannot be reached fails the letters that are left; one that refuses a recipient does not keep the others
    from theirs.
    """
    home.create()
    deliveries = []
    with alone(home.digests, "send"):
        connection = _Connection(server)
        with connection:
            for letter in letters:
                found = records.read(home, letter.day, letter.recipient)
                known = None if resend or found is None else _known(letter, found)
                deliveries.append(known or _deliver_one(home, letter, found, connection, now))
    return deliveries


def _known(letter: Letter, found: Record) -> Delivery | None:
    if found.state == SENT:
        return Delivery(letter, ALREADY, f"sent at {found.at}")
    if found.state == REFUSED:
        return Delivery(letter, GIVEN_UP, f"not tried again: at {found.at} the server said {found.reply}; {_RESEND}")
    says = f"not sent again: it was on its way at {found.at} and the server's answer is not known; {_RESEND}"
    return Delivery(letter, LEFT_OPEN, says)


def _deliver_one(home: Home, letter: Letter, found: Record | None, connection: _Connection, now: datetime) -> Delivery:
    try:
        client = connection.open()
    except (smtplib.SMTPException, OSError) as error:
        return Delivery(letter, FAILED, f"no connection to the mail server: {_words(error)}")
    # what may have arrived keeps its Message-ID, so that mail clients can drop a second one
    copy = 1 if found is None else found.copy + (found.state == SENT)
    identity = records.message_id(letter.day, letter.recipient, copy, connection.server.sender.domain)
    message = compose(letter.digest, connection.server.sender, letter.recipient.address, identity, now)
    record = Record(
        *(letter.recipient.address, str(letter.recipient.edition), SENDING, identity, copy, at_text(now)),
        publication_id=letter.digest.publication_id,
    )
    records.write(home, letter.day, letter.recipient, record)
    try:
        reply = _hand_over(client, connection.server.sender.addr_spec, letter.recipient.address, bytes(message))
    except _NotSentError as error:
        connection.reset()
        if found is not None:
            # an earlier copy was sent, or may have been: that stays on record
            records.write(home, letter.day, letter.recipient, found)
        elif error.is_final:
            records.write(home, letter.day, letter.recipient, replace(record, state=REFUSED, reply=str(error)))
        else:
            records.remove(home, letter.day, letter.recipient)
        return Delivery(letter, REFUSED if error.is_final else FAILED, f"the server said {error}")
    except _UnknownError as error:
        connection.drop(error)
        return Delivery(
            letter, UNKNOWN, f"the connection ended before the server's answer ({error}): it may have arrived; {_RESEND}"
        )
    connection.worked()
    records.write(home, letter.day, letter.recipient, replace(record, state=SENT, reply=reply))
    return Delivery(letter, SENT, reply)


def _hand_over(client: smtplib.SMTP, sender: str, recipient: str, message: bytes) -> str:
    """One mail in the steps of the protocol, because it matters which of them fails; the server's answer."""
    try:
        client.ehlo_or_helo_if_needed()
        _expect(client.mail(sender), 250)
        _expect(client.rcpt(recipient), 250, 251)
        _expect(client.docmd("DATA"), 354)
    except (smtplib.SMTPException, OSError) as error:
        raise _NotSentError(421, _words(error)) from error
    try:
        client.send(smtplib.quotedata(message.decode("ascii")) + ".\r\n")
        answer = client.getreply()
    except (smtplib.SMTPException, OSError) as error:
        raise _UnknownError(_words(error)) from error
    return _expect(answer, 250)


def _expect(answer: tuple[int, bytes], *codes: int) -> str:
    code, reply = answer
    said = redact(clean(reply.decode("utf-8", "replace"), 200))
    if code not in codes:
        raise _NotSentError(code, said)
    return f"{code} {said}"


def _words(error: Exception) -> str:
    """An error without what may be secret in it."""
    if isinstance(error, smtplib.SMTPResponseException):
        reply = error.smtp_error.decode("utf-8", "replace") if isinstance(error.smtp_error, bytes) else str(error.smtp_error)
        return f"{error.smtp_code} {redact(clean(reply, 200))}"
    if isinstance(error, smtplib.SMTPNotSupportedError):
        return f"{error}; GPU_NET_SMTP_STARTTLS=no for a server on a network that you trust"
    return redact(clean(f"{type(error).__name__}: {error}", 200))


class _Connection:
    """The connection, opened when the first letter needs it and again after it was dropped; after a failure to open, never."""

    def __init__(self, server: MailServer) -> None:
        self.server = server
        self._stack = ExitStack()
        self._client: smtplib.SMTP | None = None
        self._failure: Exception | None = None
        self._breaks = 0

    def __enter__(self) -> _Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def open(self) -> smtplib.SMTP:
        if self._failure is not None:
            raise self._failure
        if self._client is None:
            try:
                self._client = self._stack.enter_context(self.server.connect())
            except (smtplib.SMTPException, OSError) as error:
                self._failure = error
                raise
        return self._client

    def worked(self) -> None:
        self._breaks = 0

    def reset(self) -> None:
        """Make ready for another mail after one was refused; a server that has hung up is asked anew."""
        assert self._client is not None
        try:
            self._client.rset()
        except (smtplib.SMTPException, OSError) as error:
            self.drop(error)

    def drop(self, error: Exception) -> None:
        """Give up a connection that broke, and the server if that happens again and again."""
        self._breaks += 1
        if self._breaks >= MOST_BREAKS:
            self._failure = ConnectionAbortedError(f"given up after {self._breaks} connections that broke, the last with {error}")
        if self._client is not None:
            # closed first: a goodbye to a server that does not answer would wait for it
            self._client.close()
        self._client = None
        self._stack.close()

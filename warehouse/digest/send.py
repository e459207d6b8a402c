"""Hand a day's mails to a server, each at most once.

Before a mail leaves, its intent is on the disk; when the server has said yes, that is. What the server refused before it
had the whole mail did not leave. Where the connection breaks between the end of the mail and the server's answer, nobody can
tell: the intent stays, and the mail is not sent again unless it is asked for (`resend`).
"""

from __future__ import annotations

import smtplib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime

from warehouse.atomic import alone
from warehouse.digest import records
from warehouse.digest.editions import Recipient
from warehouse.digest.handing_over import Connection, NotSentError, UnknownError, hand_over, say_error
from warehouse.digest.message import compose
from warehouse.digest.records import REFUSED, SENDING, SENT, Record, at_text
from warehouse.digest.render import Digest
from warehouse.digest.server import MailServer
from warehouse.digest.words import clean
from warehouse.home import Home

#: besides sent and refused: not sent, can be tried again; may have arrived; and what an earlier call left behind
FAILED, UNKNOWN = "failed", "unknown"
ALREADY, LEFT_OPEN, GIVEN_UP = "already sent", "left open", "refused before"
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


def deliver(home: Home, letters: Sequence[Letter], server: MailServer, now: datetime, *, resend: bool = False) -> list[Delivery]:
    """Send what was not sent yet; one result per letter. `now` is naive UTC. Raises BusyError while another process sends.

    A server that cannot be reached fails the letters that are left; one that refuses a recipient does not keep the others
    from theirs.
    """
    home.create()
    deliveries = []
    with alone(home.digests, "send"):
        connection = Connection(server)
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


def _deliver_one(home: Home, letter: Letter, found: Record | None, connection: Connection, now: datetime) -> Delivery:
    try:
        client = connection.open()
    except (smtplib.SMTPException, OSError) as error:
        return Delivery(letter, FAILED, f"no connection to the mail server: {say_error(error)}")
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
        reply = hand_over(client, connection.server.sender.addr_spec, letter.recipient.address, bytes(message))
    except NotSentError as error:
        connection.reset()
        if found is not None:
            # an earlier copy was sent, or may have been: that stays on record
            records.write(home, letter.day, letter.recipient, found)
        elif error.is_final:
            records.write(home, letter.day, letter.recipient, replace(record, state=REFUSED, reply=str(error)))
        else:
            records.remove(home, letter.day, letter.recipient)
        return Delivery(letter, REFUSED if error.is_final else FAILED, f"the server said {error}")
    except UnknownError as error:
        connection.drop(error)
        return Delivery(
            letter, UNKNOWN, f"the connection ended before the server's answer ({error}): it may have arrived; {_RESEND}"
        )
    connection.worked()
    records.write(home, letter.day, letter.recipient, replace(record, state=SENT, reply=reply))
    return Delivery(letter, SENT, reply)

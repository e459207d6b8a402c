"""Hand one mail to a server in the steps of the protocol, so that it is known whether it left."""

from __future__ import annotations

import smtplib
from contextlib import ExitStack

from warehouse.digest.server import MailServer
from warehouse.digest.words import clean
from warehouse.landing.values import redact

#: that many connections in a row that break are the server's trouble, not the mails'
MOST_BREAKS = 2


class NotSentError(Exception):
    """The mail did not leave; `is_final` where trying again would not help."""

    def __init__(self, code: int, reply: str) -> None:
        super().__init__(f"{code} {reply}")
        self.is_final = 500 <= code < 600


class UnknownError(Exception):
    """The connection broke when the whole mail was on its way."""


def hand_over(client: smtplib.SMTP, sender: str, recipient: str, message: bytes) -> str:
    """One mail in the steps of the protocol, because it matters which of them fails; the server's answer."""
    try:
        client.ehlo_or_helo_if_needed()
        _expect(client.mail(sender), 250)
        _expect(client.rcpt(recipient), 250, 251)
        _expect(client.docmd("DATA"), 354)
    except (smtplib.SMTPException, OSError) as error:
        raise NotSentError(421, say_error(error)) from error
    try:
        client.send(smtplib.quotedata(message.decode("ascii")) + ".\r\n")
        answer = client.getreply()
    except (smtplib.SMTPException, OSError) as error:
        raise UnknownError(say_error(error)) from error
    return _expect(answer, 250)


def _expect(answer: tuple[int, bytes], *codes: int) -> str:
    code, reply = answer
    said = redact(clean(reply.decode("utf-8", "replace"), 200))
    if code not in codes:
        raise NotSentError(code, said)
    return f"{code} {said}"


def say_error(error: Exception) -> str:
    """An error without what may be secret in it."""
    if isinstance(error, smtplib.SMTPResponseException):
        reply = error.smtp_error.decode("utf-8", "replace") if isinstance(error.smtp_error, bytes) else str(error.smtp_error)
        return f"{error.smtp_code} {redact(clean(reply, 200))}"
    if isinstance(error, smtplib.SMTPNotSupportedError):
        return f"{error}; GPU_NET_SMTP_STARTTLS=no for a server on a network that you trust"
    return redact(clean(f"{type(error).__name__}: {error}", 200))


class Connection:
    """The connection, opened when the first letter needs it and again after it was dropped; after a failure to open, never."""

    def __init__(self, server: MailServer) -> None:
        self.server = server
        self._stack = ExitStack()
        self._client: smtplib.SMTP | None = None
        self._failure: Exception | None = None
        self._breaks = 0

    def __enter__(self) -> Connection:
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

"""The mail server: what `GPU_NET_SMTP_…` names, or any other that opens a connection (Airflow's, in a DAG)."""

from __future__ import annotations

import os
import smtplib
import ssl
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from email.errors import MessageError
from email.headerregistry import Address
from email.utils import parseaddr

TIMEOUT_SECONDS = 30.0
_TLS_PORT, _SUBMISSION_PORT = 465, 587
_NO, _YES = ("no", "false", "0", "off"), ("yes", "true", "1", "on", "")


class ServerSettingsError(ValueError):
    """A setting is missing or makes no sense; the message names the variable."""


@dataclass(frozen=True)
class MailServer:
    """`connect` opens a connection that is logged in; `sender` is who mails come from."""

    sender: Address
    connect: Callable[[], AbstractContextManager[smtplib.SMTP]]


@dataclass(frozen=True)
class _Settings:
    host: str
    port: int
    starttls: bool
    user: str
    password: str = field(repr=False)
    timeout: float


def is_set() -> bool:
    """Whether the environment names a mail server."""
    return bool(_variable("HOST"))


def parse_sender(text: str, where: str) -> Address:
    """`name@example.com` or `Name <name@example.com>`; raises ServerSettingsError."""
    name, address = parseaddr(text)
    try:
        sender = Address(name, addr_spec=address)
    except (MessageError, ValueError, IndexError):
        sender = Address()
    if not sender.username or not sender.domain or not address.isascii():
        raise ServerSettingsError(f"{where}: {text!r} is no mail address; write `GPU Net <gpu-net@example.com>`")
    return sender


def from_environment() -> MailServer:
    """The server of `GPU_NET_SMTP_HOST`, `_PORT`, `_USER`, `_PASSWORD`, `_FROM`, `_STARTTLS`, `_TIMEOUT`.

    Port 587 with STARTTLS unless told otherwise; port 465 is TLS from the start. Certificates are verified. Raises
    ServerSettingsError.
    """
    host = _variable("HOST")
    if not host:
        raise ServerSettingsError("GPU_NET_SMTP_HOST names no mail server")
    settings = _Settings(
        host=host,
        port=int(_number("PORT", _SUBMISSION_PORT)),
        starttls=_is_on("STARTTLS"),
        user=_variable("USER"),
        password=os.environ.get("GPU_NET_SMTP_PASSWORD", ""),
        timeout=_number("TIMEOUT", TIMEOUT_SECONDS),
    )
    sender = parse_sender(_variable("FROM") or settings.user, "GPU_NET_SMTP_FROM")
    return MailServer(sender, lambda: _connect(settings))


@contextmanager
def _connect(settings: _Settings) -> Iterator[smtplib.SMTP]:
    """A connection that has said hello, is encrypted if it shall be, and logged in if there is a user."""
    context = ssl.create_default_context()
    client: smtplib.SMTP
    if settings.port == _TLS_PORT:
        client = smtplib.SMTP_SSL(settings.host, settings.port, timeout=settings.timeout, context=context)
    else:
        client = smtplib.SMTP(settings.host, settings.port, timeout=settings.timeout)
    try:
        if settings.starttls and settings.port != _TLS_PORT:
            client.starttls(context=context)
        if settings.user:
            client.login(settings.user, settings.password)
        yield client
        with suppress(smtplib.SMTPException, OSError):
            client.quit()
    finally:
        client.close()


def _variable(name: str) -> str:
    return os.environ.get(f"GPU_NET_SMTP_{name}", "").strip()


def _number(name: str, default: float) -> float:
    text = _variable(name)
    try:
        number = float(text or default)
    except ValueError:
        number = 0.0
    if not 0 < number < 65536:
        raise ServerSettingsError(f"GPU_NET_SMTP_{name}: {text!r} is no number between 1 and 65535")
    return number


def _is_on(name: str) -> bool:
    text = _variable(name).lower()
    if text not in (*_NO, *_YES):
        raise ServerSettingsError(f"GPU_NET_SMTP_{name}: {text!r} is neither yes nor no")
    return text not in _NO

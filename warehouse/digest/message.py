"""A digest as a mail to one recipient, and as files to look at."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from email import policy
from email.headerregistry import Address
from email.message import EmailMessage, MIMEPart
from email.utils import format_datetime
from pathlib import Path

from warehouse.atomic import replaced
from warehouse.digest.render import Digest

#: only ASCII on the wire, so that every server takes it; headers end their lines as SMTP wants it
POLICY = policy.SMTP.clone(cte_type="7bit")
#: the kinds of file that `--to-file` writes, by their ending
KINDS = (".html", ".txt", ".eml")


def compose(digest: Digest, sender: Address, recipient: str, message_id: str, at: datetime) -> EmailMessage:
    """The mail: text, and HTML with its pictures inside. `at` is naive UTC.

    The header objects refuse line breaks and control characters, so that nothing that came as data becomes a header.
    """
    message = EmailMessage(policy=POLICY)
    message["Subject"] = digest.subject
    message["From"] = sender
    message["To"] = Address(addr_spec=recipient)
    message["Date"] = format_datetime(at.replace(tzinfo=UTC))
    message["Message-ID"] = message_id
    # no out-of-office answers
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(digest.text, cte="quoted-printable")
    message.add_alternative(digest.html, subtype="html", cte="quoted-printable")
    html = message.get_payload()[1]  # type: ignore[index]
    assert isinstance(html, MIMEPart)
    for name, png in digest.pictures.items():
        html.add_related(png, "image", "png", cid=f"<{name}>", disposition="inline", filename=f"{name}.png")
    return message


def write_file(digest: Digest, path: Path) -> None:
    """Write the digest as the ending of `path` says: a page with its pictures inside, the text, or the whole mail."""
    with replaced(path) as temporary:
        temporary.write_bytes(_content(digest, path.suffix))


def _content(digest: Digest, ending: str) -> bytes:
    if ending == ".html":
        return digest.html_alone.encode()
    if ending == ".txt":
        return digest.text.encode()
    nobody = Address("GPU Net", addr_spec="gpu-net@example.com")
    at = datetime.combine(digest.usage_date, datetime.min.time())
    return bytes(compose(digest, nobody, "you@example.com", "<preview@example.com>", at))


def write_files(digest: Digest, folder: Path) -> Iterator[Path]:
    """Write a digest in every form, and its pictures, into `folder`; the paths written."""
    for ending in KINDS:
        path = folder / f"{digest.edition.file_name}{ending}"
        write_file(digest, path)
        yield path
    for name, png in digest.pictures.items():
        path = folder / f"{digest.edition.file_name}.{name}.png"
        with replaced(path) as temporary:
            temporary.write_bytes(png)
        yield path

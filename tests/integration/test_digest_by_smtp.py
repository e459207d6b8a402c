"""Mails to a real SMTP server: that takes them, refuses them, is slow, hangs up, or sees the sender die."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from email import message_from_bytes, policy
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, Session
from click.testing import CliRunner, Result

from tests.conftest import PROJECT_ROOT, clean_environment
from tests.unit.warehouse.alerts.watched_fleet import rule
from tests.unit.warehouse.digest.small_fleet import hold, publish
from warehouse.__main__ import main
from warehouse.digest.editions import recipients_path
from warehouse.home import Home

pytestmark = pytest.mark.integration

Answer = Callable[[str], str]
FIRST = "a@example.com,fleet"


@dataclass
class Mailbox:
    """An aiosmtpd handler: keeps what it took, and answers as the test says."""

    received: list[tuple[str, bytes]] = field(default_factory=list)
    on_recipient: Answer = lambda address: "250 OK"
    on_mail: Answer = lambda address: "250 OK"
    seconds_to_answer: float = 0.0

    async def handle_RCPT(self, server: SMTP, session: Session, envelope: Envelope, address: str, options: Any) -> str:  # noqa: N802
        answer = self.on_recipient(address)
        if answer.startswith("250"):
            envelope.rcpt_tos.append(address)
        return answer

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        import asyncio

        (address,) = envelope.rcpt_tos
        answer = self.on_mail(address)
        if answer.startswith("250"):
            assert isinstance(envelope.content, bytes)
            self.received.append((address, envelope.content))
        await asyncio.sleep(self.seconds_to_answer)
        return answer

    @property
    def recipients(self) -> list[str]:
        return [address for address, _ in self.received]


@pytest.fixture
def mailbox() -> Iterator[tuple[Mailbox, Controller]]:
    box = Mailbox()
    controller = Controller(box, hostname="127.0.0.1", port=_free_port(), ready_timeout=30)
    controller.start()
    yield box, controller
    controller.stop()


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    return port


@dataclass
class Sender:
    """`python -m warehouse digest …` in a home of its own with a published day."""

    home: Home
    settings: dict[str, str]

    def recipients(self, *rows: str) -> None:
        recipients_path(self.home).write_text("\n".join(["recipient,edition", *rows]) + "\n")

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "warehouse", *arguments],
            cwd=PROJECT_ROOT,
            env=clean_environment(self.home.root) | self.settings,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str) -> Result:
        """The same in this process, which is quicker."""
        result = CliRunner().invoke(main, arguments, env=clean_environment(self.home.root) | self.settings)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result

    def send(self, *arguments: str) -> Result:
        return self.run("digest", "--send", *arguments)

    def records(self) -> list[dict[str, Any]]:
        files = sorted(self.home.digests.glob("*/sent/*.json"))
        return sorted((json.loads(file.read_text()) for file in files), key=lambda record: record["recipient"])


@pytest.fixture
def sender(tmp_path: Path, mailbox: tuple[Mailbox, Controller]) -> Sender:
    root = tmp_path / "home"
    home = Home(root, root / "raw").create()
    publish(home)
    settings = {
        "GPU_NET_SMTP_HOST": "127.0.0.1",
        "GPU_NET_SMTP_PORT": str(mailbox[1].port),
        "GPU_NET_SMTP_FROM": "GPU Net <gpu-net@example.com>",
        "GPU_NET_SMTP_STARTTLS": "no",
        "GPU_NET_SMTP_TIMEOUT": "5",
    }
    sender = Sender(home, settings)
    sender.recipients(FIRST)
    return sender


def test_everyone_gets_their_edition_once_however_often_it_is_sent(sender: Sender, mailbox: tuple[Mailbox, Controller]) -> None:
    box = mailbox[0]
    sender.recipients(FIRST, "b@example.com,team:apps", "a@example.com,team:research")
    first, second = sender.send(), sender.send()
    assert (first.exit_code, second.exit_code) == (0, 0), first.stderr + second.stderr
    assert box.recipients == ["a@example.com", "b@example.com", "a@example.com"]
    assert second.stdout.count("already sent") == 3
    mails = [message_from_bytes(content, policy=policy.default) for _, content in box.received]
    assert [mail["Subject"].split(":")[0] for mail in mails[1:]] == ["team apps", "team research"]
    assert mails[0]["Subject"] == "GPU Net 50.0% (+10.0 points), 16.00 USD lost · 2026-11-09"
    assert [mail["To"] for mail in mails] == box.recipients
    assert len({mail["Message-ID"] for mail in mails}) == 3
    assert all(mail["Message-ID"].startswith("<gpu-net.2026-11-09.") for mail in mails)


def test_resending_by_hand_is_another_mail(sender: Sender, mailbox: tuple[Mailbox, Controller]) -> None:
    sender.send()
    assert sender.send("--resend").exit_code == 0
    first, second = [message_from_bytes(content)["Message-ID"] for _, content in mailbox[0].received]
    assert second == first.replace("@", ".2@")
    assert sender.records()[0]["copy"] == 2
    assert sender.records()[0]["publication_id"] == "v000007", "the next mail is compared with it"


def test_a_refused_recipient_is_told_and_the_others_get_theirs(sender: Sender, mailbox: tuple[Mailbox, Controller]) -> None:
    box = mailbox[0]
    box.on_recipient = lambda address: "550 no such user" if address.startswith("b@") else "250 OK"
    sender.recipients(FIRST, "b@example.com,fleet", "c@example.com,fleet")
    done = sender.send()
    assert done.exit_code == 1
    assert box.recipients == ["a@example.com", "c@example.com"]
    assert "b@example.com (fleet), mail of 2026-11-09: refused: the server said 550 no such user" in done.stderr
    again = sender.send()
    assert again.exit_code == 0, "it was told once"
    assert "not tried again" in again.stdout
    box.on_recipient = lambda address: "250 OK"
    assert sender.send("--resend").exit_code == 0
    assert box.recipients.count("b@example.com") == 1


def test_what_a_server_cannot_do_now_is_done_later(sender: Sender, mailbox: tuple[Mailbox, Controller]) -> None:
    box = mailbox[0]
    box.on_mail = lambda address: "451 try again later"
    done = sender.send()
    assert done.exit_code == 1
    assert "failed: the server said 451 try again later" in done.stderr
    assert sender.records() == [], "it is known not to have left"
    box.on_mail = lambda address: "250 OK"
    assert sender.send().exit_code == 0
    assert box.recipients == ["a@example.com"]


def test_a_server_that_hangs_up_after_a_refusal_is_asked_anew(sender: Sender, mailbox: tuple[Mailbox, Controller]) -> None:
    box = mailbox[0]
    box.on_recipient = lambda address: "421 closing" if address.startswith("a@") else "250 OK"
    sender.recipients(FIRST, "b@example.com,fleet")
    assert sender.send().exit_code == 1
    assert box.recipients == ["b@example.com"]


def test_a_server_that_is_not_there_fails_and_nothing_is_recorded(sender: Sender) -> None:
    sender.settings["GPU_NET_SMTP_PORT"] = str(_free_port())
    done = sender.send()
    assert done.exit_code == 1
    assert "failed: no connection to the mail server: ConnectionRefusedError" in done.stderr
    assert "Traceback" not in done.stderr
    assert sender.records() == []


def test_an_answer_that_does_not_come_leaves_the_mail_open_and_it_is_not_sent_again(
    sender: Sender, mailbox: tuple[Mailbox, Controller]
) -> None:
    box = mailbox[0]
    box.seconds_to_answer = 20.0
    sender.settings["GPU_NET_SMTP_TIMEOUT"] = "1"
    done = sender.send()
    assert done.exit_code == 1
    assert "unknown: the connection ended before the server's answer" in done.stderr
    box.seconds_to_answer = 0.0
    again = sender.send()
    assert again.exit_code == 0
    assert "left open: not sent again" in again.stdout
    assert box.recipients == ["a@example.com"]


def test_a_slow_server_does_not_keep_the_sender_for_ever(sender: Sender, mailbox: tuple[Mailbox, Controller]) -> None:
    mailbox[0].seconds_to_answer = 20.0
    sender.settings["GPU_NET_SMTP_TIMEOUT"] = "1"
    sender.recipients(*(f"{letter}@example.com,fleet" for letter in "abcdefghij"))
    started = time.monotonic()
    done = sender.send()
    assert done.exit_code == 1
    assert done.stderr.count("unknown") == 2, "after two broken connections the server is given up"
    assert done.stderr.count("no connection to the mail server") == 8
    assert time.monotonic() - started < 90


def test_a_server_that_says_nothing_is_given_up(sender: Sender) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        sender.settings |= {"GPU_NET_SMTP_PORT": str(silent.getsockname()[1]), "GPU_NET_SMTP_TIMEOUT": "1"}
        done = sender.send()
    assert done.exit_code == 1
    assert "no connection to the mail server" in done.stderr
    assert sender.records() == []


def test_a_sender_killed_between_the_servers_yes_and_its_record_does_not_send_twice(
    sender: Sender, mailbox: tuple[Mailbox, Controller]
) -> None:
    box = mailbox[0]
    processes: list[subprocess.Popen[str]] = []

    def kill_then_accept(address: str) -> str:
        processes[0].send_signal(signal.SIGKILL)
        processes[0].wait()
        return "250 OK"

    box.on_mail = kill_then_accept
    processes.append(sender.start("digest", "--send"))
    assert processes[0].wait(timeout=180) == -signal.SIGKILL
    deadline = time.monotonic() + 30
    while not box.received and time.monotonic() < deadline:
        time.sleep(0.05)
    assert [record["state"] for record in sender.records()] == ["sending"]

    box.on_mail = lambda address: "250 OK"
    again = sender.send()
    assert again.exit_code == 0
    assert "left open" in again.stdout
    assert box.recipients == ["a@example.com"]
    status = sender.run("status", "--json")
    step = next(step for step in json.loads(status.stdout)["steps"] if step["step"] == "digest")
    assert step["state"] == "mails of 2026-11-09: 1 left open: they may have arrived"
    assert step["remedy"] == "python -m warehouse digest --send --resend"

    assert sender.send("--resend").exit_code == 0
    first, second = [message_from_bytes(content)["Message-ID"] for _, content in box.received]
    assert first == second, "a mail client can tell that it has this one"
    assert [record["state"] for record in sender.records()] == ["sent"]


def test_a_sender_killed_before_the_mail_left_leaves_it_open_too(sender: Sender, mailbox: tuple[Mailbox, Controller]) -> None:
    """The intent is on the disk before the first byte leaves; who died in between cannot be told from who died after."""
    box = mailbox[0]
    processes: list[subprocess.Popen[str]] = []

    def kill(address: str) -> str:
        processes[0].send_signal(signal.SIGKILL)
        processes[0].wait()
        return "250 OK"

    box.on_recipient = kill
    processes.append(sender.start("digest", "--send"))
    processes[0].wait(timeout=180)
    box.on_recipient = lambda address: "250 OK"
    assert [record["state"] for record in sender.records()] == ["sending"]
    assert "left open" in sender.send().stdout
    assert box.recipients == []


def test_two_senders_at_once_send_one_mail(sender: Sender, mailbox: tuple[Mailbox, Controller]) -> None:
    mailbox[0].seconds_to_answer = 2.0
    processes = [sender.start("digest", "--send") for _ in range(2)]
    ends = [(process.communicate(timeout=180), process.returncode) for process in processes]
    assert mailbox[0].recipients == ["a@example.com"], ends


def test_a_held_build_gets_a_mail_of_its_own_from_noon_on(sender: Sender, mailbox: tuple[Mailbox, Controller]) -> None:
    sender.send()
    hold(sender.home, datetime(2026, 11, 11, 9, 0))
    sender.send()
    hold(sender.home, datetime(2026, 11, 11, 13, 0))
    sender.send()
    sender.send()
    subjects = [message_from_bytes(content, policy=policy.default)["Subject"] for _, content in mailbox[0].received]
    assert len(subjects) == 2
    assert subjects[1].startswith("No figures for 2026-11-10: the newest build is held")


@pytest.mark.filterwarnings("ignore:Requiring AUTH while not requiring TLS")
def test_a_wrong_password_is_told_and_written_nowhere(sender: Sender) -> None:
    def refuse(server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: Any) -> AuthResult:
        return AuthResult(success=False, handled=False, message="535 5.7.8 no")

    controller = Controller(
        Mailbox(),
        hostname="127.0.0.1",
        port=_free_port(),
        authenticator=refuse,
        auth_required=True,
        auth_require_tls=False,
        ready_timeout=30,
    )
    controller.start()
    sender.settings |= {"GPU_NET_SMTP_PORT": str(controller.port), "GPU_NET_SMTP_USER": "x", "GPU_NET_SMTP_PASSWORD": "hunter2"}
    try:
        done = sender.send()
    finally:
        controller.stop()
    assert done.exit_code == 1
    assert "no connection to the mail server: 535" in done.stderr
    assert "hunter2" not in done.stdout + done.stderr
    assert not [path for path in sender.home.root.rglob("*") if path.is_file() and b"hunter2" in path.read_bytes()]


def test_a_server_without_encryption_gets_neither_password_nor_mail_unless_told(
    sender: Sender, mailbox: tuple[Mailbox, Controller]
) -> None:
    sender.settings.pop("GPU_NET_SMTP_STARTTLS")
    done = sender.send()
    assert done.exit_code == 1
    assert "STARTTLS" in done.stderr
    assert "GPU_NET_SMTP_STARTTLS=no" in done.stderr
    assert mailbox[0].received == []


@pytest.mark.parametrize(
    ("setting", "value", "says"),
    [
        ("GPU_NET_SMTP_HOST", "", "GPU_NET_SMTP_HOST names no mail server"),
        ("GPU_NET_SMTP_PORT", "mail", "GPU_NET_SMTP_PORT"),
        ("GPU_NET_SMTP_FROM", "nobody", "GPU_NET_SMTP_FROM: 'nobody' is no mail address"),
        ("GPU_NET_SMTP_STARTTLS", "maybe", "GPU_NET_SMTP_STARTTLS"),
    ],
)
def test_settings_that_make_no_sense_are_wrong_usage(sender: Sender, setting: str, value: str, says: str) -> None:
    sender.settings[setting] = value
    done = sender.send()
    assert done.exit_code == 2
    assert says in done.stderr


def test_nobody_to_send_to_is_wrong_usage_and_names_the_file(sender: Sender) -> None:
    recipients_path(sender.home).unlink()
    done = sender.send()
    assert done.exit_code == 2
    assert "digest_recipients.csv has no recipients" in done.stderr.replace("\n", " ")


def test_an_alert_is_mailed_once_to_those_whom_its_rule_names(sender: Sender, mailbox: tuple[Mailbox, Controller]) -> None:
    box = mailbox[0]
    rule(sender.home, "ghosts,ghost_money,10,USD,,,,,,,a@example.com b@example.com,tell")
    box.on_recipient = lambda address: "450 come again" if address.startswith("b@") else "250 OK"
    first = sender.run("alerts", "--send")
    assert first.exit_code == 1
    assert "b@example.com, 1 event: failed: the server said 450 come again" in first.stderr
    box.on_recipient = lambda address: "250 OK"
    assert [sender.run("alerts", "--send").exit_code for _ in range(2)] == [5, 5]
    assert box.recipients == ["a@example.com", "b@example.com"]
    mail = message_from_bytes(box.received[0][1], policy=policy.default)
    assert mail["Subject"] == "GPU Net: 1 alert · ghosts"
    assert mail["Message-ID"].startswith("<gpu-net.alert.")
    for kind in ("plain", "html"):
        part = mail.get_body((kind,))
        assert part is not None
        text = " ".join(part.get_content().split())
        assert "Ghost capacity of the fleet cost 16.00 USD on 2026-11-09, above 10.00." in text, kind
    rule(sender.home, "ghosts,ghost_money,100,USD,,,,,,,a@example.com b@example.com,tell")
    assert sender.run("alerts", "--send").exit_code == 0
    assert message_from_bytes(box.received[-1][1], policy=policy.default)["Subject"] == "GPU Net: 1 over · ghosts"
    assert len(box.received) == 4


def test_the_dag_sends_through_airflows_own_connection_and_skips_without_one(
    sender: Sender, mailbox: tuple[Mailbox, Controller], tmp_path: Path
) -> None:
    """In a process of its own, because Airflow is configured when it is imported."""
    code = """
from dags.local.airflow_home import DAGS_FOLDER, adopt
import pathlib, sys
adopt(pathlib.Path(sys.argv[1]))
from airflow.dag_processing.dagbag import BundleDagBag
bag = BundleDagBag(dag_folder=DAGS_FOLDER / "send_digest.py", bundle_path=DAGS_FOLDER, bundle_name="dags-folder")
bag.dags["send_digest"].get_task("send").python_callable()
"""
    environment = clean_environment(sender.home.root)
    connection = {"conn_type": "smtp", "host": "127.0.0.1", "port": mailbox[1].port}
    connection["extra"] = {"from_email": "gpu-net@example.com", "disable_ssl": True, "disable_tls": True}

    def run(**more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / "airflow")],
            cwd=PROJECT_ROOT,
            env=environment | more,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    without = run()
    assert "AirflowSkipException: no connection gpu_net_smtp" in without.stderr
    for _ in range(2):
        done = run(AIRFLOW_CONN_GPU_NET_SMTP=json.dumps(connection))
        assert done.returncode == 0, done.stderr[-2000:]
    assert mailbox[0].recipients == ["a@example.com"]


def test_the_whole_mail_arrives_as_it_was_made(sender: Sender, mailbox: tuple[Mailbox, Controller]) -> None:
    sender.send()
    mail = message_from_bytes(mailbox[0].received[0][1], policy=policy.default)
    html, text = mail.get_body(("html",)), mail.get_body(("plain",))
    assert html is not None
    assert text is not None
    assert html.get_content().rstrip().endswith("</html>")
    assert "You get this because" in text.get_content()

"""How DAGs send: the mail server and the channels of alerts are Airflow's connections, what is sent is the packages'.

`gpu_net_smtp` is of type SMTP. `gpu_net_slack`, `gpu_net_teams` and `gpu_net_webhook` may be of any type: their password is the
whole address of the webhook, which Airflow keeps encrypted and masks in its logs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpu_net_steps import log

if TYPE_CHECKING:
    from warehouse.alerts.send import Means
    from warehouse.digest.server import MailServer

MAIL_CONNECTION = "gpu_net_smtp"


def mail_server() -> MailServer | None:
    """The mail server of the connection `gpu_net_smtp`; None where there is no such connection."""
    import smtplib
    from collections.abc import Iterator
    from contextlib import contextmanager

    from airflow.providers.smtp.hooks.smtp import SmtpHook
    from airflow.sdk.exceptions import AirflowException, AirflowNotFoundException

    from warehouse.digest.server import MailServer, parse_sender

    try:
        extras = SmtpHook.get_connection(MAIL_CONNECTION).extra_dejson
    except AirflowNotFoundException:
        return None

    @contextmanager
    def connect() -> Iterator[smtplib.SMTP]:
        try:
            hook = SmtpHook(MAIL_CONNECTION).get_conn()
        except AirflowException as error:
            raise OSError(str(error)) from error
        with hook:
            # the hook's own way to send writes the message itself, without pictures inside or a Message-ID of ours
            yield hook._smtp_client

    return MailServer(parse_sender(extras.get("from_email", ""), f"from_email of {MAIL_CONNECTION}"), connect)


def means_of_connections() -> Means:
    """What alerts are told by: each channel whose connection there is, and the mail server."""
    from airflow.sdk import Connection
    from airflow.sdk.exceptions import AirflowNotFoundException

    from warehouse.alerts.channels import NAMES, Channel
    from warehouse.alerts.send import Means

    channels = {}
    for name in NAMES:
        try:
            address = Connection.get(f"gpu_net_{name}").password
        except AirflowNotFoundException:
            continue
        channels[name] = Channel.of(name, address or "", f"the password of connection gpu_net_{name}")
    return Means(channels, mail_server())


def tell_alerts() -> None:
    """Ask the rules of `config/alert_rules.csv` and tell what is new; raises with what could not be read or did not arrive."""
    from datetime import UTC, datetime

    from airflow.sdk.exceptions import AirflowException

    from warehouse.alerts.command import watch
    from warehouse.home import Home

    outcome = watch(Home.from_environment(), datetime.now(UTC).replace(tzinfo=None), means_of_connections())
    for event in outcome.firing:
        log.info("fires since %s: %s: %s", event.since, event.rule, event.says)
    for message in outcome.messages:
        log.info("%s", message.line)
    if outcome.troubles:
        raise AirflowException("\n".join(outcome.troubles))

"""### Send the daily digest

Sends the mail of the last whole day that is published to everyone in `$GPU_NET_HOME/config/digest_recipients.csv`
(columns `recipient,edition`; an edition is `fleet` or `team:<name>`), through the Airflow connection `gpu_net_smtp`. Runs
after each publication and each hour at :45; everyone gets one mail a day, whatever runs how often. Skips where there is no
such connection, nobody to send to, or nothing published.

**Set up**: a connection `gpu_net_smtp` of type SMTP; in its extras `from_email`, and for a server on port 587
`"disable_ssl": true` (STARTTLS is used then).

**Owner**: gpu-net. **When it fails**: the last lines name the recipients that got no mail and what the server said; the
next run tries them again. One that is *left open* may have arrived and is not sent again: ask the recipient, then
`python -m warehouse digest --send --resend`. Clearing a task is always safe.
"""

from __future__ import annotations

from airflow.sdk import AssetOrTimeSchedule, CronTriggerTimetable, dag, task
from gpu_net_messages import MAIL_CONNECTION, mail_server
from gpu_net_steps import DEFAULT_ARGS, START_DATE, WAREHOUSE_PUBLISHED, log


@dag(
    schedule=AssetOrTimeSchedule(timetable=CronTriggerTimetable("45 * * * *", timezone="UTC"), assets=[WAREHOUSE_PUBLISHED]),
    start_date=START_DATE,
    catchup=False,
    max_active_runs=1,
    default_args=DEFAULT_ARGS,
    doc_md=__doc__,
    tags=["layer:digest", "source:all", "impact:tier_3"],
)
def send_digest() -> None:
    @task
    def send() -> None:
        from datetime import UTC, datetime

        from airflow.sdk.exceptions import AirflowException, AirflowSkipException

        from warehouse.digest.command import send_editions
        from warehouse.digest.published import NothingPublishedError
        from warehouse.home import Home

        server = mail_server()
        if server is None:
            raise AirflowSkipException(f"no connection {MAIL_CONNECTION}: no mail server to send through")
        try:
            deliveries, refused = send_editions(Home.from_environment(), server, datetime.now(UTC).replace(tzinfo=None))
        except NothingPublishedError as error:
            raise AirflowSkipException(str(error)) from None
        if not deliveries and not refused:
            raise AirflowSkipException("config/digest_recipients.csv names nobody")
        lines = [
            f"{one.letter.recipient.address} ({one.letter.recipient.edition}): {one.state}: {one.says}" for one in deliveries
        ]
        for line in lines:
            log.info("%s", line)
        failed = [*refused, *(line for line, one in zip(lines, deliveries, strict=True) if one.is_trouble)]
        if failed:
            raise AirflowException("\n".join(failed))

    send()


send_digest()

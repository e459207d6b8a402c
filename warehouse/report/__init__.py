"""One page about the fleet, `report.html` beside the published database: pictures and tables to click through, without network.

contents.py    what the page holds, as numbers: published rows summed as finely as the page can carry
holders.py     … by workload, state and reason
chargeback.py  … by month and by who is charged
exchange.py    … in the reporting currency
idle_map.py    … by GPU and hour
columns.py     how rows become columns of whole numbers
sizes.py       how finely that is: days, then weeks; every workload, then the largest and the rest by team
tables.py      the tables that need no clicking: gate, bill, coverage, definitions
moved.py       what moved in days that the version before held, as the mail says it
alerting.py    the alert rules that the published figures break
page.py        the page itself (`templates/`), with the charting library (`vendor/`) and the numbers inside
write.py       write it into a version's folder; what goes wrong there never keeps readers from the new version
"""

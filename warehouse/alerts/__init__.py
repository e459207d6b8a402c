"""Alert rules as data: what is watched, what fires, and that each event is told once.

kinds.py      what can be watched: the unit of its limit, by whom it is taken
rules.py      read `config/alert_rules.csv`
conditions.py the published rows, the verdict and the build record, asked whether a rule fires
records.py    events on record: since when each fires, and who was told
messages.py   events as a line, a mail, a message of Slack or Teams, a webhook's JSON
page.py       a mail's HTML (`templates/`), in the style of the day's mail
channels.py   post to an address, and say whether it arrived
send.py       tell what is new, each channel once
command.py    `python -m warehouse alerts`
"""

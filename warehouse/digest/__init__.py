"""One e-mail a day about the fleet: what it says, how it looks, who gets it, and that nobody gets it twice.

editions.py   who gets which edition: the fleet's, or a team's (`config/digest_recipients.csv`)
figures.py    what a day's mail says, as numbers
published.py   what is published, which day of it is whole, whether a newer build is held
reading.py    read them from the published database and the verdict record
restated.py   what moved in days that were mailed before, and why
queries.py    the published rows they are made of
words.py      how numbers, reasons and names are written
page.py       the figures in words: subject, headline, waterfall
lists.py      the figures in words: the entries of the lists
picture.py    the waterfall and the trend as PNG
inline.py     style written into the elements of a mail
render.py     HTML and text of an edition (`templates/`)
message.py    an edition as a mail to one recipient, or as files to look at
records.py    who was sent what, one file per day, edition and recipient
send.py       hand the mails to a server, each at most once
handing_over.py  one mail in the steps of the protocol: whether it left is known
server.py     the mail server that `GPU_NET_SMTP_…` names
command.py    `python -m warehouse digest`
"""

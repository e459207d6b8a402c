"""Raw data: how rows become landed files, what a landing is checked against, and how the files are kept.

shape.py        every table, column, kind and key that a collector may land
values.py       one value as its column's kind says; readings.py where a device's no-answer is no number
masking.py      credentials and people blanked out in what is landed
conform.py      rows in, typed rows and rejects out
landings.py     a landing: whole or not at all, twice the same file; writer.py its frames, content.py its identity
outcomes.py     what has landed, and which files hold it now
compaction.py   many small files into few; leftovers.py what no reader needs; retention.py what is too old
damage.py       files that a disk or a hand has spoiled
list_prices.py  a public price list, landed from its own format
"""

"""The published database: what readers open, how it is replaced, and how an older one is shown again.

tables.py          which tables readers get, in which types
publications.py    versions as folders, and the one link that readers follow
publish.py         the last build becomes the version shown, if the gate allows it
parquet_export.py  the same tables as Parquet; comments.py what they mean, inside the file
rollback.py        an older version is shown again
relations.py       tables joined with their names, for what we draw and send
"""

"""Facts about one business that people edit by hand: `config/rate_cards.csv`, `workload_rules.csv`, `digest_recipients.csv`.

files.py     read such a file, with the line of every problem; add lines to it and leave the rest as it is
land.py      land what the files say; called by each build
seen.py      which GPU models and workloads have been landed
drafts.py    the lines that `init` adds for them
command.py   `python -m warehouse init`
"""

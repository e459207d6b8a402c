"""Facts about one business that people edit by hand: rate cards, workload rules, list prices, carbon intensities, recipients.

files.py     read such a file, with the line of every problem; add lines to it and leave the rest as it is
land.py      land what the files say; called by each build
seen.py      which GPU models and workloads have been landed
drafts.py    the lines that `init` adds for them
command.py   `python -m warehouse init`
"""

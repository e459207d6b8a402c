"""Where data lives, how it is landed, built, judged, published and told of.

landing/, publication/            raw data in, the published database out
build.py, control.py, verdict.py  what a build is told and remembers, and what the gate said of it
pipeline.py, maintenance.py       build, gate and publication in one go; what is let go of afterwards
first_screen.py, status.py, advice.py, what_if.py, questions/  what a person at the command line asks
digest/, alerts/, report/, differences/                        what is sent and drawn, and what moved between two versions
postgres/, superset/, project_docs.py                          copies and views for other tools
home.py, database.py, sql.py, atomic.py                        folders, connections, SQL text, whole files
"""

"""Ten questions that people bring to a fleet, as SQL over the published tables, with their answers.

sql/           one file a question: its head says the question, what to know, and the answer as a sentence to fill in
asking.py      read the files, run them, fill in the sentence
command.py     `python -m warehouse questions`
demo.csv       the sentences as the demo fleet answers them; `tests/e2e/test_demo.py` keeps them true
"""

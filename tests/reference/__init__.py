"""A slow, plain second implementation of the ledger, to check the SQL against."""

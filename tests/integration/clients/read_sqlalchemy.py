"""SQLAlchemy by duckdb-engine, without a pool, as Superset does."""

import sqlalchemy
from reading import QUERIES, read_until_stopped
from sqlalchemy.pool import NullPool


def ask(database: str) -> list[int]:
    engine = sqlalchemy.create_engine(f"duckdb:///{database}?access_mode=read_only", poolclass=NullPool)
    with engine.connect() as connection:
        return [number for query in QUERIES for number in connection.execute(sqlalchemy.text(query)).one()]


read_until_stopped(sqlalchemy.__version__, ask)

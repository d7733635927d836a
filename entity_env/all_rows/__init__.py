"""Reads the observations of all rows of a step at once: the fast way in.

It knows the usual shapes only. Whatever else comes, wrong or merely unusual, raises some error
within, and the reader of single frames (``entity_env.validate``) then says what is right.
"""

from entity_env.all_rows.reader import RowReader, Rows, ended_rows

__all__ = ["RowReader", "Rows", "ended_rows"]

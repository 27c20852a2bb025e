"""Many problems, cases and networks on many engines: rows of a table that outlives an interruption."""

from samebits.questions.list.list_running import run_list
from samebits.questions.list.table_changes import compare_tables

__all__ = ["compare_tables", "run_list"]

"""Many problems, cases and networks on many engines: rows of a table that outlives an interruption."""

from samebits.lists.list_running import run_list
from samebits.lists.table_changes import compare_tables

__all__ = ["compare_tables", "run_list"]

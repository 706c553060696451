"""Files for other programs: CSV, Excel, and the form of the public lake."""

from tonframes.export.excel import write_excel
from tonframes.export.lake import to_lake
from tonframes.export.safe_csv import read_csv, write_csv

__all__ = ["read_csv", "to_lake", "write_csv", "write_excel"]

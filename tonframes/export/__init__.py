"""Files for other programs: CSV, Excel, and the form of the public lake.

The modules::

    safe_csv    write_csv and read_csv
    excel       write_excel
    headers     what the header of a column in Excel says, and how its numbers are shown
    lake        to_lake
"""

from tonframes.export.excel import write_excel
from tonframes.export.lake import to_lake
from tonframes.export.safe_csv import read_csv, write_csv

__all__ = ["read_csv", "to_lake", "write_csv", "write_excel"]

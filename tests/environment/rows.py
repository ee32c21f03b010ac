"""All rows of the matrix, in the order of its table."""
import rows_data
import rows_files
import rows_limits
import rows_process

ROWS = rows_limits.ROWS + rows_files.ROWS + rows_process.ROWS + rows_data.ROWS

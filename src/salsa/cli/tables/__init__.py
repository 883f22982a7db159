"""Tables of the command line: reading whole or in chunks, checks of columns, and writing completely or not at all."""

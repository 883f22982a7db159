"""The tables of the command line: read whole or in chunks, checked column by column, written whole or not at all."""

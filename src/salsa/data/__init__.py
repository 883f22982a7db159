"""Tables as they come: columns, targets, rows, the splits that judge a fit, and blocks of larger tables."""

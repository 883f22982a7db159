"""The choice of kernel and order on rows that were held out, and the record of what was tried."""

"""The sections of a report: each module computes numbers and sentences as plain values, which the page shows."""

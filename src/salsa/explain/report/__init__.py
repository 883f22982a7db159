"""The parts of a report, one module per section: numbers and sentences as plain values, for the page to show."""

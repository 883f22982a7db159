"""The order of the gallery: an example that is not in the list stops the build."""

EXAMPLES = (
    "first_fit",
    "houses",
    "why_additive",
    "effects",
    "shapley",
    "search",
    "rivals",
    "dask_local",
    "dask_scheduler",
    "house_price",
    "wages_of_people",
    "fish_counts",
    "crash_deaths",
    "station_riders",
    "piston",
    "diamonds",
    "shuffled_columns",
)


class ReadingOrder:
    """A sort key of file names, as sphinx-gallery wants it."""

    def __init__(self, folder: str) -> None:
        pass

    def __call__(self, name: str) -> int:
        return EXAMPLES.index(name.removesuffix(".py"))

"""The order of the gallery: an example that is not in the list stops the build."""

EXAMPLES = (
    "first_fit",
    "houses",
    "why_additive",
    "effects",
    "shapley",
    "intervals",
    "categories",
    "search",
    "rivals",
    "many_rows",
    "dask_local",
    "dask_scheduler",
)


class ReadingOrder:
    """A sort key of file names, as sphinx-gallery wants it."""

    def __init__(self, folder: str) -> None:
        pass

    def __call__(self, name: str) -> int:
        return EXAMPLES.index(name.removesuffix(".py"))

"""For the fast tests: Python looks for garbage less often, which in thousands of them took a tenth of the time."""

import gc


def pytest_collection_finish() -> None:
    """What is imported and collected by now stays until the end: it is not gone through again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)

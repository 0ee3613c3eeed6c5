"""A worker with a shorter time limit for imports: `hasty_worker.py SECONDS`."""

import functools
import sys

from workers.process import worker
from workers.process.package_builds import PackageBuilds
from workers.settings import load_settings
from workers.worker_role import serve


def main() -> None:
    vars(worker)["PackageBuilds"] = functools.partial(PackageBuilds, timeout_s=float(sys.argv[1]))
    serve(load_settings())


if __name__ == "__main__":
    main()

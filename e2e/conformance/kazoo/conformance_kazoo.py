"""pytest plugin: kazoo's test harness without ZooKeeper; the test files stay untouched.

    ZOOKEEPER_BIN_PATH=<folder of zkServer.sh>  python -m pytest -p conformance_kazoo kazoo/tests
    CASTELLAN_HOSTS=host:port,...               python -m pytest -p conformance_kazoo kazoo/tests

In the first form the suite starts and stops servers (kazoo_launched.py): not by `java ... QuorumPeerMain`, but by
`zkServer.sh start-foreground zoo.cfg`, with the same zoo.cfg; keys and certificates are PEM files in place of Java key
stores (ZooKeeper reads both). In the second it uses servers that run already (kazoo_running.py); CASTELLAN_EXCLUSIONS
names the file of tests that cannot be asked of them.

CASTELLAN_RESULTS names a file that gets a line `passed|failed|skipped NAME` for each test.
"""

import os
import pathlib

import pytest

# The harness wants to know an installation and its version; tests choose themselves by the latter.
os.environ.setdefault("ZOOKEEPER_PATH", "/started/by/zkServer.sh")
os.environ.setdefault("ZOOKEEPER_VERSION", "3.9.5")
# With CI set many tests believe ZOOKEEPER_VERSION instead of asking the server, and wait needlessly.
os.environ.pop("CI", None)

import kazoo_running  # noqa: E402
from kazoo.testing import common, harness  # noqa: E402


class Results:
    """One line for each test; a test whose set-up or clean-up fails has failed."""

    def __init__(self, exclusions):
        self.outcomes = {}
        self.exclusions = exclusions

    def pytest_runtest_logreport(self, report):
        name = report.nodeid.rsplit("/", 1)[-1]
        before = self.outcomes.get(name)
        if report.failed or before == "failed":
            self.outcomes[name] = "failed"
        elif report.skipped:
            unlisted = self.exclusions and not self.exclusions.reason(name)
            self.outcomes[name] = "failed" if unlisted else "skipped"
        elif report.when == "call":
            self.outcomes[name] = "passed"

    def pytest_collectreport(self, report):
        if report.failed:
            self.outcomes[report.nodeid.rsplit("/", 1)[-1] or "collection"] = "failed"

    def pytest_sessionfinish(self, session):
        lines = []
        for name, outcome in self.outcomes.items():
            reason = outcome == "skipped" and self.exclusions and self.exclusions.reason(name)
            lines.append(f"{outcome} {name}: {reason}\n" if reason else f"{outcome} {name}\n")
        whole = len(session.config.args) == 1 and not session.config.args[0].endswith(".py")
        if self.exclusions and whole:
            lines += [f"failed {entry}: excluded, and there is no such test\n" for entry in self.exclusions.unused()]
        pathlib.Path(os.environ["CASTELLAN_RESULTS"]).write_text("".join(lines))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """The one test of kazoo's own CI settings runs with CI set only, and says which release ZOOKEEPER_VERSION is."""
    if item.nodeid.rsplit("/", 1)[-1].startswith("test_build.py"):
        os.environ["CI"] = "true"
    try:
        return (yield)
    finally:
        os.environ.pop("CI", None)


def pytest_configure(config):
    exclusions = None
    if kazoo_running.HOSTS:
        harness.ZookeeperCluster = kazoo_running.RunningCluster
        if os.environ.get("CASTELLAN_EXCLUSIONS"):
            exclusions = kazoo_running.Exclusions(os.environ["CASTELLAN_EXCLUSIONS"])
            config.pluginmanager.register(exclusions, "conformance-exclusions")
    elif os.environ.get("ZOOKEEPER_BIN_PATH"):
        import kazoo_launched

        common.ManagedZooKeeper = kazoo_launched.LaunchedServer
        harness.ZookeeperCluster = kazoo_launched.LaunchedCluster
    else:
        raise pytest.UsageError("set ZOOKEEPER_BIN_PATH (servers are started) or CASTELLAN_HOSTS (they run)")
    if os.environ.get("CASTELLAN_RESULTS"):
        config.pluginmanager.register(Results(exclusions), "conformance-results")

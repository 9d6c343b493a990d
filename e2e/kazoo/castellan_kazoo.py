"""pytest plugin: runs kazoo's own test files, untouched, against servers that run already.

    CASTELLAN_HOSTS=host:port,...  python -m pytest -p castellan_kazoo kazoo/tests

kazoo's harness wants to start ZooKeeper servers itself. This plugin puts a cluster in their place that only knows
addresses. What a running cluster cannot be asked for (to stop a member, say) stands in exclusions.txt beside this
file, test by test with the reason. Three rules keep that list honest:

- an excluded test is reported as skipped, with its reason;
- a test that skips itself without being listed fails the run;
- an entry of the list that names no collected test fails the run, when whole files were run.
"""

import collections
import os
import pathlib

import pytest

# kazoo skips the servers' start when it believes in an installation, and needs a version to choose tests by.
os.environ.setdefault("ZOOKEEPER_PATH", "/nowhere")
os.environ.setdefault("ZOOKEEPER_VERSION", "3.9.5")
# With CI set the tests trust ZOOKEEPER_VERSION instead of asking the server, and wait needlessly.
os.environ.pop("CI", None)

from kazoo.testing import common, harness  # noqa: E402

HOSTS = [host for host in os.environ.get("CASTELLAN_HOSTS", "").split(",") if host]


class RunningServer:
    """A server that somebody else started, and nobody here may stop."""

    running = True

    def __init__(self, address):
        self.address = address
        self.secure_address = ""
        self.host, port = address.rsplit(":", 1)
        self.client_port = int(port)

    def run(self):
        pytest.fail("this test starts or stops a server: it belongs into exclusions.txt")

    stop = reset = run

    def destroy(self):
        pass

    def get_logs(self, num_lines=100):
        return []


class RunningCluster(common.ZookeeperCluster):
    """Takes the place of the cluster that kazoo would start."""

    def __init__(self, **_settings):
        self._servers = [RunningServer(host) for host in HOSTS]

    def start(self):
        pass

    terminate = stop = reset = start

    def get_ssl_client_configuration(self):
        pytest.fail("this test needs TLS: it belongs into exclusions.txt")


harness.ZookeeperCluster = RunningCluster


def read_exclusions():
    """{start of a test's name: reason}. A name is FILE::CLASS::TEST or a part of it that ends at a `::`."""
    exclusions = {}
    path = pathlib.Path(__file__).with_name("exclusions.txt")
    reason = None
    for line in path.read_text().splitlines():
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        if not line[0].isspace():
            reason = text.rstrip(":")
        elif reason is None:
            raise pytest.UsageError(f"{path}: `{text}` stands under no reason")
        else:
            exclusions[text] = reason
    return exclusions


def short_name(item_or_report):
    """`test_client.py::TestClient::test_create` of a node id with folders."""
    return item_or_report.nodeid.rsplit("/", 1)[-1]


def excluded_by(exclusions, name):
    return next((entry for entry in exclusions if name == entry or name.startswith(entry + "::")), None)


class Plugin:
    def __init__(self):
        self.exclusions = read_exclusions()
        self.used = set()
        self.files = collections.defaultdict(collections.Counter)
        self.unlisted = []

    def pytest_collection_modifyitems(self, items):
        for item in items:
            entry = excluded_by(self.exclusions, short_name(item))
            if entry:
                self.used.add(entry)
                item.add_marker(pytest.mark.skip(reason=self.exclusions[entry]))

    def pytest_runtest_logreport(self, report):
        name = short_name(report)
        file = name.split("::")[0]
        if report.skipped:
            self.files[file]["excluded"] += 1
            if not excluded_by(self.exclusions, name):
                self.unlisted.append(f"{name} skipped itself: {report.longrepr}")
        elif report.failed:
            self.files[file]["failed"] += 1
        elif report.when == "call":
            self.files[file]["passed"] += 1

    def unused(self, config):
        """Entries that named nothing; only known when nothing was deselected and all files were collected."""
        if config.option.keyword or any("::" in argument for argument in config.args):
            return []
        files = set(self.files)
        return [entry for entry in self.exclusions if entry.split("::")[0] in files and entry not in self.used]

    def pytest_sessionfinish(self, session, exitstatus):
        if exitstatus == 0 and (self.unlisted or self.unused(session.config)):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter, config):
        write = terminalreporter.write_line
        write("")
        write(f"kazoo's own tests against {','.join(HOSTS)}:")
        for file, counts in sorted(self.files.items()):
            write(f"  {file:32} {counts['passed']:4} passed {counts['failed']:4} failed {counts['excluded']:4} excluded")
        for line in self.unlisted:
            write(f"ERROR not in exclusions.txt: {line}")
        for entry in self.unused(config):
            write(f"ERROR exclusions.txt names a test that does not exist: {entry}")


def pytest_configure(config):
    if not HOSTS:
        raise pytest.UsageError("CASTELLAN_HOSTS names no servers")
    config.pluginmanager.register(Plugin(), "castellan-exclusions")

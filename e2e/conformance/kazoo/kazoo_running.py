"""Servers that run already, and the written list of tests that cannot be asked of them.

A running cluster cannot be asked to stop a member, say. Such tests stand in a file, by name and with the reason. Three
rules keep it honest:

- an excluded test is reported as skipped, with its reason;
- a test that skips itself without being listed has failed, and so has one that starts or stops a server;
- an entry that names no test has failed too, where all files were run.
"""

import os
import pathlib

import pytest
from kazoo.testing import common

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
        pytest.fail("this test wants servers with kazoo's own certificates: it belongs into exclusions.txt")


class Exclusions:
    """{start of a test's name: reason}. A name is FILE::CLASS::TEST or a part of it that ends at a `::`."""

    def __init__(self, path):
        self.reasons = {}
        self.used = set()
        reason = None
        for line in pathlib.Path(path).read_text().splitlines():
            text = line.strip()
            if not text or text.startswith("#"):
                continue
            if not line[0].isspace():
                reason = text.rstrip(":")
            elif reason is None:
                raise pytest.UsageError(f"{path}: `{text}` stands under no reason")
            else:
                self.reasons[text] = reason

    def reason(self, name):
        for entry, reason in self.reasons.items():
            if name == entry or name.startswith(entry + "::"):
                self.used.add(entry)
                return reason
        return None

    def pytest_collection_modifyitems(self, items):
        for item in items:
            reason = self.reason(item.nodeid.rsplit("/", 1)[-1])
            if reason:
                item.add_marker(pytest.mark.skip(reason=reason))

    def unused(self):
        return [entry for entry in self.reasons if entry not in self.used]

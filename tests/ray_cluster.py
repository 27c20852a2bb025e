"""A Ray cluster of several nodes on this machine, each with processes of its own, for one test or module.

The cluster is held by a process of its own: Ray forks when it starts a node, which a process that has other libraries'
threads must not do.
"""

import contextlib
import json
import os
import subprocess
import sys


@contextlib.contextmanager
def open_cluster(head, *nodes):
    """A cluster with a node for each of these resources, the first its head; it has `address`, `add` and `kill`."""
    environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"}
    # Ray has its workers give way to all else, which for tests beside others may be for minutes.
    environment["RAY_worker_niceness"] = "0"
    holder = subprocess.Popen(
        [sys.executable, __file__], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with holder:
        cluster = LocalCluster(holder, head)
        for resources in nodes:
            cluster.add(resources)
        yield cluster


class LocalCluster:
    def __init__(self, holder, head):
        self._holder = holder
        self.add(head)
        self.address = self._ask("address", None)

    def add(self, resources):
        """Starts a node that declares these resources; its number."""
        return self._ask("add", resources)

    def kill(self, node):
        """Ends a node's processes, as a lost machine would."""
        self._ask("kill", node)

    def _ask(self, *words):
        print(json.dumps(words), file=self._holder.stdin, flush=True)
        return self._read()

    def _read(self):
        # Ray writes lines of its own there.
        for line in self._holder.stdout:
            if line.startswith("answer "):
                return json.loads(line.removeprefix("answer "))
        raise RuntimeError("the process that holds the cluster ended")


def hold_cluster():
    """Starts and ends nodes as standard input says, until it ends; one line of answer for each."""
    from ray.cluster_utils import Cluster

    cluster, nodes = Cluster(), []
    try:
        for line in sys.stdin:
            what, given = json.loads(line)
            found = None
            if what == "add":
                nodes.append(cluster.add_node(num_cpus=1, resources=given, include_dashboard=False))
                found = len(nodes) - 1
            elif what == "kill":
                cluster.remove_node(nodes[given], allow_graceful=False)
            else:
                found = cluster.address
            print("answer", json.dumps(found), flush=True)
    finally:
        cluster.shutdown()


if __name__ == "__main__":
    hold_cluster()

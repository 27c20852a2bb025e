"""A Ray cluster of several nodes on this machine, each with processes of its own, for one test or module."""

import contextlib
import os


@contextlib.contextmanager
def open_cluster(*nodes):
    """A cluster with a node for each of these resources; it has `address`, `add` and `kill`."""
    from ray.cluster_utils import Cluster

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["RAY_AUTH_MODE"] = "disabled"
    cluster = LocalCluster(Cluster())
    try:
        for resources in nodes:
            cluster.add(resources)
        yield cluster
    finally:
        cluster.cluster.shutdown()


class LocalCluster:
    def __init__(self, cluster):
        self.cluster = cluster

    @property
    def address(self):
        return self.cluster.address

    def add(self, resources):
        """Starts a node that declares these resources."""
        return self.cluster.add_node(num_cpus=1, resources=resources, include_dashboard=False)

    def kill(self, node):
        """Ends a node's processes, as a lost machine would."""
        self.cluster.remove_node(node, allow_graceful=False)

"""The scheduler side: filter, prioritize, bind and preempt for kube-scheduler, and the answers people ask for.

It keeps one ledger per vendor from watches of Nodes, Pods and claims. It writes Bindings with the pods' records, wakes
refused pods once there is room, and keeps the templates and the order of nodes for claims.
It is not a scheduler: kube-scheduler decides which pod is next, and every rule that is not about cards is its own.
Only the playground, the tests and the benchmarks import it.
"""

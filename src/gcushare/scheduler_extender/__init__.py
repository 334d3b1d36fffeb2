"""The scheduler side: filter, prioritize, bind and preempt for kube-scheduler, and the answers people ask for.

It keeps one ledger per vendor from watches of Nodes and Pods, and writes one thing: the Binding with the pod's record.
It is not a scheduler: kube-scheduler decides which pod is next, and every rule that is not about cards is its own.
Only the playground, the tests and the benchmarks import it.
"""

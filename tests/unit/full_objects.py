"""Objects as an API server may send them, with every field that has been seen to hold text; for planting secrets."""

from __future__ import annotations

from typing import Any

from gcushare.vendors import ENFLAME
from tests.builders import cards
from tests.extender_objects import inventory_text

Document = dict[str, Any]

TIME = "2026-11-22T02:53:08Z"
_STATE = {
    "waiting": {"reason": "CrashLoopBackOff", "message": "back-off"},
    "running": {"startedAt": TIME},
    "terminated": {
        "exitCode": 1,
        "signal": 9,
        "reason": "Error",
        "message": "what the container wrote when it ended",
        "startedAt": TIME,
        "finishedAt": TIME,
        "containerID": "containerd://1",
    },
}


def metadata(**more: Any) -> Document:
    return {
        "name": "one",
        "generateName": "one-",
        "namespace": "default",
        "selfLink": "/api/v1/x",
        "uid": "9f4c1f0a-0000-4000-8000-000000000001",
        "resourceVersion": "7",
        "generation": 1,
        "creationTimestamp": TIME,
        "deletionTimestamp": TIME,
        "deletionGracePeriodSeconds": 30,
        "labels": {"app.kubernetes.io/name": "x", "team": "blue"},
        "annotations": {
            ENFLAME.record.card_index: "0",
            ENFLAME.record.assigned: "true",
            "gcushare.io/use-cards": "0,1",
            "gcushare.io/node-policy": "spread",
            "gcushare.io/notes": "ours by its prefix alone",
            "enflame.com/password": "the vendor's by its prefix alone",
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
        },
        "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "x", "uid": "1", "controller": True}
        ],
        "finalizers": ["example.com/f"],
        "managedFields": [{"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:metadata": "x"}}],
        **more,
    }


def _container(name: str) -> Document:
    source = {
        "fieldRef": {"fieldPath": "spec.nodeName"},
        "secretKeyRef": {"name": "s", "key": "k"},
        "configMapKeyRef": {"name": "c", "key": "k"},
    }
    probe = {
        "exec": {"command": ["curl", "-H", "Authorization: x"]},
        "httpGet": {
            "path": "/",
            "host": "h",
            "scheme": "HTTP",
            "httpHeaders": [{"name": "Authorization", "value": "x"}],
        },
    }
    return {
        "name": name,
        "image": "registry/x:1",
        "imagePullPolicy": "Always",
        "command": ["gcushare-device-plugin", "sh", "-c", "mysql -phunter"],
        "args": ["--vendor=enflame", "--token", "t", "--listen-port", "1", "--password=p", "--listen-address=0.0.0.0"],
        "workingDir": "/w",
        "env": [{"name": "ENFLAME_VISIBLE_DEVICES", "value": "0"}, {"name": "MODE", "value": "x", "valueFrom": source}],
        "envFrom": [{"prefix": "p", "secretRef": {"name": "s"}, "configMapRef": {"name": "c"}}],
        "resources": {
            "limits": {"enflame.com/gcu-memory": "4"},
            "requests": {"cpu": "1"},
            "claims": [{"name": "claim", "request": "r"}],
        },
        "ports": [{"name": "http", "containerPort": 1, "hostIP": "1.1.1.1", "protocol": "TCP"}],
        "volumeMounts": [{"name": "v", "mountPath": "/m", "subPath": "s", "subPathExpr": "$(X)"}],
        "volumeDevices": [{"name": "v", "devicePath": "/dev/x"}],
        "livenessProbe": probe,
        "lifecycle": {"preStop": {"exec": {"command": ["sh", "-c", "x"]}}},
        "terminationMessagePath": "/dev/termination-log",
        "restartPolicy": "Always",
        "securityContext": {"seLinuxOptions": {"user": "u"}},
    }


def pod_spec() -> Document:
    labels = {"matchLabels": {"team": "x"}, "matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}]}
    return {
        "nodeName": "n1",
        "schedulerName": "default-scheduler",
        "priority": 1,
        "priorityClassName": "high",
        "nodeSelector": {"kubernetes.io/hostname": "n1", "team": "blue"},
        "tolerations": [{"key": "dedicated", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"}],
        "serviceAccountName": "default",
        "serviceAccount": "default",
        "hostNetwork": True,
        "runtimeClassName": "nvidia",
        "restartPolicy": "Always",
        "schedulingGates": [{"name": "example.com/gate"}],
        "hostname": "h",
        "subdomain": "s",
        "hostAliases": [{"ip": "1.1.1.1", "hostnames": ["h"]}],
        "dnsConfig": {"nameservers": ["1.1.1.1"], "searches": ["s"], "options": [{"name": "n", "value": "v"}]},
        "imagePullSecrets": [{"name": "pull"}],
        "affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"labelSelector": labels}]}},
        "topologySpreadConstraints": [{"topologyKey": "zone", "labelSelector": labels}],
        "securityContext": {"sysctls": [{"name": "s", "value": "v"}]},
        "initContainers": [_container("init")],
        "containers": [_container("main")],
        "ephemeralContainers": [_container("debug")],
        "volumes": [
            {"name": "tls", "secret": {"secretName": "s", "items": [{"key": "k", "path": "p"}]}},
            {"name": "host", "hostPath": {"path": "/var/lib", "type": "Directory"}},
            {"name": "disk", "iscsi": {"chapAuthSession": True, "iqn": "iqn", "secretRef": {"name": "s"}}},
            {"name": "git", "gitRepo": {"repository": "https://user:pass@host"}},
        ],
    }


def _conditions() -> list[Document]:
    return [
        {
            "type": "Ready",
            "status": "True",
            "reason": "KubeletReady",
            "message": "free text",
            "lastTransitionTime": TIME,
            "lastHeartbeatTime": TIME,
        }
    ]


POD: Document = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": metadata(),
    "spec": pod_spec(),
    "status": {
        "phase": "Failed",
        "reason": "UnexpectedAdmissionError",
        "message": "Pod was rejected: Allocate failed due to rpc error: code = Unknown desc = x, which is unexpected",
        "conditions": _conditions(),
        "startTime": TIME,
        "podIP": "10.0.0.1",
        "podIPs": [{"ip": "10.0.0.1"}],
        "hostIP": "10.0.0.2",
        "nominatedNodeName": "n1",
        "qosClass": "BestEffort",
        "resize": "Proposed",
        "resourceClaimStatuses": [{"name": "n", "resourceClaimName": "r"}],
        **{
            part: [
                {
                    "name": "main",
                    "image": "i",
                    "imageID": "id",
                    "containerID": "containerd://1",
                    "ready": False,
                    "started": False,
                    "restartCount": 3,
                    "state": _STATE,
                    "lastState": _STATE,
                    "volumeMounts": [{"name": "v", "mountPath": "/m"}],
                    "user": {"linux": {"uid": 0}},
                    "allocatedResourcesStatus": [
                        {"name": "n", "resources": [{"resourceID": "r", "health": "Healthy"}]}
                    ],
                }
            ]
            for part in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
        },
    },
}

NODE: Document = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": metadata(
        labels={"kubernetes.io/hostname": "n1", "cloud.example.com/account": "x"},
        annotations={ENFLAME.inventory_annotation: inventory_text(cards(16)), "csi.volume.kubernetes.io/nodeid": "x"},
    ),
    "spec": {
        "podCIDR": "10.0.0.0/24",
        "podCIDRs": ["10.0.0.0/24"],
        "providerID": "aws:///x",
        "externalID": "x",
        "unschedulable": True,
        "taints": [{"key": "dedicated", "value": "x", "effect": "NoSchedule", "timeAdded": TIME}],
        "configSource": {"configMap": {"name": "n", "namespace": "n", "uid": "u", "kubeletConfigKey": "k"}},
    },
    "status": {
        "capacity": {"cpu": "4", "enflame.com/gcu-memory": "16"},
        "allocatable": {"cpu": "4"},
        "phase": "Running",
        "conditions": _conditions(),
        "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": {
            "machineID": "m",
            "systemUUID": "s",
            "bootID": "b",
            "kernelVersion": "5.15.0-1",
            "osImage": "Ubuntu 22.04",
            "containerRuntimeVersion": "containerd://1.7.2",
            "kubeletVersion": "v1.36.2",
            "kubeProxyVersion": "v1.36.2",
            "operatingSystem": "linux",
            "architecture": "amd64",
        },
        "images": [{"names": ["registry/x:1"], "sizeBytes": 1}],
        "volumesInUse": ["v"],
        "volumesAttached": [{"name": "v", "devicePath": "/dev/x"}],
        "config": {"error": "free text"},
        "runtimeHandlers": [{"name": "runc"}],
    },
}

_REFERENCE = {
    "apiVersion": "v1",
    "kind": "Pod",
    "namespace": "default",
    "name": "one",
    "uid": "u",
    "resourceVersion": "7",
    "fieldPath": "spec.containers{main}",
}
EVENT: Document = {
    "apiVersion": "v1",
    "kind": "Event",
    "metadata": metadata(),
    "type": "Warning",
    "reason": "FailedScheduling",
    "message": "0/3 nodes are available: 1 insufficient GCU Memory in one gcu device",
    "note": "the same in another version of the API",
    "action": "Scheduling",
    "count": 3,
    "firstTimestamp": TIME,
    "lastTimestamp": TIME,
    "eventTime": TIME,
    "involvedObject": dict(_REFERENCE),
    "regarding": dict(_REFERENCE),
    "related": dict(_REFERENCE),
    "source": {"component": "default-scheduler", "host": "n1"},
    "reportingComponent": "default-scheduler",
    "reportingInstance": "x",
    "series": {"count": 1, "lastObservedTime": TIME},
}

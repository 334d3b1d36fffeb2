"""Field numbers of the messages that ``kubectl create`` and ``kubectl auth`` send, as a table.

Type words: ``string``, ``bytes``, ``int``, ``bool``, ``quantity``, ``time``, ``intstr``, a message's name, or ``-`` for
a field that the server sets itself. ``int?`` and ``bool?`` are optional: their zero is a value, where that of a plain
one means nothing was said. ``[]`` before a type repeats it, ``{}`` maps strings to it.
Source: the ``generated.proto`` files of ``k8s.io/api`` and ``k8s.io/apimachinery`` (numbers never change).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

_SCHEMA = """
ObjectMeta: 1 name string, 2 generateName string, 3 namespace string, 4 selfLink -, 5 uid string, 6 resourceVersion
    string, 7 generation -, 8 creationTimestamp -, 9 deletionTimestamp -, 10 deletionGracePeriodSeconds -, 11 labels
    {}string, 12 annotations {}string, 13 ownerReferences []OwnerReference, 14 finalizers []string, 17 managedFields -
OwnerReference: 1 kind string, 3 name string, 4 uid string, 5 apiVersion string, 6 controller bool?, 7
    blockOwnerDeletion bool?
ObjectReference: 1 kind string, 2 namespace string, 3 name string, 4 uid string, 5 apiVersion string, 6
    resourceVersion string, 7 fieldPath string
LocalObjectReference: 1 name string
LabelSelector: 1 matchLabels {}string, 2 matchExpressions []LabelSelectorRequirement
LabelSelectorRequirement: 1 key string, 2 operator string, 3 values []string
v1/Namespace: 1 metadata ObjectMeta, 2 spec -, 3 status -
v1/ConfigMap: 1 metadata ObjectMeta, 2 data {}string, 3 binaryData {}bytes, 4 immutable bool?
v1/Secret: 1 metadata ObjectMeta, 2 data {}bytes, 3 type string, 4 stringData {}string, 5 immutable bool?
v1/ServiceAccount: 1 metadata ObjectMeta, 2 secrets []ObjectReference, 3 imagePullSecrets []LocalObjectReference, 4
    automountServiceAccountToken bool?
v1/ResourceQuota: 1 metadata ObjectMeta, 2 spec ResourceQuotaSpec, 3 status -
ResourceQuotaSpec: 1 hard {}quantity, 2 scopes []string
v1/Service: 1 metadata ObjectMeta, 2 spec ServiceSpec, 3 status -
ServiceSpec: 1 ports []ServicePort, 2 selector {}string, 3 clusterIP string, 4 type string, 5 externalIPs []string, 7
    sessionAffinity string, 8 loadBalancerIP string, 9 loadBalancerSourceRanges []string, 10 externalName string, 11
    externalTrafficPolicy string, 12 healthCheckNodePort int, 13 publishNotReadyAddresses bool, 17 ipFamilyPolicy
    string, 18 clusterIPs []string, 19 ipFamilies []string
ServicePort: 1 name string, 2 protocol string, 3 port int, 4 targetPort intstr, 5 nodePort int, 6 appProtocol string
apps/v1/Deployment: 1 metadata ObjectMeta, 2 spec DeploymentSpec, 3 status -
DeploymentSpec: 1 replicas int?, 2 selector LabelSelector, 3 template PodTemplateSpec, 4 strategy DeploymentStrategy,
    5 minReadySeconds int, 6 revisionHistoryLimit int?, 7 paused bool, 9 progressDeadlineSeconds int?
DeploymentStrategy: 1 type string, 2 rollingUpdate RollingUpdate
RollingUpdate: 1 maxUnavailable intstr, 2 maxSurge intstr
batch/v1/Job: 1 metadata ObjectMeta, 2 spec JobSpec, 3 status -
JobSpec: 1 parallelism int?, 2 completions int?, 3 activeDeadlineSeconds int?, 4 selector LabelSelector, 5
    manualSelector bool?, 6 template PodTemplateSpec, 7 backoffLimit int?, 8 ttlSecondsAfterFinished int?
batch/v1/CronJob: 1 metadata ObjectMeta, 2 spec CronJobSpec, 3 status -
CronJobSpec: 1 schedule string, 2 startingDeadlineSeconds int?, 3 concurrencyPolicy string, 4 suspend bool?, 5
    jobTemplate JobTemplateSpec, 6 successfulJobsHistoryLimit int?, 7 failedJobsHistoryLimit int?, 8 timeZone string
JobTemplateSpec: 1 metadata ObjectMeta, 2 spec JobSpec
PodTemplateSpec: 1 metadata ObjectMeta, 2 spec PodSpec
PodSpec: 2 containers []Container, 3 restartPolicy string, 4 terminationGracePeriodSeconds int?, 5
    activeDeadlineSeconds int?, 6 dnsPolicy string, 7 nodeSelector {}string, 8 serviceAccountName string, 9
    serviceAccount string, 10 nodeName string, 11 hostNetwork bool, 12 hostPID bool, 13 hostIPC bool, 15
    imagePullSecrets []LocalObjectReference, 16 hostname string, 17 subdomain string, 19 schedulerName string, 20
    initContainers []Container, 21 automountServiceAccountToken bool?, 24 priorityClassName string, 25 priority int?
Container: 1 name string, 2 image string, 3 command []string, 4 args []string, 5 workingDir string, 6 ports
    []ContainerPort, 7 env []EnvVar, 8 resources ResourceRequirements, 13 terminationMessagePath string, 14
    imagePullPolicy string, 16 stdin bool, 17 stdinOnce bool, 18 tty bool, 20 terminationMessagePolicy string
ContainerPort: 1 name string, 2 hostPort int, 3 containerPort int, 4 protocol string, 5 hostIP string
EnvVar: 1 name string, 2 value string
ResourceRequirements: 1 limits {}quantity, 2 requests {}quantity
rbac.authorization.k8s.io/v1/Role: 1 metadata ObjectMeta, 2 rules []PolicyRule
rbac.authorization.k8s.io/v1/ClusterRole: 1 metadata ObjectMeta, 2 rules []PolicyRule, 3 aggregationRule
    AggregationRule
AggregationRule: 1 clusterRoleSelectors []LabelSelector
PolicyRule: 1 verbs []string, 2 apiGroups []string, 3 resources []string, 4 resourceNames []string, 5 nonResourceURLs
    []string
rbac.authorization.k8s.io/v1/RoleBinding: 1 metadata ObjectMeta, 2 subjects []Subject, 3 roleRef RoleRef
rbac.authorization.k8s.io/v1/ClusterRoleBinding: 1 metadata ObjectMeta, 2 subjects []Subject, 3 roleRef RoleRef
Subject: 1 kind string, 2 apiGroup string, 3 name string, 4 namespace string
RoleRef: 1 apiGroup string, 2 kind string, 3 name string
scheduling.k8s.io/v1/PriorityClass: 1 metadata ObjectMeta, 2 value int, 3 globalDefault bool, 4 description string, 5
    preemptionPolicy string
policy/v1/PodDisruptionBudget: 1 metadata ObjectMeta, 2 spec PodDisruptionBudgetSpec, 3 status -
PodDisruptionBudgetSpec: 1 minAvailable intstr, 2 selector LabelSelector, 3 maxUnavailable intstr
policy/v1/Eviction: 1 metadata ObjectMeta, 2 deleteOptions DeleteOptions
DeleteOptions: 1 gracePeriodSeconds int?, 2 preconditions Preconditions, 3 orphanDependents bool?, 4 propagationPolicy
    string, 5 dryRun []string
Preconditions: 1 uid string, 2 resourceVersion string
authentication.k8s.io/v1/TokenRequest: 1 metadata ObjectMeta, 2 spec TokenRequestSpec, 3 status -
TokenRequestSpec: 1 audiences []string, 3 boundObjectRef BoundObjectReference, 4 expirationSeconds int?
authentication.k8s.io/v1/SelfSubjectReview: 1 metadata ObjectMeta, 2 status -
authorization.k8s.io/v1/SelfSubjectAccessReview: 1 metadata ObjectMeta, 2 spec SelfSubjectAccessReviewSpec, 3 status -
SelfSubjectAccessReviewSpec: 1 resourceAttributes ResourceAttributes, 2 nonResourceAttributes NonResourceAttributes
ResourceAttributes: 1 namespace string, 2 verb string, 3 group string, 4 version string, 5 resource string,
    6 subresource string, 7 name string
NonResourceAttributes: 1 path string, 2 verb string
BoundObjectReference: 1 kind string, 2 apiVersion string, 3 name string, 4 uid string
"""


def _parse(schema: str) -> Iterator[tuple[str, Mapping[int, tuple[str, str]]]]:
    for line in schema.strip().replace("\n    ", " ").splitlines():
        name, _, text = line.partition(": ")
        fields = (entry.split() for entry in text.split(", "))
        yield name, {int(number): (field, kind) for number, field, kind in fields}


MESSAGES: Mapping[str, Mapping[int, tuple[str, str]]] = dict(_parse(_SCHEMA))
"""Per message: field number to name and type word. Kinds are called ``apiVersion/Kind``."""

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

const (
	failure = policy.SeverityError
	warning = policy.SeverityWarning
	note    = policy.SeverityInfo
)

// The next commands that several causes share. $NS and $NAME are the object, $DNS is the namespace of the cluster DNS.
const (
	nextEdit     = "kubectl -n $NS edit configmap $NAME"
	nextDescribe = "kubectl -n $NS describe pod $NAME"
	nextLogs     = "kubectl -n $DNS logs -l k8s-app=kube-dns --all-containers --prefix"
	nextConfig   = "kubectl -n $DNS get configmap $CONFIG -o yaml"
)

// notRunning are the causes for which pods of the cluster DNS are missing or not ready.
const notRunning = "dns-scaled-to-zero corefile-missing dns-pod-not-started dns-service-selector " +
	"corefile-refused corefile-loop dns-crash-loop"

// Checks returns the table of causes, in the order in which the checks run. A cause is before what follows
// from it. The checks whose duration depends most on tenants are last: they leave the others their time.
func Checks() []Check {
	return slices.Concat(serviceCauses(), corefileCauses(), podCauses(), admissionCauses(), probeCauses(), workloadCauses(), nameCauses())
}

// serviceCauses are about the Service of the cluster DNS, and its address and port.
func serviceCauses() []Check {
	return []Check{
		{
			Code: "dns-service-missing", Severity: failure, What: "the cluster has no Service of a cluster DNS",
			cause: "pods have its address in their resolv.conf; without the Service no server replies there",
			next:  "kubectl -n $NS get services; install a cluster DNS with the address of the kubelets' clusterDNS",
			needs: []need{read(Services)}, find: findServiceMissing,
		},
		{
			Code: "dns-scaled-to-zero", Severity: failure, What: "the Deployment of the cluster DNS has 0 replicas",
			cause: "it was scaled down by hand, by an autoscaler, or before an upgrade",
			next:  "kubectl -n $NS scale deployment $NAME --replicas=2",
			needs: []need{needDNS, read(Deployments)}, find: findScaledToZero,
		},
		{
			Code: "corefile-missing", Severity: failure,
			What:  "the pods of the cluster DNS mount a ConfigMap or a key that does not exist, or an empty Corefile",
			cause: "a pod that is started now has no configuration; those that run keep what they have",
			next:  "kubectl -n $NS get configmap $NAME -o yaml", needs: []need{needDNS, needConfigMaps}, find: findNoConfiguration,
		},
		{
			Code: "dns-pod-not-started", Severity: failure, What: "a pod of the cluster DNS cannot be created, scheduled or started",
			cause: "the evidence has the reason, such as a quota, a webhook, missing resources, an image, a mount, or the network plugin",
			next:  nextDescribe, unless: "corefile-missing",
			needs: []need{needDNS, read(Pods)}, whole: []need{read(Deployments)}, find: findNotStarted,
		},
		{
			Code: "dns-service-selector", Severity: failure, What: "the DNS Service selects no pods, or also those of an application",
			cause: "the selector of the Service and the labels of the DNS pods differ, or an application has the same labels",
			next:  "kubectl -n $NS get pods --show-labels",
			needs: []need{needDNS, read(Pods)}, unless: "dns-scaled-to-zero dns-pod-not-started", find: findServiceSelector,
		},
		{
			Code: "dns-service-address", Severity: failure,
			What:  "the kubelets give pods an address at which there is not a cluster DNS, or none",
			cause: "the Service was created again with another address, the node cache was removed, or clusterDNS of the kubelets is wrong",
			next: "kubectl -n kube-system get configmap kubelet-config -o yaml; " +
				"create the Service with this clusterIP, or correct clusterDNS on the nodes",
			needs: []need{needDNS, needKubelet, read(DaemonSets)}, find: findServiceAddress,
		},
		{
			Code: "dns-service-port", Severity: failure,
			What:  "the DNS Service has no port 53 over UDP or TCP, or leads to a port that the DNS pods do not have",
			cause: "clients query over UDP, and over TCP if the reply is too large; the endpoints are ready, and queries reach no server",
			next:  "kubectl -n $NS get service $NAME -o jsonpath='{.spec.ports}'; correct port and targetPort",
			needs: []need{needDNS, read(Pods)}, find: findServicePort,
		},
	}
}

// corefileCauses are about Corefiles with which CoreDNS does not start or loses names.
func corefileCauses() []Check {
	needs := []need{needDNS, needCorefile}
	return []Check{
		{
			Code: "corefile-refused", Severity: failure, What: "CoreDNS refuses the Corefile",
			cause: "CoreDNS does not start with it; one that runs keeps the configuration that it has until it is restarted",
			next:  nextEdit, needs: needs, find: findRefused,
		},
		{
			Code: "corefile-loop", Severity: failure, What: "the cluster DNS forwards to itself or to a loopback address",
			cause: "each query for a name outside the cluster returns to the server until it fails",
			next:  nextEdit + "; forward to the servers of the network",
			needs: append(needs, read(Services)), whole: []need{needKubelet}, find: findLoop,
		},
		{
			Code: "corefile-domain", Severity: failure, What: "the Corefile does not serve the cluster domain in the search list of pods",
			cause: "the plugin kubernetes is missing or has another zone: the short names of Services do not resolve",
			next:  nextEdit, needs: needs, whole: []need{needKubelet}, find: findDomain,
		},
		{
			Code: "corefile-lost-names", Severity: failure,
			What:  "the Corefile does not serve all names of the cluster, or not at the port of the Service",
			cause: "plugins answer in a fixed order: hosts, template and acl before kubernetes; namespaces limits what kubernetes has",
			next:  nextEdit, needs: needs, unless: "dns-service-port corefile-refused", find: findLostNames,
		},
		{
			Code: "corefile-values", Severity: warning,
			What:  "a value of the Corefile loses or delays queries, or a file beside it is not imported",
			cause: "a name that is created later does not exist for the clients, or queries fail under load",
			next:  nextEdit, needs: needs, find: findValues,
		},
		{
			Code: "corefile-no-forward", Severity: warning, What: "the Corefile loses names outside the cluster, or their reverse names",
			cause: "without forward such names get SERVFAIL or REFUSED; without fallthrough in kubernetes reverse names get NXDOMAIN",
			next:  nextEdit, needs: needs, find: findNoForward,
		},
		{
			Code: "corefile-not-reloaded", Severity: warning,
			What:  "the Corefile changed after the pods of the cluster DNS had started, and they do not reload it",
			cause: "the plugin reload is missing: the pods serve the previous Corefile",
			next:  "kubectl -n $NS rollout restart deployment coredns", needs: needs, find: findNotReloaded,
		},
	}
}

// podCauses are about the pods of the cluster DNS and of node caches.
func podCauses() []Check {
	return []Check{
		{
			Code: "dns-crash-loop", Severity: failure,
			What:  "a container of the cluster DNS crashes again and again, or reaches its memory limit",
			cause: "the log of the previous container has the reason",
			next:  "kubectl -n $NS logs $NAME --previous", unless: "corefile-refused corefile-loop",
			needs: []need{needDNS, read(Pods)}, find: findCrashLoop,
		},
		{
			Code: "node-network-not-ready", Severity: failure, What: "a node has no ready pod of kube-proxy or of the network plugin",
			cause: "pods on this node do not reach the address of the DNS Service, or no pod of another node",
			next:  "kubectl get pods -A -o wide --field-selector spec.nodeName=$NAME",
			needs: []need{read(DaemonSets, Nodes, Pods)}, find: findNetworkNotReady,
		},
		{
			Code: "dns-local-traffic", Severity: failure,
			What:  "the DNS Service keeps queries on their node, and a node has no ready pod of the cluster DNS",
			cause: "with internalTrafficPolicy: Local, queries of the pods on this node are dropped",
			next:  "kubectl -n $NS get service $NAME -o jsonpath='{.spec.internalTrafficPolicy}'; set Cluster",
			needs: []need{needDNS, read(Slices, Nodes)}, unless: notRunning, find: findLocalTraffic,
		},
		{
			Code: "dns-node-not-ready", Severity: warning,
			What:  "a pod of the cluster DNS is on a node that is not ready, or has no network",
			cause: "queries that reach this pod are lost until it is removed from the endpoints",
			next:  "kubectl describe node $NAME",
			needs: []need{needDNS, read(Pods, Nodes)}, find: findNodeNotReady,
		},
		{
			Code: "dns-no-endpoints", Severity: failure, What: "no endpoint of the DNS Service is ready",
			cause: "no pod of the cluster DNS is ready: every lookup in the cluster fails",
			next:  "kubectl -n $NS get pods -o wide; kubectl -n $NS get endpointslices -l kubernetes.io/service-name=$NAME",
			needs: []need{needDNS, read(Slices)}, unless: notRunning, find: findNoEndpoints,
		},
		{
			Code: "dns-endpoints-not-ready", Severity: warning, What: "some endpoints of the DNS Service are not ready",
			cause: "the other endpoints serve all queries",
			next:  nextDescribe, needs: []need{needDNS, read(Slices)}, unless: notRunning, find: findNotReady,
		},
		{
			Code: "dns-not-redundant", Severity: warning, What: "one pod, or one node, serves the DNS of a cluster with several nodes",
			cause: "a restart of the pod, or a failure of the node, stops every lookup in the cluster",
			next:  "kubectl -n $NS get pods -o wide; run 2 replicas, and spread them by kubernetes.io/hostname",
			needs: []need{needDNS, read(Pods, Nodes)}, find: findNotRedundant,
		},
		{
			Code: "dns-resources", Severity: warning,
			What:  "the cluster DNS has less than 70 MiB of memory or 100m of CPU, requests no memory, or was evicted",
			cause: "it is killed or evicted under load, or throttled: it replies late, or loses packets when its socket buffer is full",
			next:  "kubectl -n $NS get pod $NAME -o jsonpath='{.spec.containers[*].resources}'",
			needs: []need{needDNS, read(Pods)}, find: findResources,
		},
		{
			Code: "nodecache-not-ready", Severity: failure, What: "a node has no ready pod of the node cache",
			cause: "pods on this node get no replies from the node cache",
			next:  "kubectl get pods -A -o wide --field-selector spec.nodeName=$NAME",
			needs: []need{read(DaemonSets, Nodes, Pods)}, find: findNodeCacheNotReady,
		},
		{
			Code: "kubelet-config-drift", Severity: warning,
			What:  "kubelets run with another cluster DNS or domain than kubelet-config has, or than most others",
			cause: "the DNS configuration of a pod depends on its node; new nodes get the configuration of the ConfigMap",
			next:  "kubeadm upgrade node phase kubelet-config on the nodes, or correct the ConfigMap", unless: "dns-service-address",
			needs: []need{needRunning}, whole: []need{read(Kubelets)}, find: findKubeletDrift,
		},
	}
}

// admissionCauses are about admission.
func admissionCauses() []Check {
	return []Check{
		{
			Code: "webhook-unreachable", Severity: failure,
			What:  "an admission webhook for pods with failurePolicy Fail has no ready endpoint",
			cause: "a pod that the webhook selects cannot be created until it replies; that may be one of the cluster DNS",
			next:  "kubectl get endpointslices -A; kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations $NAME -o yaml",
			needs: []need{read(Validating, Mutating, Services, Slices)}, find: findWebhooks(admissionv1.Fail),
		},
		{
			Code: "admission-skipped", Severity: warning,
			What:  "an admission policy of dnsconfigurer has no binding, or its webhook has no ready endpoint",
			cause: "pods are created unchecked",
			next:  "kubectl -n dnsconfigurer get pods; kubectl get validatingadmissionpolicybindings",
			needs: []need{read(Policies, Bindings, Validating, Mutating, Services, Slices)}, find: findAdmissionSkipped,
		},
	}
}

// probeCauses are about the replies of DNS servers.
func probeCauses() []Check {
	return []Check{
		{
			Code: "probe-no-reply", Severity: failure,
			What:  "a DNS server does not reply, or not over UDP, TCP or IPv6, and another one does",
			cause: "a pod that hangs, a node whose network fails, a firewall, a NetworkPolicy, or stale connection tracking on the node",
			next: "kubectl -n $DNS get pods,endpointslices -o wide; kubectl get networkpolicies -A; " +
				"on the node: nft list ruleset, conntrack -L --dport 53",
			unless: "dns-service-address dns-service-port " + notRunning,
			needs:  []need{needReplies}, whole: []need{read(Probes)}, find: findNoReply,
		},
		{
			Code: "probe-pod-no-reply", Severity: failure, What: "a pod gets no reply from the cluster DNS, neither over UDP nor over TCP",
			cause: "a NetworkPolicy, the network of the pod's node, or kube-proxy there; or no server of the cluster DNS works",
			next:  "kubectl get networkpolicies -A; kubectl -n $DNS get pods -o wide; on the node of the pod: nft list ruleset",
			needs: []need{needContainer}, find: findPodNoReply,
		},
		{
			Code: "probe-unreliable", Severity: warning, What: "a DNS server loses queries, or replies late",
			cause: "the server is overloaded or throttled, or the network loses packets; a client repeats a lost query after five seconds",
			next:  "kubectl -n $DNS top pods; kubectl -n $DNS get pods -o wide", unless: "probe-no-reply",
			needs: []need{needReplies}, whole: []need{read(Probes)}, find: findUnreliable,
		},
		{
			Code: "probe-aaaa-nxdomain", Severity: failure, What: "a name with an A record gets NXDOMAIN for AAAA",
			cause: "musl and others take NXDOMAIN for the whole name; a template, a firewall or a server outside the cluster answers AAAA",
			next:  nextConfig, unless: "corefile-lost-names", needs: []need{needReplies}, find: findAAAA,
		},
		{
			Code: "probe-wrong-answer", Severity: failure,
			What:  "a DNS server fails for a name of the cluster, or has other addresses than the API server",
			cause: "the server does not reach the API server, may not list Services, has another cluster domain, or another server replies",
			next:  nextLogs, unless: "corefile-domain corefile-lost-names",
			needs: []need{needReplies}, whole: []need{read(Services)}, find: findWrongAnswer,
		},
		{
			Code: "probe-external", Severity: failure, What: "names outside the cluster fail, and names of the cluster resolve",
			cause: "the servers to which the cluster DNS forwards do not reply, or refuse; the network from its pods to them is blocked",
			next:  nextConfig + "; query the servers to which it forwards from a node", unless: "corefile-loop corefile-no-forward",
			needs: []need{needReplies}, find: findExternal,
		},
	}
}

// workloadCauses are about pods, and what is in their resolv.conf.
func workloadCauses() []Check {
	return []Check{
		{
			Code: "client-flood", Severity: warning, What: "the servers refuse queries, and one client sends most of them",
			cause: "a program looks up names without a pause or a cache; while the servers are at a limit others lose their queries, too",
			next:  "dnsconfigurer advise; dnsconfigurer doctor --clients names",
			needs: []need{needClients}, whole: []need{read(Clients)}, find: findFlood,
		},
		{
			Code: "client-queries", Severity: note, What: "with `--clients`: the pods with most queries, failures and NXDOMAIN",
			cause: "the servers of dnsconfigurer count the queries of each client",
			next:  "dnsconfigurer advise, which names what is wasted, and the change that saves it",
			needs: []need{needClients}, whole: []need{read(Clients)}, find: findClients,
		},
		{
			Code: "pod-file", Severity: failure,
			What:  "the pod of `--pod` has other nameservers, search domains or options than its node gives to new pods",
			cause: "a resolv.conf is written when a pod starts: the settings of the node changed since, or the pod replaced the file",
			next:  "create the pod again, or see docs/nodes.md",
			needs: []need{needPodFile, read(Pods), needFacts}, find: findPodFile,
		},
		{
			Code: "pod-sandbox", Severity: failure, What: "the kubelet cannot start a pod because of its DNS configuration or its hostname",
			cause: "the event has the reason; docs/checks.md explains the rules of the kubelet",
			next:  "kubectl -n $NS get pod $NAME -o yaml | dnsconfigurer render -o explain -f -",
			needs: []need{read(Events, Pods)}, find: findSandbox,
		},
		{
			Code: "pod-dns-limits", Severity: warning, What: "the kubelet left out nameservers or search domains of pods",
			cause: "a pod has at most 3 nameservers, and 32 search domains of 2048 characters",
			next:  "kubectl -n $NS get pod $NAME -o yaml | dnsconfigurer render -o explain -f -",
			needs: []need{read(Events, Pods)}, find: findLimits,
		},
		{
			Code: "pod-host-network", Severity: note,
			What:  "a pod on the host's network has the policy ClusterFirst, which means Default there",
			cause: "it resolves no Services; ClusterFirstWithHostNet would",
			next:  "kubectl -n $NS get pod $NAME -o jsonpath='{.spec.hostNetwork} {.spec.dnsPolicy}'",
			needs: []need{read(Pods)}, find: findHostNetwork,
		},
	}
}

// nameCauses are about names of the cluster, and the network to its servers.
func nameCauses() []Check {
	return []Check{
		{
			Code: "service-no-pods", Severity: warning,
			What:  "the selector of a Service matches no pod, or no pod of a headless Service is ready",
			cause: "without ready pods a headless Service has no name, unless it has publishNotReadyAddresses; others refuse connections",
			next:  "kubectl -n $NS get service $NAME -o jsonpath='{.spec.selector}'; kubectl -n $NS get pods --show-labels",
			needs: []need{read(Services, Pods)}, find: findNoPods,
		},
		{
			Code: "subdomain-service", Severity: warning, What: "a pod has a subdomain without a headless Service of this name",
			cause: "the FQDN of a pod resolves only through a headless Service with the name of its subdomain",
			next:  "kubectl -n $NS get services; kubectl -n $NS get pod $NAME -o jsonpath='{.spec.subdomain}'",
			needs: []need{read(Services, Pods)}, find: findSubdomain,
		},
		{
			Code: "external-name-address", Severity: warning, What: "the externalName of a Service is an address or not a hostname",
			cause: "a Service of type ExternalName is an alias of a name",
			next:  "kubectl -n $NS get service $NAME -o jsonpath='{.spec.externalName}'",
			needs: []need{read(Services)}, find: findExternalAddress,
		},
		{
			Code: "external-name-missing", Severity: failure,
			What:  "the externalName of a Service is a name of the cluster that does not exist, or leads through too many aliases",
			cause: "the Service was removed, or the name has a typing error; an alias of itself has no address",
			next:  "kubectl -n $NS get service $NAME -o jsonpath='{.spec.externalName}'",
			needs: []need{read(Services)}, find: findExternalMissing,
		},
		{
			Code: "network-policy", Severity: failure, What: "NetworkPolicies deny queries from pods to the cluster DNS",
			cause: "once a NetworkPolicy with rules of a direction selects a pod, only what such a policy permits reaches it or leaves it",
			next:  "kubectl -n $NS get networkpolicies -o yaml; permit egress to the pods of the cluster DNS on their port, UDP and TCP",
			needs: networkNeeds(), find: findDenied,
		},
		{
			Code: "network-policy-tcp", Severity: warning,
			What:  "NetworkPolicies permit queries from pods to the cluster DNS over UDP, and deny them over TCP",
			cause: "lookups with large replies fail: the reply over UDP is truncated, and the query over TCP is dropped",
			next:  "kubectl -n $NS get networkpolicies -o yaml; permit egress to the pods of the cluster DNS on their port, UDP and TCP",
			needs: networkNeeds(), find: findDeniedTCP,
		},
	}
}

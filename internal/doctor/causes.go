// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"embed"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// Check is a row of the table of checks.
type Check struct {
	Code     string
	Severity policy.Severity
	What     string // what is wrong, for the documentation

	cause string // why it is wrong, or what follows from it
	next  string // the command to run next; $NS, $NAME: of the object; $DNS, $CONFIG: of the cluster DNS
	search
}

// search is how a check searches for its cause.
type search struct {
	find   func(*view) []hit
	needs  needs  // without which the check cannot run
	whole  needs  // without which no hit does not mean healthy
	unless string // earlier codes that cause this one: then it is a line of their evidence
}

// causes.txt has the texts of the checks, in the order in which they run: code and severity, what is wrong, the cause, and
// the next command. A cause is before what follows from it. The checks whose duration depends most on tenants are last:
// they leave the others their time.
//
//go:embed causes.txt
var causes embed.FS

// Checks returns the table of checks, in the order in which they run.
func Checks() (list []Check) {
	text, err := causes.ReadFile("causes.txt")
	if err != nil {
		panic(err) // it is in the binary
	}
	all := searches()
	for block := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
		lines := strings.Split(block, "\n")
		code, severity, _ := strings.Cut(lines[0], " ")
		list = append(list, Check{code, policy.Severity(severity), lines[1], lines[2], lines[3], all[code]})
	}
	return list
}

// notRunning are the causes for which pods of the cluster DNS are missing or not ready.
const notRunning = "dns-scaled-to-zero corefile-missing dns-pod-not-started dns-service-selector " +
	"corefile-refused corefile-loop dns-crash-loop"

// searches returns the searches by the codes of their checks.
func searches() map[string]search {
	corefile, replies, clients := needs{needDNS, needCorefile}, needs{needReplies}, needs{needClients}
	networks := needs{needDNS, read(Networks, Pods, Namespaces, Slices), needEndpoints}
	return map[string]search{
		"dns-service-missing":  {findServiceMissing, needs{read(Services)}, nil, ""},
		"dns-scaled-to-zero":   {findScaledToZero, needs{needDNS, read(Deployments)}, nil, ""},
		"corefile-missing":     {findNoConfiguration, needs{needDNS, needConfigMaps}, nil, ""},
		"dns-pod-not-started":  {findNotStarted, needs{needDNS, read(Pods)}, needs{read(Deployments)}, "corefile-missing"},
		"dns-service-selector": {findServiceSelector, needs{needDNS, read(Pods)}, nil, "dns-scaled-to-zero dns-pod-not-started"},
		"dns-service-address":  {findServiceAddress, needs{needDNS, needKubelet, read(DaemonSets)}, nil, ""},
		"dns-service-port":     {findServicePort, needs{needDNS, read(Pods)}, nil, ""},

		"corefile-refused":      {findRefused, corefile, nil, ""},
		"corefile-loop":         {findLoop, append(corefile, read(Services)), needs{needKubelet}, ""},
		"corefile-domain":       {findDomain, corefile, needs{needKubelet}, ""},
		"corefile-lost-names":   {findLostNames, corefile, nil, "dns-service-port corefile-refused"},
		"corefile-values":       {findValues, corefile, nil, ""},
		"corefile-no-forward":   {findNoForward, corefile, nil, ""},
		"corefile-not-reloaded": {findNotReloaded, corefile, nil, ""},

		"dns-crash-loop":          {findCrashLoop, needs{needDNS, read(Pods)}, nil, "corefile-refused corefile-loop"},
		"node-network-not-ready":  {findNetworkNotReady, needs{read(DaemonSets, Nodes, Pods)}, nil, ""},
		"dns-local-traffic":       {findLocalTraffic, needs{needDNS, read(Slices, Nodes)}, nil, notRunning},
		"dns-node-not-ready":      {findNodeNotReady, needs{needDNS, read(Pods, Nodes)}, nil, ""},
		"dns-no-endpoints":        {findNoEndpoints, needs{needDNS, read(Slices)}, nil, notRunning},
		"dns-endpoints-not-ready": {findNotReady, needs{needDNS, read(Slices)}, nil, notRunning},
		"dns-not-redundant":       {findNotRedundant, needs{needDNS, read(Pods, Nodes)}, nil, ""},
		"dns-resources":           {findResources, needs{needDNS, read(Pods)}, nil, ""},
		"nodecache-not-ready":     {findNodeCacheNotReady, needs{read(DaemonSets, Nodes, Pods)}, nil, ""},
		"nodecache-settings":      {findNodeCacheSettings, needs{read(DaemonSets, Services), needNodeCache}, needs{needNodeCacheFiles}, ""},
		"kubelet-config-drift":    {findKubeletDrift, needs{needRunning}, needs{read(Kubelets)}, "dns-service-address"},

		"webhook-unreachable": {findWebhooks(admissionv1.Fail), needs{read(Validating, Mutating, Services, Slices)}, nil, ""},
		"admission-skipped": {findAdmissionSkipped,
			needs{read(Policies, Bindings, Validating, Mutating, Services, Slices)}, nil, ""},

		"probe-no-reply":      {findNoReply, replies, needs{read(Probes)}, "dns-service-address dns-service-port " + notRunning},
		"probe-pod-no-reply":  {findPodNoReply, needs{needContainer}, nil, ""},
		"probe-unreliable":    {findUnreliable, replies, needs{read(Probes)}, "probe-no-reply"},
		"probe-aaaa-nxdomain": {findAAAA, replies, nil, "corefile-lost-names"},
		"probe-wrong-answer":  {findWrongAnswer, replies, needs{read(Services)}, "corefile-domain corefile-lost-names"},
		"probe-external":      {findExternal, replies, nil, "corefile-loop corefile-no-forward"},

		"client-flood":     {findFlood, clients, needs{read(Clients)}, ""},
		"client-queries":   {findClients, clients, needs{read(Clients)}, ""},
		"pod-file":         {findPodFile, needs{needPodFile, read(Pods), needFacts}, nil, ""},
		"pod-sandbox":      {findSandbox, needs{read(Events, Pods)}, nil, ""},
		"pod-dns-limits":   {findLimits, needs{read(Events, Pods)}, nil, ""},
		"dead-nameserver":  {findDeadAddress, needs{read(Services, Pods)}, nil, "dns-service-missing dns-service-address"},
		"pod-host-network": {findHostNetwork, needs{read(Pods)}, nil, ""},

		"service-no-pods":       {findNoPods, needs{read(Services, Pods)}, nil, ""},
		"subdomain-service":     {findSubdomain, needs{read(Services, Pods)}, nil, ""},
		"external-name-address": {findExternalAddress, needs{read(Services)}, nil, ""},
		"external-name-missing": {findExternalMissing, needs{read(Services)}, nil, ""},
		"network-policy":        {findDenied, networks, nil, ""},
		"network-policy-tcp":    {findDeniedTCP, networks, nil, ""},
	}
}

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"context"
	"embed"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// MaxFindings is the number of findings with the same code; DoctorFinding.More counts the
// others. In a large cluster one habit gives thousands.
const MaxFindings = 20

// hit is a finding of a check.
type hit struct {
	object   object
	message  string
	evidence []string
	severity policy.Severity // "": the first of the check
	cause    string          // "": that of the check
	next     string          // "": that of the check
}

// found is a hit with the severity, the cause and the next command of its check.
func found(o object, message string, evidence ...string) hit {
	return hit{object: o, message: message, evidence: evidence}
}

// object names an object of the API.
type object struct{ kind, namespace, name string }

func (o object) String() string {
	if o.namespace != "" {
		return o.kind + " " + o.namespace + "/" + o.name
	}
	return strings.TrimSpace(o.kind + " " + o.name)
}

// need is a condition for a check. why is empty if the check does not apply to the cluster.
type need func(*view) (why string, ok bool)

type needs []need

// met reports whether all needs are met; why is that of the first that is not.
func (list needs) met(v *view) (why string, ok bool) {
	for _, n := range list {
		if why, ok := n(v); !ok {
			return why, false
		}
	}
	return "", true
}

// read needs all objects of some kinds.
func read(kinds ...Kind) need {
	return func(v *view) (string, bool) {
		for _, k := range kinds {
			if why := v.Unread[k]; why != "" {
				return why, false
			}
		}
		return "", true
	}
}

// needDNS is a Service of the cluster DNS; its absence is a finding of its own.
func needDNS(v *view) (string, bool) { return v.Unread[Services], v.dns != nil }

func needKubelet(v *view) (string, bool) { return v.kubeletErr, v.kubelet != nil }

// needCorefile is a Corefile. A cluster DNS without one is not CoreDNS.
func needCorefile(v *view) (string, bool) {
	why, _ := needConfigMaps(v)
	return cmp.Or(v.Unread[Services], why), v.corefile != nil
}

// needConfigMaps are the ConfigMaps that the pods of the cluster DNS mount.
func needConfigMaps(v *view) (string, bool) {
	why := cmp.Or(v.Unread[Pods], v.Unread[ConfigMaps])
	for _, p := range v.dnsPods {
		why = cmp.Or(why, v.unreadConfigMap(MountedConfigMaps(p.Namespace, &p.Spec)...))
	}
	return why, why == ""
}

// needReplies is a reply of at least one server to this machine or to the container: without any, the network of
// this machine is the likely cause.
func needReplies(v *view) (string, bool) {
	return cmp.Or(v.Unread[Probes], noReplies), len(v.usable) > 0
}

const noReplies = "no DNS server of the cluster replied to this machine: run doctor in a pod or on a node, or set --dns-server " +
	"or --ephemeral-container"

const tooLate = "the time was over before the check ended: set --timeout"

// Run returns what is wrong in a cluster. It is deterministic, unless ctx ends: then the checks
// that have not ended are not checked.
func Run(ctx context.Context, s *Snapshot) v1alpha1.DoctorResult {
	v := newView(s)
	v.done = ctx.Done()
	r := run{view: v, causes: map[string]string{}, result: v1alpha1.DoctorResult{
		Findings: []v1alpha1.DoctorFinding{}, NotChecked: []v1alpha1.DoctorNotChecked{}, Probes: append([]probe{}, s.Probes...)}}
	for _, c := range Checks() {
		r.check(c)
	}
	if s.Scope.PodName != "" {
		r.result.Pod = v.explainPod()
	}
	slices.SortStableFunc(r.result.Findings, func(a, b v1alpha1.DoctorFinding) int {
		return cmp.Compare(rank(a.Severity), rank(b.Severity))
	})
	return r.result
}

// run is a run of the checks.
type run struct {
	*view
	result v1alpha1.DoctorResult
	causes map[string]string // the code of the finding that explains a code with hits, or the code itself
}

// check runs a check, and adds its findings: to the evidence of their cause, if that was found.
func (r *run) check(c Check) {
	why, ok := c.needs.met(r.view)
	if !ok {
		r.addNotChecked(c.Code, why)
		return
	}
	hits := c.find(r.view)
	if r.isLate() {
		r.addNotChecked(c.Code, tooLate)
		return
	}
	if len(hits) == 0 {
		if why, _ := c.whole.met(r.view); why != "" {
			r.addNotChecked(c.Code, why)
			return
		}
		r.result.Passed++
		return
	}
	found := c.findings(r.view, hits)
	for code := range strings.FieldsSeq(c.unless) {
		if cause := r.causes[code]; cause != "" {
			r.causes[c.Code] = cause
			i := slices.IndexFunc(r.result.Findings, func(f v1alpha1.DoctorFinding) bool { return f.Code == cause })
			f := &r.result.Findings[i]
			f.Evidence = excerpt.List(append(f.Evidence, fmt.Sprintf("%s: %s (%s)", found[0].Object, found[0].Message, c.Code)))
			return
		}
	}
	r.causes[c.Code] = c.Code
	r.result.Findings = append(r.result.Findings, found...)
}

// HasErrors reports whether a result has findings of severity error.
func HasErrors(r v1alpha1.DoctorResult) bool {
	return slices.ContainsFunc(r.Findings, func(f v1alpha1.DoctorFinding) bool { return f.Severity == string(policy.SeverityError) })
}

func rank(severity string) int {
	return slices.Index([]string{string(policy.SeverityError), string(policy.SeverityWarning), string(policy.SeverityInfo)}, severity)
}

// addNotChecked adds a check that could not run. The reason may quote a container or a node; "": the check
// does not apply.
func (r *run) addNotChecked(code, why string) {
	if why == "" {
		return
	}
	why, list := excerpt.Text(why, excerpt.MaxMessage), &r.result.NotChecked
	i := slices.IndexFunc(*list, func(n v1alpha1.DoctorNotChecked) bool { return n.Why == why })
	if i < 0 {
		i, *list = len(*list), append(*list, v1alpha1.DoctorNotChecked{Why: why})
	}
	(*list)[i].Checks = append((*list)[i].Checks, code)
}

// findings returns the findings of hits, with bounded texts.
func (c Check) findings(v *view, hits []hit) (list []v1alpha1.DoctorFinding) {
	namespace, config := systemNamespace, "coredns"
	if v.dns != nil {
		namespace = v.dns.Namespace
	}
	if v.corefile != nil {
		config = v.corefile.config.Name
	}
	for i, h := range hits {
		if i == MaxFindings {
			list[i-1].More = len(hits) - i
			break
		}
		o := object{h.object.kind, excerpt.Text(h.object.namespace, excerpt.MaxValue), excerpt.Text(h.object.name, excerpt.MaxValue)}
		names := strings.NewReplacer("$NS", o.namespace, "$NAME", o.name, "$DNS", namespace, "$CONFIG", config)
		severity, _, _ := strings.Cut(c.Severity, ",")
		list = append(list, v1alpha1.DoctorFinding{
			Code: c.Code, Severity: cmp.Or(string(h.severity), severity), Object: o.String(),
			Message: excerpt.Text(h.message, excerpt.MaxMessage), Evidence: append([]string{}, excerpt.List(h.evidence)...),
			Cause: cmp.Or(h.cause, c.cause), Next: names.Replace(cmp.Or(h.next, c.next)),
		})
	}
	return list
}

// Check is a row of the table of checks.
type Check struct {
	Code     string
	Severity string // of its findings; two, such as "error, warning", if it depends on the case
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

// causes.txt has the texts of the checks, in the order in which they run: code and severities, what is wrong, the cause, and
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
		list = append(list, Check{code, severity, lines[1], lines[2], lines[3], all[code]})
	}
	return list
}

// notRunning are the causes for which pods of the cluster DNS are missing or not ready.
const notRunning = "dns-scaled-to-zero corefile-missing dns-pod-not-started dns-service-selector " +
	"corefile-refused corefile-loop dns-crash-loop"

// searches returns the searches by the codes of their checks.
func searches() map[string]search {
	corefile, replies := needs{needDNS, needCorefile}, needs{needReplies}
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
		"node-pods-not-ready":     {findNodePodsNotReady, needs{read(DaemonSets, Nodes, Pods)}, nil, ""},
		"dns-local-traffic":       {findLocalTraffic, needs{needDNS, read(Slices, Nodes)}, nil, notRunning},
		"dns-node-not-ready":      {findNodeNotReady, needs{needDNS, read(Pods, Nodes)}, nil, ""},
		"dns-endpoints-not-ready": {findNotReady, needs{needDNS, read(Slices)}, nil, notRunning},
		"dns-not-redundant":       {findNotRedundant, needs{needDNS, read(Pods, Nodes)}, nil, ""},
		"dns-resources":           {findResources, needs{needDNS, read(Pods)}, nil, ""},
		"nodecache-settings": {findNodeCacheSettings, needs{read(DaemonSets, Services)},
			needs{needNodeCacheFiles, needConfigMaps, needNodeSearches}, ""},
		"kubelet-config-drift": {findKubeletDrift, needs{needRunning}, needs{read(Kubelets)}, "dns-service-address"},

		"webhook-unreachable": {findWebhooks(admissionv1.Fail), needs{read(Validating, Mutating, Services, Slices)}, nil, ""},
		"admission-skipped": {findAdmissionSkipped,
			needs{read(Policies, Bindings, Validating, Mutating, Services, Slices)}, nil, ""},

		"probe-no-reply": {findNoReply, needs{needQueries}, needs{read(Probes), needContainer},
			"dns-service-address dns-service-port " + notRunning},
		"probe-unreliable":    {findUnreliable, replies, needs{read(Probes)}, "probe-no-reply"},
		"probe-aaaa-nxdomain": {findAAAA, replies, nil, "corefile-lost-names"},
		"probe-wrong-answer":  {findWrongAnswer, replies, needs{read(Services)}, "corefile-domain corefile-lost-names"},
		"probe-external":      {findExternal, replies, nil, "corefile-loop corefile-no-forward"},

		"client-queries":   {findClients, needs{needClients}, needs{read(Clients)}, ""},
		"pod-file":         {findPodFile, needs{needPodFile, read(Pods), needFacts}, nil, ""},
		"pod-sandbox":      {findSandbox, needs{read(Events, Pods)}, nil, ""},
		"pod-dns-limits":   {findLimits, needs{read(Events, Pods)}, nil, ""},
		"dead-nameserver":  {findDeadAddress, needs{read(Services, Pods)}, nil, "dns-service-missing dns-service-address"},
		"pod-host-network": {findHostNetwork, needs{read(Pods)}, nil, ""},

		"service-no-pods":   {findNoPods, needs{read(Services, Pods)}, nil, ""},
		"subdomain-service": {findSubdomain, needs{read(Services, Pods)}, nil, ""},
		"external-name":     {findExternalName, needs{read(Services)}, nil, ""},
		"network-policy":    {findDenied, needs{needDNS, read(Networks, Pods, Namespaces, Slices), needEndpoints}, nil, ""},
	}
}

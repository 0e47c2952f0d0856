// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// MaxFindings is the number of findings with the same code; DoctorFinding.More counts the
// others. In a large cluster one habit gives thousands.
const MaxFindings = 20

// Check is a row of the table of checks.
type Check struct {
	Code     string
	Severity policy.Severity
	What     string // what is wrong, for the documentation

	cause string // why it is wrong, or what follows from it
	next  string // the command to run next; $NS, $NAME: of the object

	needs []need // without which the check cannot run
	whole []Kind // without all of which no hit does not mean healthy
	find  func(*view) []hit
}

// hit is a finding of a check.
type hit struct {
	object   object
	message  string
	evidence []string
	cause    string // "": that of the check
	next     string // "": that of the check
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
	return cmp.Or(v.Unread[Services], v.Unread[Pods], v.unreadMount()), v.corefile != nil
}

// needReplies is a reply of at least one server, by any means: without any, the network from here
// is the likely cause.
func needReplies(v *view) (string, bool) {
	return cmp.Or(v.Unread[Probes], noReplies), len(v.usable) > 0
}

// needNetwork is a reply that came through the network: a forwarded port says nothing of it.
func needNetwork(v *view) (string, bool) {
	if why, ok := needReplies(v); !ok {
		return why, false
	}
	return cmp.Or(v.Unread[Probes], noNetwork), slices.ContainsFunc(v.usable, usedNetwork)
}

const noReplies = "no DNS server of the cluster replied to this machine: run doctor in a pod or on a node, or set --dns-server, " +
	"--port-forward or --ephemeral-container"

const noNetwork = "no DNS server of the cluster replied to this machine through the network, of which forwarded ports show nothing: " +
	"run doctor in a pod or on a node, or set --dns-server or --ephemeral-container"

const tooLate = "the time was over before the check ended: set --timeout"

// Checks returns the table of checks, in the order in which they run. Those whose duration depends
// most on tenants are last: they leave the others their time.
func Checks() []Check {
	return slices.Concat(serviceChecks(), reverseChecks(), workloadChecks(), corefileChecks(), corefileHabits(),
		nodeChecks(), kubeletChecks(), admissionChecks(), probeChecks(), meansChecks(), podFileChecks(), podChecks(), nameChecks(),
		networkChecks())
}

// Run returns what is wrong in a cluster. It is deterministic, unless ctx ends: then the checks
// that have not ended are not checked.
func Run(ctx context.Context, s *Snapshot) v1alpha1.DoctorResult {
	v := newView(s)
	v.done = ctx.Done()
	result := v1alpha1.DoctorResult{Findings: []v1alpha1.DoctorFinding{}, NotChecked: []v1alpha1.DoctorNotChecked{}, Probes: s.Probes}
	if result.Probes == nil {
		result.Probes = []v1alpha1.DoctorProbe{}
	}
	for _, c := range Checks() {
		if why, ok := c.canRun(v); !ok {
			result.NotChecked = addNotChecked(result.NotChecked, c.Code, why)
			continue
		}
		hits := c.find(v)
		if v.isLate() {
			result.NotChecked = addNotChecked(result.NotChecked, c.Code, tooLate)
			continue
		}
		switch why, ok := read(c.whole...)(v); {
		case len(hits) == 0 && !ok:
			result.NotChecked = addNotChecked(result.NotChecked, c.Code, why)
		case len(hits) == 0:
			result.Passed++
		}
		result.Findings = append(result.Findings, c.findings(hits)...)
	}
	if s.Scope.PodName != "" {
		result.Pod = v.explainPod()
		v.noteContainer(result.Pod)
	}
	slices.SortStableFunc(result.Findings, func(a, b v1alpha1.DoctorFinding) int { return cmp.Compare(rank(a.Severity), rank(b.Severity)) })
	return result
}

// HasErrors reports whether a result has findings of severity error.
func HasErrors(r v1alpha1.DoctorResult) bool {
	return slices.ContainsFunc(r.Findings, func(f v1alpha1.DoctorFinding) bool { return f.Severity == string(policy.SeverityError) })
}

func rank(severity string) int {
	return slices.Index([]string{string(policy.SeverityError), string(policy.SeverityWarning), string(policy.SeverityInfo)}, severity)
}

func (c Check) canRun(v *view) (why string, ok bool) {
	for _, n := range c.needs {
		if why, ok := n(v); !ok {
			return why, false
		}
	}
	return "", true
}

// addNotChecked adds a check that could not run. The reason may quote a container or a node.
func addNotChecked(list []v1alpha1.DoctorNotChecked, code, why string) []v1alpha1.DoctorNotChecked {
	if why == "" {
		return list // it does not apply
	}
	why = excerpt.Text(why, excerpt.MaxMessage)
	i := slices.IndexFunc(list, func(n v1alpha1.DoctorNotChecked) bool { return n.Why == why })
	if i < 0 {
		i, list = len(list), append(list, v1alpha1.DoctorNotChecked{Why: why})
	}
	list[i].Checks = append(list[i].Checks, code)
	return list
}

// findings returns the findings of hits, with bounded texts.
func (c Check) findings(hits []hit) (list []v1alpha1.DoctorFinding) {
	for i, h := range hits {
		if i == MaxFindings {
			list[i-1].More = len(hits) - i
			break
		}
		o := object{h.object.kind, excerpt.Text(h.object.namespace, excerpt.MaxValue), excerpt.Text(h.object.name, excerpt.MaxValue)}
		names := strings.NewReplacer("$NS", o.namespace, "$NAME", o.name)
		list = append(list, v1alpha1.DoctorFinding{
			Code: c.Code, Severity: string(c.Severity), Object: o.String(), Message: excerpt.Text(h.message, excerpt.MaxMessage),
			Evidence: append([]string{}, excerpt.List(h.evidence)...), Cause: cmp.Or(h.cause, c.cause),
			Next: names.Replace(cmp.Or(h.next, c.next)),
		})
	}
	return list
}

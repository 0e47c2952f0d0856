// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

// Reasons of the events on running pods.
const (
	ReasonRefreshed = "DNSRefreshed"
	ReasonDrift     = "DNSDrift"
	ReasonRestored  = "DNSRestored"
)

// RefreshResult is what the agent did with the file of a running pod.
type RefreshResult string

// The results. All except Refreshed and WrittenBack leave the file as it
// is.
const (
	Refreshed    RefreshResult = "refreshed"
	WrittenBack  RefreshResult = "restored"      // the file has the kubelet's text again, by command
	UpToDate     RefreshResult = "unchanged"     // the file has the decision
	DryRun       RefreshResult = "dry_run"       // Refreshed, but for the setting
	NotPermitted RefreshResult = "not_permitted" // by mode, setting or annotation
	Unconfirmed  RefreshResult = "unconfirmed"   // the node facts are new, and no pod has confirmed them yet
	Modified     RefreshResult = "pod_changed"   // the pod has changed the file
	Refused      RefreshResult = "refused"       // there is no DNS configuration for the pod
	Failed       RefreshResult = "failed"        // the file cannot be read or written
)

// RefreshResults returns all results.
func RefreshResults() []RefreshResult {
	return []RefreshResult{Refreshed, WrittenBack, UpToDate, DryRun, NotPermitted, Unconfirmed, Modified, Refused, Failed}
}

// Drift is how the file of a running pod differs from the decision; "" if it does not.
type Drift string

// The kinds of drift.
const (
	Missing    Drift = "missing"
	Unreadable Drift = "unreadable"
	Empty      Drift = "empty"
	Different  Drift = "different" // the pod has changed the file
	Outdated   Drift = "outdated"  // the decision has changed
)

// Drifts returns all kinds of drift.
func Drifts() []Drift { return []Drift{Missing, Unreadable, Empty, Different, Outdated} }

// Refresh describes what was done with the file of a running pod.
type Refresh struct {
	Sandbox cri.Sandbox
	Result  RefreshResult
	Drift   Drift             // before
	DNS     resolvconf.Config // the decision
	Detail  string            // an error, or ""; at most 1,024 bytes
}

// ReportRefresh logs r and records an event on the pod, for files that were rewritten and those
// that differ, except by a change that the pod does not follow. It never blocks.
func (r *Reporter) ReportRefresh(p Refresh) {
	s := p.Sandbox
	log := r.log.With("pod", name(s.Namespace)+"/"+name(s.Name), "podUID", name(s.UID), "result", p.Result)
	dns := excerptConfig(p.DNS)
	switch {
	case p.Result == Refreshed:
		log.Info("resolv.conf refreshed", "nameservers", dns.Nameservers, "searches", dns.Searches, "options", dns.Options)
		r.events.record(podReference(s), corev1.EventTypeNormal, ReasonRefreshed,
			fmt.Sprintf("resolv.conf of the running pod is rewritten: %q", p.DNS.String()))
	case p.Result == WrittenBack:
		log.Info("resolv.conf restored")
		r.events.record(podReference(s), corev1.EventTypeNormal, ReasonRestored,
			"resolv.conf of the running pod has the kubelet's text again, by command")
	case p.Result == DryRun:
		log.Info("resolv.conf would be refreshed", "nameservers", dns.Nameservers, "searches", dns.Searches, "options", dns.Options)
	case p.Drift == Outdated && (p.Result == NotPermitted || p.Result == Unconfirmed): // as with the kubelet
	default:
		log.Warn("resolv.conf differs from the decision", "drift", p.Drift, "detail", p.Detail)
		r.events.record(podReference(s), corev1.EventTypeWarning, ReasonDrift,
			fmt.Sprintf("resolv.conf of the running pod is not as decided: %s (%s) %s", p.Drift, p.Result, p.Detail))
	}
}

func podReference(s cri.Sandbox) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: s.Namespace, Name: s.Name, UID: types.UID(s.UID)}
}

func excerptConfig(c resolvconf.Config) resolvconf.Config {
	return resolvconf.Config{
		Nameservers: excerpt.List(c.Nameservers), Searches: excerpt.List(c.Searches), Options: excerpt.List(c.Options),
	}
}

// Reasons of the events on nodes.
const (
	ReasonBypassBegan = "ShimBypassed"
	ReasonBypassEnded = "ShimRestored"

	ReasonHostFileUnusable = "HostResolvConfUnusable"
	ReasonHostFileUsable   = "HostResolvConfUsable"
)

// nodeReference returns a reference to a node. Like in the kubelet's events, the UID is the node's
// name, so that kubectl describe node shows the event.
func nodeReference(node string) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node, UID: types.UID(node)}
}

// SendNode sends an event about a node.
func SendNode(ctx context.Context, client rest.Interface, node, kind, reason, message string) error {
	e := newEvent(node, nodeReference(node), kind, reason, message)
	if err := client.Post().Namespace(e.Namespace).Resource("events").Timeout(callTimeout).Body(e).Do(ctx).Error(); err != nil {
		return fmt.Errorf("sending an event about the node: %w", err)
	}
	return nil
}

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// machineName is the name of machine in results.
const machineName = "this machine"

// FindPod returns the pod or workload with the name NAME, NAMESPACE/NAME or KIND/NAME. A
// workload has its own name and the name of its pods. KIND is as in kubectl; of a workload whose pods
// are numbered KIND/NAME is the first pod. namespace is the default for name and for the
// workloads; node is as in [kube.Workload.OnNode].
func FindPod(workloads []kube.Workload, name, namespace, node string) (kube.Workload, error) {
	placed := make([]kube.Workload, 0, len(workloads))
	for _, w := range workloads {
		at := w.OnNode(namespace, node)
		w.Namespace, w.Pod = at.Namespace, at.Pod
		placed = append(placed, w)
	}
	first, rest, slash := strings.Cut(name, "/")
	inFirst := func(w kube.Workload) bool { return w.Namespace == first }
	if kind := kindOf(first); slash && kind != "" && !slices.ContainsFunc(placed, inFirst) {
		return only(placed, kind, namespace+"/"+rest, func(w kube.Workload, name string) (kube.Workload, bool) {
			if w.Kind != kind || name != w.Namespace+"/"+w.Name || w.Ordinals.Base == "" {
				return w, w.Kind == kind && name == w.Namespace+"/"+w.Name
			}
			return w.WithOrdinal(int64(w.Ordinals.First))
		})
	}
	if !slash {
		name = namespace + "/" + name
	}
	return only(placed, "pod or workload", name, named)
}

// only returns the one workload that match returns for name. what is what name should be.
func only(workloads []kube.Workload, what, name string,
	match func(w kube.Workload, name string) (kube.Workload, bool)) (kube.Workload, error) {
	var found []kube.Workload
	var others, places []string
	for _, w := range workloads {
		w, ok := match(w, name)
		if !ok {
			others = append(others, w.Namespace+"/"+w.Name)
			continue
		}
		found = append(found, w)
		places = append(places, w.Kind+" in "+w.At("").String())
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return kube.Workload{}, notFound(what, name, others)
	}
	return kube.Workload{}, fmt.Errorf("pod %s is ambiguous: %s", name, strings.Join(places, ", "))
}

// kindOf returns the kind of a workload that kubectl calls name, in its output too, such as
// statefulset.apps; "" if it is none.
func kindOf(name string) string {
	name, _, _ = strings.Cut(strings.ToLower(name), ".")
	for _, k := range [...]struct{ kind, short string }{
		{"Pod", "po"}, {"PodTemplate", "podtemplate"}, {"Deployment", "deploy"}, {"StatefulSet", "sts"}, {"DaemonSet", "ds"},
		{"ReplicaSet", "rs"}, {"ReplicationController", "rc"}, {"Job", "job"}, {"CronJob", "cj"},
	} {
		if singular := strings.ToLower(k.kind); name == singular || name == singular+"s" || name == k.short {
			return k.kind
		}
	}
	return ""
}

// named returns w if NAMESPACE/NAME is its name or the name of its pod. Of a workload whose pods
// are numbered it returns the pod with that name.
func named(w kube.Workload, name string) (kube.Workload, bool) {
	if name == w.Namespace+"/"+w.Name || name == w.Namespace+"/"+w.Pod.Name {
		return w, true
	}
	number, ok := strings.CutPrefix(name, w.Namespace+"/"+w.Ordinals.Base+"-")
	ordinal, err := strconv.ParseInt(number, 10, 32)
	if !ok || err != nil || strconv.FormatInt(ordinal, 10) != number {
		return w, false
	}
	return w.WithOrdinal(ordinal)
}

// maxOthers is the number of names in an error. A cluster may have 70,000.
const maxOthers = 5

// notFound returns the error of a name that no pod has. what is what it should be, and
// others are the names that there are.
func notFound(what, name string, others []string) error {
	hint := ""
	if meant := closest(name, others); meant != "" {
		hint = "did you mean " + meant + "?"
	}
	namespace, _, _ := strings.Cut(name, "/")
	isOutside := func(o string) bool { return !strings.HasPrefix(o, namespace+"/") }
	inside := slices.DeleteFunc(slices.Clone(others), isOutside)
	others = append(inside, slices.DeleteFunc(others, func(o string) bool { return !isOutside(o) })...)
	list := strings.Join(others[:min(len(others), maxOthers)], ", ")
	if more := len(others) - maxOthers; more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	err := fmt.Errorf("no %s %s: found only %s", what, name, list)
	if len(others) == 0 {
		err = fmt.Errorf("no %s %s: found none", what, name)
	}
	return &kube.InputError{Err: err, Hint: hint}
}

// closest returns the NAMESPACE/NAME that name probably means: the name in another namespace, a
// similar one, or a pod whose name begins with the name of its workload. "": there is none.
func closest(name string, others []string) string {
	_, short, _ := strings.Cut(name, "/")
	for _, o := range others {
		if _, other, _ := strings.Cut(o, "/"); other == short {
			return o
		}
	}
	if similar, ok := excerpt.Closest(name, others); ok {
		return similar
	}
	if i := slices.IndexFunc(others, func(o string) bool { return strings.HasPrefix(o, name+"-") }); i >= 0 {
		return others[i]
	}
	return ""
}

// etcHosts returns the names that the kubelet writes into the pod's /etc/hosts. The pod's
// own name is one of them if the manifest has the addresses of a running pod.
func etcHosts(pod *corev1.Pod, d *policy.Decision) map[string][]netip.Addr {
	v4, v6 := netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()
	hosts := map[string][]netip.Addr{
		"localhost":     {v4, v6},
		"ip6-localhost": {v6},
		"ip6-loopback":  {v6},
	}
	add := func(ip string, names ...string) {
		a, ok := config.ParseAddr(ip)
		for _, name := range names {
			if ok && name != "" {
				hosts[strings.ToLower(name)] = append(hosts[strings.ToLower(name)], a)
			}
		}
	}
	if !pod.Spec.HostNetwork {
		for _, ip := range pod.Status.PodIPs {
			add(ip.IP, d.Hostname)
			if d.FQDN != d.Hostname {
				add(ip.IP, d.FQDN)
			}
		}
	}
	for _, alias := range pod.Spec.HostAliases {
		add(alias.IP, alias.Hostnames...)
	}
	return hosts
}

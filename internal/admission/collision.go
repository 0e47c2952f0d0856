// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// Collisions returns, for each object, the findings that follow from the objects before it:
// nodes truncate long host names without making them unique (rule N4), so that pods with
// different names can have the same host name.
func Collisions(objects []Object) [][]policy.Finding {
	type hostKey struct{ namespace, host string }
	first := map[hostKey]string{} // the name before the truncation
	findings := make([][]policy.Finding, len(objects))
	for i, o := range objects {
		c := newCheck(&o)
		name, field := c.host(), c.o.hostnameField()
		if o.Pod.HostnameOverride != nil {
			name, field = *o.Pod.HostnameOverride, c.o.ofPod("spec.hostnameOverride")
		}
		host := fqdn.CutHostname(name)
		if host == "" || o.Pod.HostNetwork {
			continue
		}
		key := hostKey{o.Pod.Namespace, host}
		other, used := first[key]
		switch {
		case !used:
			first[key] = name
		case other != name: // one of the two was truncated
			c.warn(CodeHostnameCollision, policy.EnforcedByNode, field,
				fmt.Sprintf("truncated to %d characters, the host name is %s, the same as that of %s", fqdn.MaxHostname, host, clip(other)),
				"let the names differ in their first 63 characters, or set spec.hostname")
			findings[i] = c.findings
		}
	}
	return findings
}

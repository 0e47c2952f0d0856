// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/fqdn"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// Collisions returns, for each of objects, what is wrong with it beside the ones
// before it: nodes cut long host names without making them unique (rule N4), so that
// pods of different names find themselves under the same one.
func Collisions(objects []Object) [][]policy.Finding {
	type named struct{ namespace, host string }
	first := map[named]string{} // the name before the cut
	found := make([][]policy.Finding, len(objects))
	for i, o := range objects {
		c := check{o: &o}
		name, field := c.host(), c.o.hostnameField()
		if o.Pod.HostnameOverride != nil {
			name, field = *o.Pod.HostnameOverride, c.o.ofPod("spec.hostnameOverride")
		}
		host := fqdn.CutHostname(name)
		if host == "" || o.Pod.HostNetwork {
			continue
		}
		key := named{o.Pod.Namespace, host}
		other, taken := first[key]
		switch {
		case !taken:
			first[key] = name
		case other != name: // one of the two was cut
			c.warn(CodeHostnameCollision, policy.EnforcedByNode, field,
				fmt.Sprintf("truncated to %d characters, the host name is %s, the same as that of %s", fqdn.MaxHostname, host, clip(other)),
				"let the names differ in their first 63 characters, or set spec.hostname")
			found[i] = c.found
		}
	}
	return found
}

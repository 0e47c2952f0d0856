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
	type cut struct{ namespace, host string }
	first := map[cut]string{} // the name that was cut
	found := make([][]policy.Finding, len(objects))
	for i, o := range objects {
		c := check{o: &o}
		name := c.host()
		if o.Pod.HostnameOverride != nil {
			name = *o.Pod.HostnameOverride
		}
		host := fqdn.CutHostname(name)
		if host == name || host == "" || o.Pod.HostNetwork {
			continue
		}
		key := cut{o.Pod.Namespace, host}
		other, taken := first[key]
		switch {
		case !taken:
			first[key] = name
		case other != name:
			c.warn(CodeHostnameCollision, policy.EnforcedByNode, c.o.hostnameField(),
				fmt.Sprintf("cut to %d characters the host name is %s, as that of %s", fqdn.MaxHostname, host, clip(other)),
				"let the names differ in their first 63 characters, or set spec.hostname")
			found[i] = c.found
		}
	}
	return found
}

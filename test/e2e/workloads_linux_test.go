// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// testWorkloads resolves the names that controllers give to pods.
func (c *cluster) testWorkloads(t *testing.T) {
	c.applyFile(t, "workloads.yaml")
	c.wait(t, "jsonpath={.status.readyReplicas}=2", "statefulset/db")
	want := map[string]string{}
	for _, peer := range []string{"db-0", "db-1"} {
		addresses := c.run(t, "", "get", "pod", peer, "--namespace", namespace, "--output", "jsonpath={.status.podIPs[*].ip}")
		want[peer+".db"] = strings.Join(slices.Sorted(slices.Values(strings.Fields(addresses))), " ")
	}
	for _, library := range libraries {
		await(t, "the names of the peers", func() error {
			got, err := c.lookUp(t, "db-0", library, slices.Sorted(maps.Keys(want))...)
			if err == nil && !maps.Equal(got, want) {
				err = fmt.Errorf("%s: %v, want %v", library, got, want)
			}
			return err
		})
	}
	await(t, "the SRV records of the peers", func() error {
		const srv = "33" // the type
		got, err := c.tryExec(t, "db-0", "/bin/glibc-ask", srv, "_sql._tcp.db")
		if err == nil && got != "2" {
			err = errors.New(got + " records, want 2")
		}
		return err
	})
	if got, want := c.view(t, "db-1").Hostname, "db-1.db.shop.svc.cluster.local"; got != want {
		t.Errorf("hostname %s, want %s", got, want)
	}
	c.wait(t, "condition=Complete", "job/shards")
}

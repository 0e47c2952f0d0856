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

	"github.com/dnsconfigurer/dnsconfigurer/test/nodetools"
)

// The peers of a StatefulSet, and the members of an Indexed Job, which end when each has
// resolved the names of both.
const workloads = `apiVersion: v1
kind: Service
metadata: {namespace: shop, name: db}
spec: {clusterIP: None, ipFamilyPolicy: RequireDualStack, selector: {app: db}, ports: [{name: sql, port: 5432}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {namespace: shop, name: db}
spec:
  serviceName: db
  replicas: 2
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      setHostnameAsFQDN: true
      terminationGracePeriodSeconds: 1
      containers:
      - {name: main, image: ` + nodetools.LibrariesImage + `, imagePullPolicy: Never}
---
apiVersion: v1
kind: Service
metadata: {namespace: shop, name: shards}
spec: {clusterIP: None, selector: {job-name: shards}, publishNotReadyAddresses: true}
---
apiVersion: batch/v1
kind: Job
metadata: {namespace: shop, name: shards}
spec:
  completionMode: Indexed
  completions: 2
  parallelism: 2
  template:
    spec:
      subdomain: shards
      restartPolicy: Never
      containers:
      - name: main
        image: ` + nodetools.LibrariesImage + `
        imagePullPolicy: Never
        command: [/bin/busybox, sh, -c, 'for i in 0 1; do until /bin/glibc-ask 4 shards-$i.shards | /bin/busybox grep -q ^10; do /bin/busybox sleep 0.2; done; done; /bin/busybox sleep 5']
`

// testWorkloads resolves the names that controllers give to pods.
func (c *cluster) testWorkloads(t *testing.T) {
	c.apply(t, workloads)
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

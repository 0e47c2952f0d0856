// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/podfile"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

const inferringConfiguration = `apiVersion: dnsconfigurer.dev/v1alpha1
kind: AgentConfiguration
listen: unix://DIR/agent.sock
manifests: DIR/manifests
sandboxDirectories: [DIR/sandboxes]
inferNodeFacts: true
node: {resolvConf: DIR/resolv.conf, nodeName: node1}
`

const autopathPod = `apiVersion: v1
kind: Pod
metadata: {name: "%d", namespace: shop, annotations: {dnsconfigurer.dev/policy: ClusterFirstWithAutopath}}
spec: {containers: [{name: c, image: i}]}
`

// TestServer_InferNodeFacts: the agent writes no file before two new pods have shown the node facts,
// and then those of all pods. Files that a container may have written show nothing.
func TestServer_InferNodeFacts(t *testing.T) {
	files := map[string]string{}
	for i := range 4 {
		files[fmt.Sprintf("manifests/%d.yaml", i)] = fmt.Sprintf(autopathPod, i)
		files[fmt.Sprintf("sandboxes/%d/resolv.conf", i)] = clusterText
	}
	s := newServerTest(t, inferringConfiguration, files)
	s.connect()
	client := s.client
	// await announces pods, those from created on as new, until all have one of the outcomes.
	awaitOutcome := func(pods, created int, outcomes string) {
		t.Helper()
		var announced time.Time
		await(t, func() bool {
			list, err := client.Pods(t.Context(), "")
			if err != nil {
				t.Fatal(err)
			}
			decided := 0
			for _, p := range list.Pods {
				if p.Outcome != "" && strings.Contains(outcomes, p.Outcome) {
					decided++
				}
			}
			if decided < pods && time.Since(announced) > time.Second { // the agent has not read all manifests in time
				announced = time.Now()
				s.send(podfile.Event{Kind: podfile.Reset})
				for i := range pods {
					e := sandboxEvent(s.dir, i)
					e.Sandbox.Annotations["dnsconfigurer.dev/policy"] = "ClusterFirstWithAutopath"
					if i >= created {
						e.Kind, e.First = podfile.Creating, true
					}
					s.send(e)
				}
				s.send(podfile.Event{Kind: podfile.Synchronized})
			}
			return decided == pods
		})
	}
	awaitOutcome(3, 2, "bad_config") // one new pod
	status, err := client.Status(t.Context())
	if err != nil || status.NodeFacts != nil || len(status.Problems) != 1 || status.Problems[0] != errFactsUnknown.Error() {
		t.Errorf("%+v, %v", status, err)
	}
	awaitOutcome(4, 2, "edited late")
	if status, err = client.Status(t.Context()); err != nil || len(status.Problems) != 0 {
		t.Errorf("%+v, %v", status, err)
	}
	if diff := cmp.Diff(&v1alpha1.NodeFacts{Source: "pods", ClusterDNS: []string{"10.96.0.10"}, ClusterDomain: "cluster.local",
		ResolvConf: s.dir + "/resolv.conf"}, status.NodeFacts); diff != "" {
		t.Errorf("node facts (-want +got):\n%s", diff)
	}
}

// TestServer_InferReplaced: the task of a configuration does not apply inferred facts after the next
// configuration was applied, and a path that the previous configuration set is not an inferred one.
func TestServer_InferReplaced(t *testing.T) {
	dir := prepareServerTest(t, inferringConfiguration, nil).dir
	c, err := AgentKind().FromFile(filepath.Join(dir, "agent.yaml")).Load()
	if err != nil {
		t.Fatal(err)
	}
	s := Agent{Version: "test", Log: slog.New(slog.DiscardHandler)}
	registry := prometheus.NewRegistry()
	s.agent, s.pods = newApplier(newMetrics(registry), s.Log), NewLookupMetrics(registry, "dnsconfigurer_agent_")
	s.inference.cluster = tracker[clusterFacts]{known: clusterFacts{"10.96.0.10", "cluster.local"}, isKnown: true}
	if _, err := s.apply(c); err != nil {
		t.Fatal(err)
	}
	if s.facts.Load() == nil {
		t.Error("the facts are not kept")
	}
	i := &inferrer{server: &s, config: c, lookups: s.lookups.Load()}
	// show adds pods that show other facts, and reports whether these are applied.
	show := func(domain string) (applied bool) {
		text := fmt.Sprintf("search shop.svc.%[1]s svc.%[1]s %[1]s\nnameserver 10.96.0.10\noptions ndots:5\n", domain)
		for _, uid := range []string{"a", "b"} {
			applied = i.add(observation{policy.Pod{Namespace: "shop", UID: uid}, resolvconf.Parse(text).Config()}) != nil
		}
		return applied
	}
	if !show("first.example") {
		t.Error("the facts of pods are not applied")
	}
	c.AgentConfiguration.Node.ResolvConf = nil
	if _, err := s.apply(c); err != nil {
		t.Fatal(err)
	}
	if f := s.facts.Load(); f != nil {
		t.Errorf("a path that was not inferred is kept: %+v", f)
	}
	if show("second.example") {
		t.Error("the facts are applied to a configuration that was replaced")
	}
}

// TestReadHosts_FIFO: the agent does not wait for the writer of a FIFO.
func TestReadHosts_FIFO(t *testing.T) {
	dir := t.TempDir()
	fifo, file, link := filepath.Join(dir, "fifo"), filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("nameserver 192.0.2.1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	if hosts := readHosts([]string{fifo, filepath.Join(dir, "missing"), link}); len(hosts) != 1 || hosts[0].Path != link {
		t.Errorf("%+v", hosts)
	}
}

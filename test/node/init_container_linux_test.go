// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/dnsconfigurer/dnsconfigurer/internal/podfile"
	"github.com/dnsconfigurer/dnsconfigurer/test/debian"
	"github.com/dnsconfigurer/dnsconfigurer/test/nodetools"
)

// testInitContainer runs the init container of the Kubernetes documentation, which waits for a Service
// with the nslookup of BusyBox: the file that the agent has written must satisfy its parser, with musl as
// in Alpine, also after a refresh and after a restoration. Without the path, sh would run its own nslookup.
func (n *nri) testInitContainer(t *testing.T) {
	busybox := debian.BusyBox(t)
	n.addAddresses(t, clusterDNS, nodeCache)
	defer n.run(t, fmt.Sprintf("ip addr del %s/32 dev lo && ip addr del %s/32 dev lo && echo removed", clusterDNS, nodeCache))
	n.write(t, "objects/objects.yaml", clusterObjects)
	n.serveNames(t, n.program, []string{"dns", "--manifests", filepath.Join(n.dir, "objects"),
		"--listen", at(clusterDNS), "--listen", at(nodeCache)}, clusterDNS, nodeCache)
	pod := nriPod("init-container", corev1.PodSpec{}, "ClusterFirstWithAutopath")
	n.writeManifest(t, pod)
	ctx, cancel := within(t.Context())
	defer cancel()
	sandbox, config := n.startSandbox(ctx, t, pod)
	for i, c := range []struct {
		name, command string // the command of dnsconfigurer before; "": none
		origin        podfile.Origin
	}{
		{"first write", "", podfile.Written},
		{"restored", "restore", podfile.Restored},
		{"refreshed", "refresh", podfile.Written},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.command != "" {
				if output, code := n.command(t, c.command+" shop/"+pod.Name); code != "0" {
					t.Fatalf("exit code %s: %s", code, output)
				}
			}
			container, err := n.startContainer(ctx, sandbox, config, nodetools.PauseImage, func(c *runtimeapi.ContainerConfig) {
				c.Metadata = &runtimeapi.ContainerMetadata{Name: fmt.Sprint("init-", i)}
				c.Command = []string{"/bin/busybox", "sh", "-c",
					"until /bin/nslookup web." + namespace + ".svc.cluster.local; do busybox sleep 1; done"}
				c.Mounts = []*runtimeapi.Mount{{HostPath: busybox, ContainerPath: "/bin/nslookup", Readonly: true}}
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := poll(func() error {
				s, err := n.runtime.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: container})
				if err == nil && s.Status.State != runtimeapi.ContainerState_CONTAINER_EXITED {
					err = fmt.Errorf("the init container waits: %s", s.Status.State)
				}
				if err == nil && s.Status.ExitCode != 0 {
					err = fmt.Errorf("exit code %d: %s", s.Status.ExitCode, s.Status.Message)
				}
				return err
			}); err != nil {
				t.Fatalf("%v, with the file\n%s", err, n.awaitPod(t, pod.Name, decided).Actual)
			}
			text := n.awaitPod(t, pod.Name, decided).Actual
			if podfile.OriginOf([]byte(text)) != c.origin || !strings.Contains(text, "nameserver ") {
				t.Errorf("origin %v, want %v:\n%s", podfile.OriginOf([]byte(text)), c.origin, text)
			}
		})
	}
}

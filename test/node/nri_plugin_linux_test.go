// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
	corev1 "k8s.io/api/core/v1"

	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// otherPlugin is an NRI plugin that sets a variable of each container.
type otherPlugin struct {
	synchronized chan struct{}
	created      atomic.Int32
	source       atomic.Pointer[string] // of the mount at /etc/resolv.conf
}

func (p *otherPlugin) Synchronize(context.Context, []*api.PodSandbox, []*api.Container) ([]*api.ContainerUpdate, error) {
	close(p.synchronized)
	return nil, nil
}

func (p *otherPlugin) CreateContainer(_ context.Context, _ *api.PodSandbox,
	c *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	p.created.Add(1)
	for _, m := range c.GetMounts() {
		if m.GetDestination() == "/etc/resolv.conf" {
			p.source.Store(&m.Source)
		}
	}
	adjustment := &api.ContainerAdjustment{}
	adjustment.AddEnv("OTHER", "plugin")
	return adjustment, nil, nil
}

// testOtherPlugin runs another plugin before and after the relay: it sees the runtime's mount, and
// containers have what both plugins do.
func (n *nri) testOtherPlugin(t *testing.T) {
	for _, index := range []string{"10", "99"} {
		t.Run(index, func(t *testing.T) {
			p := &otherPlugin{synchronized: make(chan struct{})}
			socket := fmt.Sprintf("/proc/%d/root/run/nri/nri.sock", n.init.Process.Pid)
			s := must.Get(stub.New(p, stub.WithSocketPath(socket), stub.WithPluginName("other"), stub.WithPluginIdx(index)))(t)
			must.Succeed(t, s.Start(t.Context()))
			defer s.Wait()
			defer s.Stop()
			<-p.synchronized
			pod := nriPod("other-"+index, corev1.PodSpec{}, "ClusterFirstWithAutopath")
			d := n.decide(n.hook(t, pod), pod)
			container := n.startPod(t, pod)
			n.awaitConfig(t, container, d.Config())
			if value, err := n.exec(t.Context(), container, "/bin/busybox", "sh", "-c", "echo $OTHER"); err != nil || value != "plugin\n" {
				t.Errorf("%v, the other plugin's variable is %q", err, value)
			}
			source := p.source.Load()
			if p.created.Load() != 1 || source == nil || !strings.HasSuffix(*source, "/resolv.conf") ||
				!strings.Contains(*source, "/sandboxes/") {
				t.Errorf("the other plugin was called %d times, and has seen the mount %v", p.created.Load(), source)
			}
		})
	}
}

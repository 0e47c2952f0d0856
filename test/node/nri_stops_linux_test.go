// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
	"github.com/dnsconfigurer/dnsconfigurer/test/nodetools"
)

// gracePeriod is that of the container that ignores SIGTERM. containerd#14083: a plugin that
// registers meanwhile stalls the start of pods as long.
const gracePeriod = 3 * time.Second

// stoppedContainer is a container that is stopped during a fault.
type stoppedContainer struct {
	name, script string
	grace        time.Duration
	exitCode     int32
}

// stoppedContainers end in the ways that the kubelet knows. A preStop hook is a command that the
// kubelet runs before StopContainer.
var stoppedContainers = []stoppedContainer{
	{"ignores", `trap "" TERM; touch /ready; while :; do busybox sleep 0.1; done`, gracePeriod, 128 + 9},
	{"graceful", `trap "busybox sleep 2; exit 3" TERM; touch /ready; while :; do busybox sleep 0.1; done`, patience, 3},
}

// testStops stops containers with a grace period, and starts and removes pods, while agent, relay
// and runtime are killed, hang and restart. All stops end as they do without faults.
func (n *nri) testStops(t *testing.T) {
	for _, f := range []struct {
		name   string
		happen func(t *testing.T)
	}{
		{"none", func(*testing.T) {}},
		{"the agent is killed and started", func(t *testing.T) {
			n.end(t, n.agent, "KILL")
			n.startAgent(t)
		}},
		{"the agent hangs", func(t *testing.T) {
			n.signal(t, n.agent, "STOP")
			time.Sleep(gracePeriod / 2) // any time is right
			n.signal(t, n.agent, "CONT")
		}},
		{"the relay is killed and started", func(t *testing.T) {
			n.end(t, n.relay, "KILL")
			n.startRelay(t)
		}},
		{"the relay is restarted", func(t *testing.T) {
			n.end(t, n.relay, "TERM")
			n.startRelay(t)
		}},
		{"the relay hangs for half of the grace period", func(t *testing.T) {
			n.signal(t, n.relay, "STOP")
			time.Sleep(gracePeriod / 2) // any time is right
			n.signal(t, n.relay, "CONT")
		}},
		{"containerd is killed and started", func(t *testing.T) {
			n.killContainerd(t)
			n.startContainerd(t)
		}},
	} {
		t.Run(f.name, func(t *testing.T) {
			n.stopDuring(t, f.name, f.happen)
			n.await(t, relayAddress, "/readyz")
		})
	}
}

// stopDuring stops one container of each kind and lets the fault happen, while pods start and end.
func (n *nri) stopDuring(t *testing.T, name string, happen func(*testing.T)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	var stops sync.WaitGroup
	for _, c := range stoppedContainers {
		container := n.startStopped(ctx, t, c)
		stops.Go(func() {
			if err := n.stop(ctx, container, c); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
		})
	}
	ended := make(chan struct{})
	e := engine(t, facts())
	var churn sync.WaitGroup
	churn.Go(func() {
		if err := n.churn(ctx, e, strings.ReplaceAll(name, " ", "-"), ended); err != nil {
			t.Errorf("a pod that starts meanwhile: %v", err)
		}
	})
	happen(t)
	stops.Wait()
	close(ended)
	churn.Wait()
}

// churn starts and removes pods, one after another, until ended is closed. As the kubelet does, it
// tries again if the runtime ends.
func (n *nri) churn(ctx context.Context, e *policy.Engine, fault string, ended <-chan struct{}) error {
	for i := 0; ; i++ {
		err := n.startAndRemove(ctx, e, fmt.Sprintf("churn-%s-%d", fault, i))
		if status.Code(err) == codes.Unavailable && ctx.Err() == nil {
			continue // the runtime has ended
		}
		if err != nil {
			return err
		}
		select {
		case <-ended:
			return nil
		default:
		}
	}
}

// startStopped returns a container of c that is ready for its signal.
func (n *nri) startStopped(ctx context.Context, t *testing.T, c stoppedContainer) (container string) {
	t.Helper()
	n.attempt++
	pod := nriPod("stopped-"+c.name, corev1.PodSpec{}, "ClusterFirstWithAutopath")
	sandbox, config := n.startSandbox(ctx, t, pod)
	container = n.startIn(ctx, t, sandbox, config, nodetools.PauseImage, func(config *runtimeapi.ContainerConfig) {
		config.Metadata.Name = c.name
		config.Command = []string{"/bin/busybox", "sh", "-c", strings.ReplaceAll(c.script, "touch", "busybox touch")}
	})
	await(t, func() error {
		_, err := n.exec(ctx, container, "/bin/busybox", "ls", "/ready")
		return err
	})
	return container
}

// unknownExitCode is the exit code that containerd reports if it does not know it.
const unknownExitCode = 255

// stop stops a container as the kubelet does, which calls again if the runtime has ended.
func (n *nri) stop(ctx context.Context, container string, c stoppedContainer) error {
	for called := 0; ; called++ {
		_, err := n.runtime.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: container, Timeout: int64(c.grace.Seconds())})
		if status.Code(err) == codes.Unavailable && ctx.Err() == nil {
			continue
		}
		if err != nil {
			return err
		}
		s, err := n.runtime.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: container})
		if err != nil {
			return err
		}
		got := s.GetStatus()
		lost := got.ExitCode == unknownExitCode && called > 0 // it ended while containerd did not run
		if got.State != runtimeapi.ContainerState_CONTAINER_EXITED || got.ExitCode != c.exitCode && !lost {
			return fmt.Errorf("state %s, exit code %d, want %d", got.State, got.ExitCode, c.exitCode)
		}
		return nil
	}
}

// startAndRemove starts and removes a pod with one container.
func (n *nri) startAndRemove(ctx context.Context, e *policy.Engine, name string) error {
	pod := nriPod(name, corev1.PodSpec{}, "")
	config := n.sandboxOf(e, n.host(), pod)
	sandbox, err := n.start(ctx, config)
	if err != nil {
		return err
	}
	if _, err := n.startContainer(ctx, sandbox, config, nodetools.PauseImage); err != nil {
		return err
	}
	return n.remove(ctx, sandbox)
}

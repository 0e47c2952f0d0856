// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/cri"
	"github.com/dnsconfigurer/dnsconfigurer/test/kubeapi"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// longStop is a container that ignores SIGTERM. Without the wait of the relay a pod started after
// 43.6 seconds.
var longStop = stoppedContainer{name: "long", grace: 45 * time.Second, exitCode: 128 + 9,
	script: `trap "touch /stopping" TERM; touch /ready; while :; do busybox sleep 0.1; done`}

// testRegistration starts and kills the relay while a pod that is deleted is being stopped. Pods start
// meanwhile, and the relay registers after the stop.
func (n *nri) testRegistration(t *testing.T) {
	api := n.startAPI(t)
	n.useAPI(t, fmt.Sprintf("kubeconfig: %s/kubeconfig\n", n.dir))
	n.end(t, n.relay, "KILL")
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	container := n.startStopped(ctx, t, longStop)
	deleted := deletedPod(longStop.grace)
	api.Apply(deleted)
	stopped := make(chan error, 1)
	go func() { stopped <- n.stop(ctx, container, longStop) }()
	await(t, func() error {
		_, err := n.exec(ctx, container, "/bin/busybox", "ls", "/stopping")
		return err
	})
	pods := []string{"meanwhile-started", "meanwhile-killed"}
	for _, name := range pods {
		n.spawnRelay(t)
		pod := nriPod(name, corev1.PodSpec{}, "ClusterFirstWithAutopath")
		began := time.Now()
		n.startPod(t, pod)
		t.Logf("%s: the pod took %v", name, time.Since(began).Round(time.Millisecond))
		n.awaitWaiting(t)
		if name == pods[0] {
			n.end(t, n.relay, "KILL")
		}
	}
	select {
	case err := <-stopped:
		t.Errorf("the pods have started after the stop, which ended with %v", err)
	default:
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	}
	api.Delete(deleted)
	n.await(t, relayAddress, "/readyz")
	for _, name := range pods {
		n.awaitPod(t, name+"-"+nodeName, func(p v1alpha1.NodePod) bool { return p.Outcome == string(cri.Late) })
	}
	body, err := get(&n.http, "http://"+relayAddress+"/metrics")
	if err != nil || !strings.Contains(string(body), "\ndnsconfigurer_nri_waiting 0\n") {
		t.Errorf("%v: no metric dnsconfigurer_nri_waiting 0", err)
	}
	n.useAPI(t, "")
	n.await(t, relayAddress, "/readyz")
}

// startAPI serves the API in the machine's network, and writes a kubeconfig.
func (n *nri) startAPI(t *testing.T) *kubeapi.Server {
	t.Helper()
	api := kubeapi.New()
	var listener net.Listener
	must.Succeed(t, n.inside(ownNetwork, func() (err error) {
		listener, err = new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		return err
	}))
	server := &http.Server{Handler: api, ReadHeaderTimeout: patience}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		server.Close()
		<-ended
	})
	n.write(t, "kubeconfig", kubeapi.Kubeconfig("http://"+listener.Addr().String()))
	return api
}

// useAPI restarts the agent with this addition to its configuration.
func (n *nri) useAPI(t *testing.T, fields string) {
	t.Helper()
	n.end(t, n.agent, "TERM")
	n.write(t, "agent.yaml", strings.ReplaceAll(agentConfiguration, "DIR", n.dir)+fields)
	n.startAgent(t)
}

// awaitWaiting returns when the relay reports that it waits for the end of a stop.
func (n *nri) awaitWaiting(t *testing.T) {
	t.Helper()
	await(t, func() error {
		const want = "pods that are being stopped on this node: 1"
		_, err := get(&n.http, "http://"+relayAddress+"/readyz")
		if err == nil || !strings.Contains(err.Error(), want) {
			return fmt.Errorf("the relay during a stop: %v, want %q", err, want)
		}
		return nil
	})
}

// deletedPod returns a pod as the API server has it while the kubelet stops its container.
func deletedPod(grace time.Duration) *corev1.Pod {
	pod := newPod("stopped-by-deletion", corev1.PodSpec{NodeName: nodeName})
	seconds, end := int64(grace.Seconds()), metav1.NewTime(time.Now().Add(grace))
	pod.UID, pod.DeletionGracePeriodSeconds, pod.DeletionTimestamp = "stopped-by-deletion", &seconds, &end
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", State: running}}
	return pod
}

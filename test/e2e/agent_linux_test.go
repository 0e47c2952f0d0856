// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// agentValues are the values with which the chart installs agent and relay on this node.
var agentValues = []string{"agent.enabled=true", "agent.resolvConf=" + resolvConf, "agent.manifests=" + manifests}

// httpPorts are the ports of the metrics, by component.
var httpPorts = map[string]string{"agent": "9351", "nri": "9352"}

// fallbackText is what pods get with clusterDNSFallback.
const fallbackText = "nameserver 169.254.20.10\nnameserver 10.96.0.10\n" +
	"search search.shop.cluster.local.ap.k8s.io\noptions ndots:5"

// testAgent replaces the shim by the DaemonSets of the chart. Pods get the same.
func (c *cluster) testAgent(t *testing.T) {
	c.runtime = connect(t, containerdSocket)
	for _, test := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"removal of the shim", func(t *testing.T) { c.during(t, func() { c.removeShim(t) }) }},
		{"observe", func(t *testing.T) { c.during(t, func() { c.testObserve(t) }) }},
		{"generate", func(t *testing.T) { c.during(t, func() { c.testGenerate(t) }) }},
		{"rights", c.testRights},
		{"policies", c.testPolicies},
		{"churn", c.testChurn},
		{"outage of the control plane", c.testOutage},
		{"restart of the agent in an outage", c.testAgentOutage},
		{"refresh", c.testRefresh},
		{"upgrade of the configuration", c.testNewConfiguration},
		{"uninstallation", c.testUninstallation},
		{"quick start", c.testQuickStart},
	} {
		if !t.Run(test.name, test.run) {
			break // the next ones need it
		}
	}
}

// autopathPod returns a pod that gets the kubelet's DNS without agent or shim.
func autopathPod(name string) *corev1.Pod { return newPod(name, corev1.PodSpec{DNSPolicy: kepPolicy}) }

// removeShim connects the kubelet to containerd, and deletes the pods that have files of the
// shim, except those that look up names.
func (c *cluster) removeShim(t *testing.T) {
	t.Helper()
	must.Succeed(t, errors.Join(c.kubelet.Stop(), c.shim.Stop()))
	c.kubelet.Args = slices.DeleteFunc(c.kubelet.Args, func(arg string) bool { return arg == kubeletFlags(t) })
	must.Succeed(t, c.kubelet.Start())
	c.remove(t, slices.Sorted(maps.Keys(policyPods()))...)
	c.remove(t, "client", "afterwards", "static-"+nodeName)
	c.create(t, autopathPod("before-agent"))
	c.awaitView(t, "before-agent", clusterText)
}

// remove deletes pods and returns when they are gone.
func (c *cluster) remove(t *testing.T, pods ...string) {
	t.Helper()
	args := []string{"delete", "pods", "--namespace", namespace, "--ignore-not-found", "--timeout", patience.String()}
	c.run(t, "", append(args, pods...)...)
}

// installAgent installs or upgrades the chart, and returns when the pods of agent and relay are
// ready.
func (c *cluster) installAgent(t *testing.T, settings ...string) {
	t.Helper()
	c.install(t, append(slices.Clone(agentValues), settings...)...)
	c.awaitRelay(t)
}

// awaitRelay returns when the only pod of the relay is ready.
func (c *cluster) awaitRelay(t *testing.T) {
	t.Helper()
	await(t, "the relay", func() error {
		ready := c.run(t, "", "get", "daemonset", "dnsconfigurer-nri", "--namespace", "kube-system",
			"--output", "jsonpath={.status.numberReady}")
		if pods := c.chartPods(t, "nri"); ready != "1" || len(pods) != 1 {
			return fmt.Errorf("%s ready, pods: %q", ready, pods)
		}
		return nil
	})
}

// chartPods returns the names of the pods of a component of the chart.
func (c *cluster) chartPods(t *testing.T, component string) []string {
	t.Helper()
	return strings.Fields(c.run(t, "", "get", "pods", "--namespace", "kube-system", "--output", "name",
		"--selector", "app.kubernetes.io/component="+component))
}

// metrics returns the metrics of the only pod of a component.
func (c *cluster) metrics(t *testing.T, component string) (string, error) {
	ip := c.run(t, "", "get", "pods", "--namespace", "kube-system", "--output", "jsonpath={.items[*].status.podIP}",
		"--selector", "app.kubernetes.io/component="+component)
	r, err := http.Get("http://" + net.JoinHostPort(ip, httpPorts[component]) + "/metrics")
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	return string(text), err
}

// testObserve installs the agent in the mode in which it only reports.
func (c *cluster) testObserve(t *testing.T) {
	c.installAgent(t, "agent.config.mode=Observe")
	c.create(t, autopathPod("observed"))
	await(t, "observed pods in the metrics", func() error {
		text, err := c.metrics(t, "agent")
		if err == nil && !strings.Contains(text, `dnsconfigurer_agent_decisions_total{outcome="observed"}`) {
			err = errors.New(text)
		}
		return err
	})
	for _, pod := range []string{"before-agent", "observed"} {
		if diff := cmp.Diff(view{pod, clusterText}, c.view(t, pod)); diff != "" {
			t.Errorf("%s sees (-want +got):\n%s", pod, diff)
		}
	}
}

// testGenerate lets the agent write. Pods that run get their files, too.
func (c *cluster) testGenerate(t *testing.T) {
	c.installAgent(t)
	for _, pod := range []string{"before-agent", "observed"} {
		c.awaitView(t, pod, autopathText)
		c.checkLookups(t, pod)
	}
}

// testRights compares the rights of the processes with those that the chart promises.
func (c *cluster) testRights(t *testing.T) {
	for _, name := range []string{"agent", "nri"} {
		id := must.Get(c.chartContainer(t, name))(t)
		r := must.Get(c.runtime.ContainerStatus(t.Context(), &runtimeapi.ContainerStatusRequest{ContainerId: id, Verbose: true}))(t)
		var info struct{ PID int }
		if err := json.Unmarshal([]byte(r.Info["info"]), &info); err != nil || info.PID == 0 {
			t.Fatalf("%v: %s", err, r.Info["info"])
		}
		status := must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/status", info.PID)))(t)
		for _, line := range []string{ // proc_pid_status(5); 2 is SECCOMP_MODE_FILTER
			"Uid:\t0\t0\t0\t0", "CapInh:\t0000000000000000", "CapPrm:\t0000000000000000", "CapEff:\t0000000000000000",
			"CapBnd:\t0000000000000000", "CapAmb:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2",
		} {
			if !strings.Contains(string(status), "\n"+line+"\n") {
				t.Errorf("%s: no %q in\n%s", name, line, status)
			}
		}
	}
}

// testChurn deletes the pods of agent and relay while pods start and stop. All start, and get
// their files at last.
func (c *cluster) testChurn(t *testing.T) {
	const batch = 6
	var all []string
	start := func(group string) (names []string) {
		t.Helper()
		var manifest strings.Builder
		for i := range batch {
			pod := autopathPod(fmt.Sprintf("%s-%d", group, i))
			manifest.WriteString("---\n" + string(encode(t, pod)) + "\n")
			names = append(names, pod.Name)
		}
		c.apply(t, manifest.String())
		all = append(all, names...)
		return names
	}
	deletePods := func(arguments ...string) {
		t.Helper()
		c.run(t, "", append([]string{"delete", "pods", "--wait=false"}, arguments...)...)
	}
	c.during(t, func() {
		stopping := start("first")
		c.wait(t, "condition=Ready", podNames(stopping)...)
		all = nil
		for _, component := range []string{"agent", "nri"} {
			deletePods(append([]string{"--namespace", namespace}, stopping[:batch/2]...)...)
			stopping = stopping[batch/2:]
			deletePods("--namespace", "kube-system", "--selector", "app.kubernetes.io/component="+component)
			start("without-" + component)
		}
		c.wait(t, "condition=Ready", podNames(all)...)
		c.rollout(t, "daemonset/dnsconfigurer-agent")
		c.awaitRelay(t)
		for _, pod := range all {
			c.awaitView(t, pod, autopathText)
		}
	})
	restarts := c.run(t, "", append([]string{"get", "pods", "--namespace", namespace,
		"--output", "jsonpath={.items[*].status.containerStatuses[*].restartCount}"}, all...)...)
	if strings.Trim(restarts, "0 ") != "" {
		t.Errorf("restarts of containers: %s", restarts)
	}
	counts := regexp.MustCompile("(?m)^dnsconfigurer_(agent_decisions|nri_containers)_total.* [1-9].*")
	for component := range httpPorts {
		await(t, "the metrics of "+component, func() error {
			text, err := c.metrics(t, component)
			if err == nil {
				t.Logf("%s:\n%s", component, strings.Join(counts.FindAllString(text, -1), "\n"))
			}
			return err
		})
	}
	c.remove(t, all...)
}

// podNames returns the arguments of kubectl for pods.
func podNames(names []string) (arguments []string) {
	for _, name := range names {
		arguments = append(arguments, "pod/"+name)
	}
	return arguments
}

// testAgentOutage ends the agent's container, and then a sandbox, while the control plane is away.
// The agent does not find the pod, which starts with the kubelet's DNS. Its file is written when
// the API server is back.
func (c *cluster) testAgentOutage(t *testing.T) {
	const pod = "autopath-kep"
	c.during(t, func() {
		c.api.API.Kill()
		c.api.Etcd.Kill()
		c.endAgent(t)
		c.endSandbox(t, pod)
		if diff := cmp.Diff(view{pod, clusterText}, c.view(t, pod)); diff != "" {
			t.Errorf("%s sees (-want +got):\n%s", pod, diff)
		}
		c.checkLookups(t, pod)
		must.Succeed(t, errors.Join(c.api.Etcd.Start(), c.api.API.Start(), c.api.Ready(t.Context())))
		c.awaitView(t, pod, autopathText)
		c.checkLookups(t, pod)
	})
}

// endAgent ends the agent's container, and returns when the kubelet has started another.
func (c *cluster) endAgent(t *testing.T) {
	t.Helper()
	id := must.Get(c.chartContainer(t, "agent"))(t)
	must.Get(c.runtime.StopContainer(t.Context(), &runtimeapi.StopContainerRequest{ContainerId: id}))(t)
	await(t, "another container of the agent", func() error {
		_, err := c.chartContainer(t, "agent")
		return err
	})
}

// chartContainer returns the ID of the only running container with a name in a pod of the chart.
func (c *cluster) chartContainer(t *testing.T, name string) (string, error) {
	return c.runningContainer(t, map[string]string{
		"io.kubernetes.pod.namespace": "kube-system", "io.kubernetes.container.name": name,
	})
}

// testRefresh replaces the node's resolv.conf, as systemd-resolved does. Pods that run get it.
func (c *cluster) testRefresh(t *testing.T) {
	replaceHost := func(text string) {
		t.Helper()
		writeFile(t, resolvConf+".new", text)
		must.Succeed(t, os.Rename(resolvConf+".new", resolvConf))
	}
	changed := strings.NewReplacer("corp.example node.example", "lab.example", "timeout:3 attempts:2", "attempts:3")
	c.during(t, func() {
		c.installAgent(t, "agent.config.refresh=All")
		for _, text := range []string{changed.Replace(hostResolvConf), hostResolvConf} {
			replaceHost(text)
			for name, pod := range policyPods() {
				want := pod.want.ResolvConf
				if text != hostResolvConf {
					want = changed.Replace(want)
				}
				c.awaitView(t, name, want)
			}
		}
	})
	out, err := exec.Command(c.Dnsconfigurer, "pods", "--socket", "/run/dnsconfigurer/nri/agent/agent-status.sock").CombinedOutput()
	if err != nil {
		t.Errorf("dnsconfigurer pods: %v", err)
	}
	t.Logf("dnsconfigurer pods:\n%s", out)
}

// testNewConfiguration upgrades to another configuration. New pods get it, and pods that run keep
// their files.
func (c *cluster) testNewConfiguration(t *testing.T) {
	relay := c.chartPods(t, "nri")
	c.during(t, func() { c.installAgent(t, "agent.config.autopath.clusterDNSFallback=true") })
	if now := c.chartPods(t, "nri"); !slices.Equal(now, relay) {
		t.Errorf("the upgrade has replaced the relay %q by %q", relay, now)
	}
	c.create(t, autopathPod("with-fallback"))
	c.awaitView(t, "with-fallback", fallbackText)
	if diff := cmp.Diff(view{"observed", autopathText}, c.view(t, "observed")); diff != "" {
		t.Errorf("a pod that runs sees (-want +got):\n%s", diff)
	}
}

// testUninstallation uninstalls the chart. New pods get the kubelet's DNS, and pods that run keep
// their files.
func (c *cluster) testUninstallation(t *testing.T) {
	c.helm(t, "", "uninstall", "dnsconfigurer", "--wait", "--timeout", patience.String())
	const kinds = "all,configmaps,serviceaccounts,roles,rolebindings,clusterroles,clusterrolebindings," +
		"validatingadmissionpolicies,mutatingadmissionpolicies"
	await(t, "removal of all objects", func() error { // helm does not wait for the pods of its objects
		left := c.run(t, "", "get", kinds, "--all-namespaces", "--output", "name",
			"--selector", "app.kubernetes.io/instance=dnsconfigurer")
		if left != "" {
			return errors.New(left)
		}
		return nil
	})
	pod := newPod("after-uninstallation", corev1.PodSpec{})
	pod.Annotations = map[string]string{"dnsconfigurer.dev/policy": "ClusterFirstWithAutopath"}
	c.create(t, pod)
	for name, want := range map[string]string{pod.Name: clusterText, "with-fallback": fallbackText} {
		if diff := cmp.Diff(view{name, want}, c.view(t, name)); diff != "" {
			t.Errorf("%s sees (-want +got):\n%s", name, diff)
		}
	}
}

// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/dnsconfigurer/dnsconfigurer/test/netns"
	"github.com/dnsconfigurer/dnsconfigurer/test/poll"
)

// node runs the pods of the cluster DNS as a kubelet does, as far as the test needs that: each in a
// network namespace and a root directory of its own, with the arguments, the user, the sysctls and
// the volumes of the pod. There is no container runtime: test/e2e has one.
type node struct {
	*cluster
	programs map[string]string // by a part of the image
	pods     map[types.UID]*runningPod
	started  int
}

// runningPod is a pod with one container.
type runningPod struct {
	network *netns.Pod
	process *os.Process
	ended   chan error
	log     string // path
	ready   bool
}

// getAll returns the objects of a kind in kube-system.
func getAll[T any](c *cluster, kind string) []T {
	c.Helper()
	var list struct{ Items []T }
	if err := yaml.Unmarshal([]byte(c.run("", "get", kind, "--namespace=kube-system", "--output=json")), &list); err != nil {
		c.Fatal(err)
	}
	return list.Items
}

// settle starts and stops pods until those of all Deployments are ready, and the EndpointSlices
// have them.
func (n *node) settle() {
	n.Helper()
	poll.UntilNil(n, "rollouts", func() error {
		pods := n.sync()
		left := len(pods)
		for _, d := range getAll[appsv1.Deployment](n.cluster, "deployments") {
			want, s := *d.Spec.Replicas, d.Status
			if s.ObservedGeneration != d.Generation || s.Replicas != want || s.UpdatedReplicas != want || s.AvailableReplicas != want {
				return fmt.Errorf("%s has the status %+v", d.Name, s)
			}
			left -= int(want)
		}
		if left > 0 {
			return fmt.Errorf("%d pods are left", left)
		}
		slicesOf := getAll[discoveryv1.EndpointSlice](n.cluster, "endpointslices")
		for _, s := range getAll[corev1.Service](n.cluster, "services") {
			if got, want := readyAddrs(s, slicesOf), selectedAddrs(s, pods); !slices.Equal(got, want) {
				return fmt.Errorf("Service %s has the endpoints %q, want %q", s.Name, got, want)
			}
		}
		return nil
	}, n)
}

// String returns the logs of the pods.
func (n *node) String() string {
	var text strings.Builder
	for _, p := range n.pods {
		log, err := os.ReadFile(p.log)
		fmt.Fprintf(&text, "%s, ready %t:\n%s%v\n", p.network.Addr, p.ready, log, err)
	}
	return text.String()
}

// readyAddrs returns the sorted addresses of the ready endpoints of a Service.
func readyAddrs(s corev1.Service, all []discoveryv1.EndpointSlice) (addrs []string) {
	for _, slice := range all {
		for _, e := range slice.Endpoints {
			if slice.Labels[discoveryv1.LabelServiceName] == s.Name && *e.Conditions.Ready {
				addrs = append(addrs, e.Addresses...)
			}
		}
	}
	slices.Sort(addrs)
	return addrs
}

// selectedAddrs returns the sorted addresses of the ready pods that a Service selects.
func selectedAddrs(s corev1.Service, pods []corev1.Pod) (addrs []string) {
	for _, p := range pods {
		if p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil && selects(s.Spec.Selector, p.Labels) {
			addrs = append(addrs, p.Status.PodIP)
		}
	}
	slices.Sort(addrs)
	return addrs
}

func selects(selector, labels map[string]string) bool {
	for key, value := range selector {
		if labels[key] != value {
			return false
		}
	}
	return len(selector) > 0
}

// nodeName is the Node of the pods. The controllers leave out pods of a Node that does not exist.
const nodeName = "node"

// newNode creates the Node.
func newNode(c *cluster, programs map[string]string) *node {
	c.run("{apiVersion: v1, kind: Node, metadata: {name: "+nodeName+"}}", "create", "-f", "-")
	return &node{cluster: c, programs: programs, pods: map[types.UID]*runningPod{}}
}

// sync starts the pods that do not run yet, stops those that are deleted, and reports those that
// have become ready. It returns the pods that the API server had before.
func (n *node) sync() []corev1.Pod {
	n.Helper()
	pods := getAll[corev1.Pod](n.cluster, "pods")
	for _, pod := range pods {
		path := "/api/v1/namespaces/kube-system/pods/" + pod.Name
		p := n.pods[pod.UID]
		switch {
		case p == nil:
			n.run(`{"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "`+pod.Name+`"}, "target": {"kind": "Node", "name": "`+
				nodeName+`"}}`, "create", "--raw="+path+"/binding", "-f", "-")
			n.pods[pod.UID] = n.start(pod)
		case pod.DeletionTimestamp != nil:
			p.stop()
			n.run("", "delete", "--raw="+path+"?gracePeriodSeconds=0")
		case !p.ready && p.isReady(pod.Spec.Containers[0]):
			p.ready = true
			n.run("", "patch", "pod", pod.Name, "--namespace=kube-system", "--subresource=status", "--patch", fmt.Sprintf(
				`{"status":{"phase":"Running","podIP":%q,"podIPs":[{"ip":%[1]q}],"conditions":[{"type":"Ready","status":"True"}]}}`,
				p.network.Addr))
		}
	}
	return pods
}

// start starts the container of a pod.
func (n *node) start(pod corev1.Pod) *runningPod {
	n.Helper()
	n.started++
	root := n.TempDir()
	p := &runningPod{network: netns.NewPod(n, n.started), ended: make(chan error, 1), log: filepath.Join(root, "log")}
	container, security := pod.Spec.Containers[0], pod.Spec.SecurityContext
	user := &syscall.Credential{}
	if security.RunAsUser != nil {
		user.Uid, user.Gid = uint32(*security.RunAsUser), uint32(*security.RunAsGroup)
	}
	n.writeRoot(root, pod, p.network.Node, user)
	log, err := os.Create(p.log)
	if err != nil {
		n.Fatal(err)
	}
	defer log.Close()
	cmd := &exec.Cmd{
		Path: "/program", Args: append([]string{"/program"}, container.Args...), Dir: "/", Stdout: log, Stderr: log,
		Env:         []string{"KUBERNETES_SERVICE_HOST=" + apiHost, "KUBERNETES_SERVICE_PORT=" + n.apiPort()},
		SysProcAttr: &syscall.SysProcAttr{Chroot: root, Credential: user, Pdeathsig: syscall.SIGKILL},
	}
	for _, e := range container.Env {
		cmd.Env = append(cmd.Env, e.Name+"="+e.Value)
	}
	started := make(chan error)
	go p.network.Do(func() { // until the container ends: its parent is the thread
		for _, s := range security.Sysctls {
			file := "/proc/sys/" + strings.ReplaceAll(s.Name, ".", "/")
			if err := os.WriteFile(file, []byte(s.Value), 0o644); err != nil {
				started <- err
				return
			}
		}
		err := cmd.Start()
		started <- err
		if err == nil {
			p.ended <- cmd.Wait()
		}
	})
	if err := <-started; err != nil {
		n.Fatal(err)
	}
	p.process = cmd.Process
	n.Cleanup(p.stop)
	return p
}

func (p *runningPod) stop() {
	_ = p.process.Kill() // it may have ended
	p.ended <- <-p.ended
}

// apiHost is a name in the certificate of the API server.
const apiHost = "kubernetes.default.svc"

func (n *node) apiPort() string {
	_, port, err := net.SplitHostPort(n.server.Address())
	if err != nil {
		n.Fatal(err)
	}
	return port
}

// writeRoot writes the root directory of a pod: the program of its image, what a container runtime
// adds, and the volumes.
func (n *node) writeRoot(root string, pod corev1.Pod, api string, user *syscall.Credential) {
	n.Helper()
	container := pod.Spec.Containers[0]
	files := map[string]string{
		"etc/hosts": api + " " + apiHost + "\n", "etc/resolv.conf": "nameserver " + noServer + "\n",
	}
	for image, program := range n.programs {
		if strings.Contains(container.Image, image) {
			text, err := os.ReadFile(program)
			if err := errors.Join(err, os.WriteFile(filepath.Join(root, "program"), text, 0o755)); err != nil {
				n.Fatal(err)
			}
		}
	}
	for _, m := range container.VolumeMounts {
		i := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name })
		switch v := pod.Spec.Volumes[i]; {
		case v.ConfigMap != nil:
			for _, o := range getAll[corev1.ConfigMap](n.cluster, "configmaps") {
				for key, text := range o.Data {
					if o.Name == v.ConfigMap.Name {
						files[filepath.Join(m.MountPath, key)] = text
					}
				}
			}
		case v.Projected != nil:
			authority, err := os.ReadFile(n.server.Authority())
			if err != nil {
				n.Fatal(err)
			}
			files[filepath.Join(m.MountPath, "ca.crt")] = string(authority)
			files[filepath.Join(m.MountPath, "token")] = n.run("", "create", "token", pod.Spec.ServiceAccountName,
				"--namespace=kube-system")
		case v.EmptyDir != nil:
			dir := filepath.Join(root, m.MountPath)
			if err := errors.Join(os.MkdirAll(dir, 0o755), os.Chown(dir, int(user.Uid), int(user.Gid))); err != nil {
				n.Fatal(err)
			}
		}
	}
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			n.Fatal(err)
		}
	}
	// Temporary directories are readable for root only.
	for dir := root; dir != "/"; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm()&0o005 == 0 {
			if err := errors.Join(err, os.Chmod(dir, 0o755)); err != nil {
				n.Fatal(err)
			}
		}
	}
}

// isReady calls the readiness probe of a container.
func (p *runningPod) isReady(c corev1.Container) bool {
	probe := c.ReadinessProbe.HTTPGet
	i := slices.IndexFunc(c.Ports, func(port corev1.ContainerPort) bool { return port.Name == probe.Port.StrVal })
	client := http.Client{Timeout: probeTime}
	response, err := client.Get(fmt.Sprintf("http://%s:%d%s", p.network.Addr, c.Ports[i].ContainerPort, probe.Path))
	if err != nil {
		return false
	}
	response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// probeTime is enough for a reply over a virtual link of a busy machine.
const probeTime = 10 * time.Second

// unreachable returns a line for each ready endpoint of a Service that does not reply on its port, over
// UDP or over TCP. replies is the number of the others.
func (n *node) unreachable() (problems []string, replies int) {
	n.Helper()
	for _, slice := range getAll[discoveryv1.EndpointSlice](n.cluster, "endpointslices") {
		for _, port := range slice.Ports {
			for _, e := range slice.Endpoints {
				address := net.JoinHostPort(e.Addresses[0], fmt.Sprint(*port.Port))
				if !*e.Conditions.Ready { // the pod is deleted
					continue
				}
				if err := query(n.Context(), strings.ToLower(string(*port.Protocol)), address, *port.Name); err != nil {
					service := slice.Labels[discoveryv1.LabelServiceName]
					problems = append(problems, fmt.Sprintf("Service %s, port %s: %v", service, *port.Name, err))
					continue
				}
				replies++
			}
		}
	}
	slices.Sort(problems)
	return problems, replies
}

// query resolves a name of the cluster with a server, or connects to its port for metrics.
func query(ctx context.Context, network, address, port string) error {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{Timeout: probeTime}).DialContext(ctx, network, address)
	}
	if port == "metrics" {
		conn, err := dial(ctx, "", "")
		if err == nil {
			err = conn.Close()
		}
		return err
	}
	resolver := net.Resolver{PreferGo: true, StrictErrors: true, Dial: dial}
	addrs, err := resolver.LookupNetIP(ctx, "ip4", apiHost+".cluster.local.")
	if err == nil && len(addrs) != 1 {
		err = fmt.Errorf("%d addresses", len(addrs))
	}
	return err
}
